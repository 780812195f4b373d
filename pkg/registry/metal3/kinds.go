// SPDX-License-Identifier: Apache-2.0

package metal3

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/kind"
	"github.com/metal3-io/metal3-apiserver/pkg/store"
)

// Resources that are used in other places of this package.
const (
	hostFirmwareComponents = "hostfirmwarecomponents"
	hostFirmwareSettings   = "hostfirmwaresettings"
	hostNetworkAttachments = "hostnetworkattachments"
)

// kinds are all kinds except BareMetalHost. Their names, columns and status subresources are
// those of the CRDs. A CRD without columns prints the age.
var kinds = []kind.Kind{
	{
		Resource: "baremetalswitches", Singular: "baremetalswitch", ShortNames: []string{"bms"},
		New:     func() runtime.Object { return &metal3.BareMetalSwitch{} },
		NewList: func() runtime.Object { return &metal3.BareMetalSwitchList{} },
		Columns: []kind.Column{
			{Name: "Driver", Type: "string", JSONPath: ".spec.driver", Description: "Driver that configures the switch."},
			{Name: "Device Type", Type: "string", JSONPath: ".spec.deviceType", Description: "Device type of the switch."},
			{Name: "Address", Type: "string", JSONPath: ".spec.address", Description: "Address of the switch."},
			{Name: "Valid", Type: "string", JSONPath: `.status.conditions[?(@.type=="Valid")].status`, Description: "Whether Ironic's configuration includes the switch."},
		},
		HasStatus: true,
		Validate:  validator(validation.ValidateBareMetalSwitch),
		// Ironic's networking service logs in to the address in the spec with them.
		Secrets: secretOf(func(s *metal3.BareMetalSwitch) (string, *field.Path) {
			if s.Spec.Credentials == nil {
				return "", nil
			}
			return s.Spec.Credentials.Name, field.NewPath("spec", "credentials", "name")
		}),
	},
	{
		Resource: "bmceventsubscriptions", Singular: "bmceventsubscription", ShortNames: []string{"bes", "bmcevent"},
		New:     func() runtime.Object { return &metal3.BMCEventSubscription{} },
		NewList: func() runtime.Object { return &metal3.BMCEventSubscriptionList{} },
		Columns: []kind.Column{
			{Name: "Error", Type: "string", JSONPath: ".status.error", Description: "Why the subscription could not be created."},
			kind.Age,
		},
		HasStatus: true,
		Validate:  validator(validation.ValidateBMCEventSubscription),
		// The BMC sends them to the URL in the spec, as HTTP headers.
		Secrets: secretOf(func(s *metal3.BMCEventSubscription) (string, *field.Path) {
			if s.Spec.HTTPHeadersRef == nil {
				return "", nil
			}
			return s.Spec.HTTPHeadersRef.Name, field.NewPath("spec", "httpHeadersRef", "name")
		}),
	},
	{
		Resource: "dataimages", Singular: "dataimage",
		New:       func() runtime.Object { return &metal3.DataImage{} },
		NewList:   func() runtime.Object { return &metal3.DataImageList{} },
		Columns:   []kind.Column{kind.Age},
		HasStatus: true,
		Validate:  validator(validation.ValidateDataImage),
	},
	{
		Resource: "firmwareschemas", Singular: "firmwareschema",
		New:     func() runtime.Object { return &metal3.FirmwareSchema{} },
		NewList: func() runtime.Object { return &metal3.FirmwareSchemaList{} },
		Columns: []kind.Column{kind.Age},
		// The schema of a large BIOS has thousands of attributes with all of their values.
		Limits:   validation.Limits{Spec: 768 << 10},
		Validate: validator(validation.ValidateFirmwareSchema),
	},
	{
		Resource: "hardwaredata", Singular: "hardwaredata", ShortNames: []string{"hd"},
		New:     func() runtime.Object { return &metal3.HardwareData{} },
		NewList: func() runtime.Object { return &metal3.HardwareDataList{} },
		Columns: []kind.Column{kind.Age},
		// The inventory, in an object with one field.
		Limits:   validation.Limits{Spec: validation.MaxHardware + 100},
		Validate: validator(validation.ValidateHardwareData),
	},
	{
		Resource: "hostclaims", Singular: "hostclaim",
		New:       func() runtime.Object { return &metal3.HostClaim{} },
		NewList:   func() runtime.Object { return &metal3.HostClaimList{} },
		Columns:   []kind.Column{kind.Age},
		HasStatus: true,
		Validate:  validator(validation.ValidateHostClaim),
	},
	{
		Resource: "hostdeploypolicies", Singular: "hostdeploypolicy",
		New:       func() runtime.Object { return &metal3.HostDeployPolicy{} },
		NewList:   func() runtime.Object { return &metal3.HostDeployPolicyList{} },
		Columns:   []kind.Column{kind.Age},
		HasStatus: true,
		Validate:  validator(validation.ValidateHostDeployPolicy),
	},
	{
		Resource: hostFirmwareComponents, Singular: hostFirmwareComponents,
		New:       func() runtime.Object { return &metal3.HostFirmwareComponents{} },
		NewList:   func() runtime.Object { return &metal3.HostFirmwareComponentsList{} },
		Columns:   []kind.Column{kind.Age},
		HasStatus: true,
		Validate:  validator(validation.ValidateHostFirmwareComponents),
	},
	{
		Resource: hostFirmwareSettings, Singular: hostFirmwareSettings, ShortNames: []string{"hfs"},
		New:       func() runtime.Object { return &metal3.HostFirmwareSettings{} },
		NewList:   func() runtime.Object { return &metal3.HostFirmwareSettingsList{} },
		Columns:   []kind.Column{kind.Age},
		HasStatus: true,
		// The status has all settings, the spec only those that are to be changed.
		Limits:   validation.Limits{Spec: 256 << 10, Status: 512 << 10},
		Validate: validator(validation.ValidateHostFirmwareSettings),
	},
	{
		Resource: hostNetworkAttachments, Singular: "hostnetworkattachment",
		New:     func() runtime.Object { return &metal3.HostNetworkAttachment{} },
		NewList: func() runtime.Object { return &metal3.HostNetworkAttachmentList{} },
		Columns: []kind.Column{
			{Name: "Mode", Type: "string", JSONPath: ".spec.mode", Description: "Mode of the switch port."},
			{Name: "Native VLAN", Type: "integer", JSONPath: ".spec.nativeVLAN", Description: "VLAN of untagged traffic."},
			kind.Age,
		},
		HasStatus: true, // the CRD has the subresource, although there is no field Status
		Validate:  validator(validation.ValidateHostNetworkAttachment),
	},
	{
		Resource: "hostupdatepolicies", Singular: "hostupdatepolicy",
		New:      func() runtime.Object { return &metal3.HostUpdatePolicy{} },
		NewList:  func() runtime.Object { return &metal3.HostUpdatePolicyList{} },
		Columns:  []kind.Column{kind.Age},
		Validate: validator(validation.ValidateHostUpdatePolicy),
	},
	{
		Resource: "preprovisioningimages", Singular: "preprovisioningimage", ShortNames: []string{"ppimg"},
		New:     func() runtime.Object { return &metal3.PreprovisioningImage{} },
		NewList: func() runtime.Object { return &metal3.PreprovisioningImageList{} },
		Columns: []kind.Column{
			{Name: "Ready", Type: "string", JSONPath: `.status.conditions[?(@.type=="Ready")].status`, Description: "Whether the image is available."},
			{Name: "Reason", Type: "string", JSONPath: `.status.conditions[?(@.type=="Ready")].reason`, Description: "Why the image is, or is not, available."},
		},
		HasStatus: true,
		Validate:  validator(validation.ValidatePreprovisioningImage),
		// An image that contains it is served at a URL in the status.
		Secrets: secretOf(func(i *metal3.PreprovisioningImage) (string, *field.Path) {
			return i.Spec.NetworkDataName, field.NewPath("spec", "networkDataName")
		}),
	},
	{
		// It is served even where OpenShift's cluster-baremetal-operator, to which it belongs, does not run: if
		// that had to be requested, and was forgotten, the operator would lose its configuration.
		Resource: "provisionings", Singular: "provisioning", ClusterScoped: true,
		New:       func() runtime.Object { return &metal3.Provisioning{} },
		NewList:   func() runtime.Object { return &metal3.ProvisioningList{} },
		Columns:   []kind.Column{kind.Age},
		HasStatus: true,
	},
}

// validator adapts the validation function of a kind to the signature of Kind.Validate.
func validator[T runtime.Object](validate func(obj, old T) field.ErrorList) func(obj, old runtime.Object) field.ErrorList {
	return func(obj, old runtime.Object) field.ErrorList {
		before, _ := old.(T) // nil for a new object
		return validate(obj.(T), before)
	}
}

// secretOf adapts a function that returns the name of a Secret, or nothing, and the field that has it, to
// the signature of Kind.Secrets.
func secretOf[T runtime.Object](reference func(T) (name string, path *field.Path)) func(runtime.Object) []kind.SecretReference {
	return func(obj runtime.Object) []kind.SecretReference {
		name, path := reference(obj.(T))
		if name == "" {
			return nil
		}
		return []kind.SecretReference{{Name: name, Path: path}}
	}
}

// Kinds has the storage of all kinds except BareMetalHost, by resource.
type Kinds map[string]*kind.REST

// NewKinds returns the storage of each kind.
func NewKinds(scheme *runtime.Scheme, optsGetter generic.RESTOptionsGetter) (Kinds, error) {
	all := Kinds{}
	for _, k := range kinds {
		storage, err := kind.NewREST(k, scheme, optsGetter)
		if err != nil {
			return nil, err
		}
		all[k.Resource] = storage
	}
	return all, nil
}

// Objects returns the recorded objects of the kind T, for the engine.
func Objects[T store.Object](all Kinds) *store.Objects[T] {
	for _, k := range kinds {
		if _, is := k.New().(T); is {
			return kind.Objects[T](all[k.Resource])
		}
	}
	panic(fmt.Sprintf("%T is no kind of this group", *new(T)))
}

// HardwareData returns the recorded HardwareData, for the engine.
func (k Kinds) HardwareData() *store.HardwareData {
	return &store.HardwareData{Objects: Objects[*metal3.HardwareData](k)}
}
