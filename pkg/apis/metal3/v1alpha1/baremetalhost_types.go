// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"net"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// +genclient
// +genclient:method=Power,verb=create,subresource=power,input=github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1.HostPower,result=github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1.HostPower
// +genclient:method=GetPower,verb=get,subresource=power,result=github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1.HostPower
// +genclient:method=Inspect,verb=create,subresource=inspect,input=github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1.HostInspection,result=github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1.HostInspection
// +genclient:method=GetInspect,verb=get,subresource=inspect,result=github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1.HostInspection
// +genclient:method=Retry,verb=create,subresource=retry,input=github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1.HostRetry,result=github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1.HostRetry
// +genclient:method=Takeover,verb=create,subresource=takeover,input=github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1.HostTakeover,result=github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1.HostTakeover
// +genclient:method=Transfer,verb=create,subresource=transfer,input=github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1.HostTransfer,result=github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1.HostTransfer
// +genclient:method=GetValidation,verb=get,subresource=validate,result=github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1.HostValidation
// +genclient:method=GetHistory,verb=get,subresource=history,result=github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1.HostHistory
// +genclient:method=Maintenance,verb=create,subresource=maintenance,input=github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1.HostMaintenance,result=github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1.HostMaintenance
// +genclient:method=GetMaintenance,verb=get,subresource=maintenance,result=github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1.HostMaintenance
// +genclient:method=BootDevice,verb=create,subresource=bootdevice,input=github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1.HostBootDevice,result=github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1.HostBootDevice
// +genclient:method=GetBootDevice,verb=get,subresource=bootdevice,result=github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1.HostBootDevice
// +genclient:method=NMI,verb=create,subresource=nmi,input=github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1.HostNMI,result=github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1.HostNMI
// +genclient:method=Indicator,verb=create,subresource=indicator,input=github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1.HostIndicator,result=github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1.HostIndicator
// +genclient:method=GetIndicator,verb=get,subresource=indicator,result=github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1.HostIndicator
// +genclient:method=Rebuild,verb=create,subresource=rebuild,input=github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1.HostRebuild,result=github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1.HostRebuild
// +genclient:method=Clean,verb=create,subresource=clean,input=github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1.HostClean,result=github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1.HostClean
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// BareMetalHost is a physical server that OpenStack Ironic manages through the server's
// baseboard management controller (BMC). The spec is the desired state of the host; the
// status is what Ironic reports about it at the moment of reading.
//
// What can be done with a host beyond its spec, and reports about it, are subresources:
// power, inspect, retry, rebuild, clean, takeover, transfer, maintenance, history, validate, bootdevice,
// nmi, indicator and console. For bootdevice, nmi, indicator and console, Ironic asks the BMC
// while the caller waits, and for validate the image server, for at most 25 seconds. The
// others do not wait for the machine.
type BareMetalHost struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata. The name may contain only letters, digits, '.', '_' and '-',
	// and must not look like a UUID, because Ironic would take it for the UUID of another
	// node.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The desired state of the host.
	// +optional
	Spec BareMetalHostSpec `json:"spec,omitempty"`
	// The observed state of the host, as reported by Ironic at the moment of reading.
	// +optional
	Status BareMetalHostStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// BareMetalHostList is a list of hosts.
type BareMetalHostList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// The hosts.
	Items []BareMetalHost `json:"items"`
}

// BareMetalHostSpec is the desired state of a host.
type BareMetalHostSpec struct {
	// Taints for the Kubernetes node that runs on the host. This was never implemented; the
	// field exists so that old manifests are accepted.
	//
	// Deprecated: this field has no effect.
	// +optional
	// +listType=atomic
	Taints []corev1.Taint `json:"taints,omitempty"`

	// How to reach the host's baseboard management controller (BMC). A host without it is
	// not managed; its operational status is discovered.
	// +optional
	BMC BMCDetails `json:"bmc,omitempty"`

	// The RAID volumes to create before the host becomes available.
	// +optional
	RAID *RAIDConfig `json:"raid,omitempty"`

	// BIOS settings. They are refused: use a HostFirmwareSettings object instead.
	//
	// Deprecated: use HostFirmwareSettings.
	// +optional
	Firmware *FirmwareConfig `json:"firmware,omitempty"`

	// The name of a hardware profile. Its only remaining effect is a default for the root
	// device if rootDeviceHints is not set.
	//
	// Deprecated: use rootDeviceHints.
	// +optional
	HardwareProfile string `json:"hardwareProfile,omitempty"`

	// Hints that select the disk to which the image is written. A disk must match all of
	// them.
	// +optional
	RootDeviceHints *RootDeviceHints `json:"rootDeviceHints,omitempty"`

	// How the firmware boots the host: UEFI, UEFISecureBoot or legacy. The default is UEFI.
	// +optional
	BootMode BootMode `json:"bootMode,omitempty"`

	// The MAC address of the network interface from which the host boots, for example
	// 00:ab:4f:d8:9e:fa. It is required for libvirt and if inspection is disabled. It cannot
	// be changed once it is set. An address that no interface can have, such as
	// 00:00:00:00:00:00, is ignored.
	// +optional
	// +k8s:validation:pattern="^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$"
	BootMACAddress string `json:"bootMACAddress,omitempty"`

	// Whether the host should be powered on. A request to the /power subresource also
	// changes this field.
	Online bool `json:"online"`

	// The object that uses the host. A host that has a consumer is not available to others.
	// +optional
	ConsumerRef *corev1.ObjectReference `json:"consumerRef,omitempty"`

	// The image to write to the host. Setting this field provisions the host. Removing it, or
	// changing the URL of the image, deprovisions the host.
	// +optional
	Image *Image `json:"image,omitempty"`

	// A Secret with user data (for cloud-init or Ignition), in its key userData or value. The
	// Secret must be in the namespace of the host.
	// +optional
	UserData *corev1.SecretReference `json:"userData,omitempty"`

	// The name of a Secret with the network configuration for the ramdisk that inspects and
	// deploys the host, for use without DHCP. The Secret must be in the namespace of the
	// host.
	// +optional
	PreprovisioningNetworkDataName string `json:"preprovisioningNetworkDataName,omitempty"`

	// A Secret with the network configuration of the deployed system, in its key networkData
	// or value. The Secret must be in the namespace of the host.
	// +optional
	NetworkData *corev1.SecretReference `json:"networkData,omitempty"`

	// A Secret with metadata for the deployed system, in its key metaData or value. The
	// Secret must be in the namespace of the host.
	// +optional
	MetaData *corev1.SecretReference `json:"metaData,omitempty"`

	// A description of the host, for people.
	// +optional
	Description string `json:"description,omitempty"`

	// Whether the host already runs a system that was installed by other means. Such a host
	// is adopted and its power is managed, but it is never inspected and its disks are never
	// written to.
	// +optional
	ExternallyProvisioned bool `json:"externallyProvisioned,omitempty"`

	// What is done to the disks when the host is cleaned: metadata removes partition tables
	// and file system signatures, disabled leaves the disks unchanged.
	// +optional
	// +default="metadata"
	AutomatedCleaningMode AutomatedCleaningMode `json:"automatedCleaningMode,omitempty"`

	// A deploy procedure of a custom ramdisk. It replaces or extends the writing of an image.
	// +optional
	CustomDeploy *CustomDeploy `json:"customDeploy,omitempty"`

	// The CPU architecture of the host, for example x86_64 or aarch64. If it is empty, the
	// one that the inspection finds is used.
	// +optional
	Architecture string `json:"architecture,omitempty"`

	// Whether the host must never be powered off, only rebooted. Requires online to be true.
	// +optional
	DisablePowerOff bool `json:"disablePowerOff,omitempty"`

	// How the hardware is inspected: agent boots a ramdisk on the host, fast only asks the
	// BMC (Redfish and iDRAC only), disabled does neither. The default is agent.
	// +optional
	InspectionMode InspectionMode `json:"inspectionMode,omitempty"`

	// The network interfaces of the host and the networks to attach them to.
	// +optional
	// +listType=atomic
	NetworkInterfaces []NetworkInterface `json:"networkInterfaces,omitempty"`
}

// BMCDetails says how to reach the baseboard management controller of a host.
type BMCDetails struct {
	// The address of the BMC as a URL, for example ipmi://192.168.111.1:6233 or
	// redfish-virtualmedia://[2001:db8::1]/redfish/v1/Systems/1. The scheme determines
	// Ironic's driver: ipmi, libvirt, redfish, redfish-virtualmedia, redfish-uefihttp,
	// ilo5-redfish, ilo5-virtualmedia, idrac-redfish or idrac-virtualmedia. The last seven
	// can be followed by +http or +https. An address without a scheme is an ipmi address.
	Address string `json:"address"`

	// The name of a Secret with the keys username and password, in the namespace of the
	// host.
	CredentialsName string `json:"credentialsName"`

	// Whether the TLS certificate of the BMC is not verified. This is necessary if the
	// certificate is self-signed, but lets anyone who intercepts the connection read the
	// password.
	// +optional
	DisableCertificateVerification bool `json:"disableCertificateVerification,omitempty"`
}

// BootMode is how the firmware boots the host.
// +enum
type BootMode string

// The boot modes.
const (
	// UEFI boots with UEFI firmware.
	UEFI BootMode = "UEFI"
	// UEFISecureBoot boots with UEFI firmware and verifies signatures.
	UEFISecureBoot BootMode = "UEFISecureBoot"
	// Legacy boots with BIOS firmware.
	Legacy BootMode = "legacy"
)

// DefaultBootMode is the boot mode of a host that does not specify one.
const DefaultBootMode = UEFI

// AutomatedCleaningMode is what is done to the disks of a host when it is cleaned.
// +enum
type AutomatedCleaningMode string

// The automated cleaning modes.
const (
	// CleaningModeMetadata removes partition tables and file system signatures.
	CleaningModeMetadata AutomatedCleaningMode = "metadata"
	// CleaningModeDisabled leaves the disks unchanged.
	CleaningModeDisabled AutomatedCleaningMode = "disabled"
)

// InspectionMode is how the hardware of a host is inspected.
// +enum
type InspectionMode string

// The inspection modes.
const (
	// InspectionModeDisabled disables inspection.
	InspectionModeDisabled InspectionMode = "disabled"
	// InspectionModeAgent boots a ramdisk on the host.
	InspectionModeAgent InspectionMode = "agent"
	// InspectionModeFast only asks the BMC, without booting the host.
	InspectionModeFast InspectionMode = "fast"
)

// CustomDeploy names a deploy procedure of a custom ramdisk.
type CustomDeploy struct {
	// The name of the deploy step that the ramdisk runs, without the interface deploy.
	Method string `json:"method"`
}

// HasBMCDetails reports whether the spec has any details of a BMC. Without them, there is
// nothing to register in Ironic.
func (host *BareMetalHost) HasBMCDetails() bool {
	return host.Spec.BMC.Address != "" || host.Spec.BMC.CredentialsName != ""
}

// CredentialsKey returns the namespace and name of the Secret with the BMC's user name and
// password.
func (host *BareMetalHost) CredentialsKey() types.NamespacedName {
	return types.NamespacedName{Namespace: host.Namespace, Name: host.Spec.BMC.CredentialsName}
}

// BootMAC returns the MAC address from which the host boots, in lower case; empty if the spec has none. Templates have zeros or a
// broadcast address in its place, which are ignored: no interface has a group address.
func (spec *BareMetalHostSpec) BootMAC() string {
	address, err := net.ParseMAC(spec.BootMACAddress)
	if err != nil || address[0]&1 != 0 || strings.Trim(address.String(), "0:") == "" {
		return ""
	}
	return address.String()
}

// BootMode returns the boot mode of the host, which is UEFI if the spec has none.
func (host *BareMetalHost) BootMode() BootMode {
	if host.Spec.BootMode == "" {
		return DefaultBootMode
	}
	return host.Spec.BootMode
}
