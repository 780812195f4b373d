package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// BareMetalSwitch is a network switch that hosts are plugged into, and how
// Ironic's networking service reaches it.
type BareMetalSwitch struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Where the switch is and how to log in to it.
	// +optional
	Spec BareMetalSwitchSpec `json:"spec,omitempty"`

	// What became of it.
	// +optional
	Status BareMetalSwitchStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// BareMetalSwitchList is a list of switches.
type BareMetalSwitchList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// The switches.
	Items []BareMetalSwitch `json:"items"`
}

// BareMetalSwitchSpec says where a switch is and how to log in to it.
type BareMetalSwitchSpec struct {
	// The IP address or host name of the switch's management interface.
	Address string `json:"address"`

	// The MAC address of the switch, as it names itself to the hosts by LLDP:
	// hosts refer to the switch by it.
	// +k8s:validation:pattern="^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$"
	MACAddress string `json:"macAddress"`

	// The driver that configures the switch. There is one: generic-switch.
	// +optional
	// +default="generic-switch"
	Driver SwitchDriver `json:"driver,omitempty"`

	// The device type, as networking-generic-switch calls it, for instance
	// netmiko_cisco_ios or netmiko_arista_eos.
	DeviceType string `json:"deviceType"`

	// The Secret with the credentials: username, and password or ssh-privatekey;
	// admin-password, where privileged mode needs one.
	// +optional
	Credentials *corev1.SecretReference `json:"credentials,omitempty"`

	// The TCP port of the management interface. Empty takes the usual one of the
	// device type.
	// +optional
	// +k8s:validation:minimum=1
	// +k8s:validation:maximum=65535
	Port *int32 `json:"port,omitempty"`

	// Whether the certificate of the switch is not verified, where it speaks
	// HTTPS. Insecure.
	// +optional
	DisableCertificateVerification bool `json:"disableCertificateVerification,omitempty"`
}

// SwitchDriver is a way to configure a switch.
// +enum
type SwitchDriver string

// The switch drivers.
const (
	// GenericSwitch is OpenStack's networking-generic-switch.
	GenericSwitch SwitchDriver = "generic-switch"
)

// BareMetalSwitchStatus is what became of a switch.
type BareMetalSwitchStatus struct {
	// The state of the switch: Valid, once Ironic's configuration has it.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}
