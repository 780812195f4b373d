// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of every kind in this package.
const GroupName = "metal3.io"

// SchemeGroupVersion is the group and version of every kind in this package.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

var (
	// SchemeBuilder collects the functions that AddToScheme runs.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes, addFieldLabelConversions, addDefaultingFuncs, addConversionFuncs)
	// AddToScheme registers the external kinds of metal3.io/v1alpha1.
	AddToScheme = SchemeBuilder.AddToScheme
)

// Kind returns the group-qualified form of a kind of this group.
func Kind(kind string) schema.GroupKind {
	return SchemeGroupVersion.WithKind(kind).GroupKind()
}

// Resource returns the group-qualified form of a resource of this group.
func Resource(resource string) schema.GroupResource {
	return SchemeGroupVersion.WithResource(resource).GroupResource()
}

// KnownTypes returns an empty object of each kind of this group. The install package
// registers the same types again as the internal version.
func KnownTypes() []runtime.Object {
	return []runtime.Object{
		&BareMetalHost{},
		&BareMetalHostList{},
		&HostPower{},
		&HostInspection{},
		&HostRetry{},
		&HostTakeover{},
		&HostTransfer{},
		&HostConsoleOptions{},
		&HostValidation{},
		&HostHistory{},
		&HostHistoryOptions{},
		&HostMaintenance{},
		&HostBootDevice{},
		&HostNMI{},
		&HostIndicator{},
		&HostRebuild{},
		&HostClean{},
		&HardwareData{},
		&HardwareDataList{},
		&BareMetalSwitch{},
		&BareMetalSwitchList{},
		&BMCEventSubscription{},
		&BMCEventSubscriptionList{},
		&DataImage{},
		&DataImageList{},
		&FirmwareSchema{},
		&FirmwareSchemaList{},
		&HostClaim{},
		&HostClaimList{},
		&HostDeployPolicy{},
		&HostDeployPolicyList{},
		&HostFirmwareComponents{},
		&HostFirmwareComponentsList{},
		&HostFirmwareSettings{},
		&HostFirmwareSettingsList{},
		&HostNetworkAttachment{},
		&HostNetworkAttachmentList{},
		&HostUpdatePolicy{},
		&HostUpdatePolicyList{},
		&PreprovisioningImage{},
		&PreprovisioningImageList{},
		&Provisioning{},
		&ProvisioningList{},
	}
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, KnownTypes()...)
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}

// BareMetalHostFieldLabels are the fields that field selectors on hosts support.
var BareMetalHostFieldLabels = []string{
	"metadata.name",
	"metadata.namespace",
	"status.provisioning.state",
	"status.operationalStatus",
	"status.poweredOn",
	"status.ironic.instance",
	"spec.online",
	"spec.bmc.address",
	"spec.consumerRef.name",
}

func addFieldLabelConversions(scheme *runtime.Scheme) error {
	return scheme.AddFieldLabelConversionFunc(SchemeGroupVersion.WithKind("BareMetalHost"),
		func(label, value string) (string, string, error) {
			for _, known := range BareMetalHostFieldLabels {
				if label == known {
					return label, value, nil
				}
			}
			return "", "", fmt.Errorf("field selectors on baremetalhosts cannot use %q; supported are %q", label, BareMetalHostFieldLabels)
		})
}
