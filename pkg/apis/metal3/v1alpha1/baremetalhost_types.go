package v1alpha1

import (
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
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// BareMetalHost is a physical server, managed through its baseboard management
// controller (BMC) by OpenStack Ironic. The spec says what is wanted of it; the
// status is what Ironic says about it at the moment of reading.
type BareMetalHost struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata. The name may hold only letters, digits, '.',
	// '_' and '-', and must not look like a UUID, because Ironic would take it
	// for the identity of another node.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is wanted of the host.
	// +optional
	Spec BareMetalHostSpec `json:"spec,omitempty"`
	// What is known about the host, as Ironic tells it at the moment of reading.
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

// BareMetalHostSpec is what is wanted of a host.
type BareMetalHostSpec struct {
	// Taints for the Kubernetes node that runs on the host. Never implemented;
	// kept so that old manifests are accepted.
	//
	// Deprecated: has no effect.
	// +optional
	// +listType=atomic
	Taints []corev1.Taint `json:"taints,omitempty"`

	// How to reach the host's baseboard management controller (BMC). A host
	// without it is only discovered, not managed.
	// +optional
	BMC BMCDetails `json:"bmc,omitempty"`

	// RAID volumes to build before the host becomes available.
	// +optional
	RAID *RAIDConfig `json:"raid,omitempty"`

	// BIOS settings to change before the host becomes available. Refused when
	// set: use a HostFirmwareSettings object instead.
	//
	// Deprecated: use HostFirmwareSettings.
	// +optional
	Firmware *FirmwareConfig `json:"firmware,omitempty"`

	// The name of a hardware profile. All that is left of profiles is a default
	// for the root device where rootDeviceHints are not given.
	//
	// Deprecated: use rootDeviceHints.
	// +optional
	HardwareProfile string `json:"hardwareProfile,omitempty"`

	// Which disk the image is written to. All given hints must match.
	// +optional
	RootDeviceHints *RootDeviceHints `json:"rootDeviceHints,omitempty"`

	// How the firmware boots the host: UEFI, UEFISecureBoot or legacy. Empty is
	// the same as UEFI.
	// +optional
	BootMode BootMode `json:"bootMode,omitempty"`

	// The MAC address of the network interface that boots the host, for instance
	// 00:ab:4f:d8:9e:fa. Needed for libvirt and wherever inspection is disabled;
	// cannot be changed once it is set.
	// +optional
	// +k8s:validation:pattern="^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$"
	BootMACAddress string `json:"bootMACAddress,omitempty"`

	// Whether the host shall be powered on. The /power subresource keeps this
	// field in step with what it does.
	Online bool `json:"online"`

	// Who uses the host. A host with a consumer is taken.
	// +optional
	ConsumerRef *corev1.ObjectReference `json:"consumerRef,omitempty"`

	// The image to write to the host. Setting it provisions the host, removing
	// it or changing its URL deprovisions it.
	// +optional
	Image *Image `json:"image,omitempty"`

	// A Secret with the user data (cloud-init or Ignition) of the host, in its
	// key userData or value. Must be in the namespace of the host.
	// +optional
	UserData *corev1.SecretReference `json:"userData,omitempty"`

	// The name of a Secret with the network configuration of the ramdisk that
	// inspects and deploys the host, where DHCP cannot be used.
	// +optional
	PreprovisioningNetworkDataName string `json:"preprovisioningNetworkDataName,omitempty"`

	// A Secret with the network configuration of the deployed system, in its
	// key networkData or value. Must be in the namespace of the host.
	// +optional
	NetworkData *corev1.SecretReference `json:"networkData,omitempty"`

	// A Secret with metadata for the deployed system, in its key metaData or
	// value. Must be in the namespace of the host.
	// +optional
	MetaData *corev1.SecretReference `json:"metaData,omitempty"`

	// Free text that helps people to recognise the host.
	// +optional
	Description string `json:"description,omitempty"`

	// The host already runs a system that something else has installed: adopt
	// it, manage its power, and never inspect or write to it.
	// +optional
	ExternallyProvisioned bool `json:"externallyProvisioned,omitempty"`

	// What is done to the disks when the host is deprovisioned: metadata removes
	// partition tables, disabled leaves the disks as they are.
	// +optional
	// +default="metadata"
	AutomatedCleaningMode AutomatedCleaningMode `json:"automatedCleaningMode,omitempty"`

	// A deploy procedure of a custom ramdisk, instead of writing an image or
	// around it.
	// +optional
	CustomDeploy *CustomDeploy `json:"customDeploy,omitempty"`

	// The CPU architecture of the host, for instance x86_64 or aarch64. Filled
	// in from the inspection when it is empty.
	// +optional
	Architecture string `json:"architecture,omitempty"`

	// Never power the host off: reboot it instead. Only together with online.
	// +optional
	DisablePowerOff bool `json:"disablePowerOff,omitempty"`

	// How the hardware is inspected: agent boots a ramdisk on the host, fast
	// asks the BMC alone (Redfish and iDRAC only), disabled does neither. Empty
	// is the same as agent.
	// +optional
	InspectionMode InspectionMode `json:"inspectionMode,omitempty"`

	// Network interfaces of the host and the networks to attach them to.
	// +optional
	// +listType=atomic
	NetworkInterfaces []NetworkInterface `json:"networkInterfaces,omitempty"`
}

// BMCDetails says how to reach the baseboard management controller of a host.
type BMCDetails struct {
	// The address of the BMC as a URL, for instance ipmi://192.168.111.1:6233 or
	// redfish-virtualmedia://[2001:db8::1]/redfish/v1/Systems/1. The scheme
	// chooses Ironic's driver: ipmi, libvirt, redfish, redfish-virtualmedia,
	// redfish-uefihttp, ilo5-redfish, ilo5-virtualmedia, idrac-redfish or
	// idrac-virtualmedia, the last seven also with +http or +https. An address
	// without a scheme is an ipmi one.
	Address string `json:"address"`

	// The name of a Secret in the namespace of the host, with the keys username
	// and password.
	CredentialsName string `json:"credentialsName"`

	// Do not verify the TLS certificate of the BMC. Needed where it is
	// self-signed, but it lets whoever sits in between read the password.
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

// DefaultBootMode is what an empty boot mode means.
const DefaultBootMode = UEFI

// AutomatedCleaningMode is what happens to the disks of a host that is given up.
// +enum
type AutomatedCleaningMode string

// The automated cleaning modes.
const (
	// CleaningModeMetadata removes partition tables and file system signatures.
	CleaningModeMetadata AutomatedCleaningMode = "metadata"
	// CleaningModeDisabled leaves the disks as they are.
	CleaningModeDisabled AutomatedCleaningMode = "disabled"
)

// InspectionMode is how the hardware of a host is found out.
// +enum
type InspectionMode string

// The inspection modes.
const (
	// InspectionModeDisabled inspects nothing.
	InspectionModeDisabled InspectionMode = "disabled"
	// InspectionModeAgent boots a ramdisk on the host.
	InspectionModeAgent InspectionMode = "agent"
	// InspectionModeFast asks the BMC alone, without booting the host.
	InspectionModeFast InspectionMode = "fast"
)

// CustomDeploy names a deploy procedure of a custom ramdisk.
type CustomDeploy struct {
	// The deploy step that the ramdisk runs, in its deploy interface.
	Method string `json:"method"`
}

// HasBMCDetails tells whether there is anything to register in Ironic.
func (host *BareMetalHost) HasBMCDetails() bool {
	return host.Spec.BMC.Address != "" || host.Spec.BMC.CredentialsName != ""
}

// CredentialsKey returns namespace and name of the Secret with the BMC's user
// and password.
func (host *BareMetalHost) CredentialsKey() types.NamespacedName {
	return types.NamespacedName{Namespace: host.Namespace, Name: host.Spec.BMC.CredentialsName}
}

// BootMode returns the boot mode, UEFI when none is given.
func (host *BareMetalHost) BootMode() BootMode {
	if host.Spec.BootMode == "" {
		return DefaultBootMode
	}
	return host.Spec.BootMode
}
