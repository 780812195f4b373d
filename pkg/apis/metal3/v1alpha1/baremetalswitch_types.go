// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// BareMetalSwitch is a network switch to which hosts are connected. It says how Ironic's
// networking service reaches the switch.
type BareMetalSwitch struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The address of the switch and how to log in to it.
	// +optional
	Spec BareMetalSwitchSpec `json:"spec,omitempty"`

	// Whether Ironic's networking service uses the switch.
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

// BareMetalSwitchSpec has the address of a switch and says how to log in to it.
type BareMetalSwitchSpec struct {
	// The IP address or host name of the switch's management interface.
	Address string `json:"address"`

	// The MAC address with which the switch identifies itself to hosts by LLDP. Hosts refer to
	// the switch by this address.
	// +k8s:validation:pattern="^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$"
	MACAddress string `json:"macAddress"`

	// The driver that configures the switch. The only one is generic-switch.
	// +optional
	// +default="generic-switch"
	Driver SwitchDriver `json:"driver,omitempty"`

	// The device type in the terms of networking-generic-switch, for example
	// netmiko_cisco_ios or netmiko_arista_eos.
	DeviceType string `json:"deviceType"`

	// The Secret with the credentials. Its keys are username, and either password or
	// ssh-privatekey; also admin-password, if privileged mode requires one.
	// +optional
	Credentials *corev1.SecretReference `json:"credentials,omitempty"`

	// The TCP port of the management interface. The default depends on the device type.
	// +optional
	// +k8s:validation:minimum=1
	// +k8s:validation:maximum=65535
	Port *int32 `json:"port,omitempty"`

	// Whether the TLS certificate of the switch is not verified if it is reached by HTTPS.
	// This is insecure.
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

// BareMetalSwitchStatus says whether Ironic's networking service uses a switch.
type BareMetalSwitchStatus struct {
	// The conditions of the switch: Valid is True when Ironic's configuration includes the
	// switch.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}
