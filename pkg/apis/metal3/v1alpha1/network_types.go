// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// NetworkInterface attaches a network interface of a host to a network. The interface is
// identified by either name or macAddress.
type NetworkInterface struct {
	// The name of the interface, for example eno1.
	// +optional
	// +k8s:validation:pattern="^[a-zA-Z0-9._-]+$"
	Name string `json:"name,omitempty"`

	// The MAC address of the interface.
	// +optional
	// +k8s:validation:pattern="^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$"
	MACAddress string `json:"macAddress,omitempty"`

	// The HostNetworkAttachment that describes the network.
	// +optional
	HostNetworkAttachment *HostNetworkAttachmentRef `json:"hostNetworkAttachment,omitempty"`

	// The switch port to which the interface is connected.
	// +optional
	SwitchPort *SwitchPortIdentifier `json:"switchPort,omitempty"`
}

// HostNetworkAttachmentRef refers to a HostNetworkAttachment.
// +structType=atomic
type HostNetworkAttachmentRef struct {
	// The name of the HostNetworkAttachment.
	// +optional
	// +k8s:validation:maxLength=253
	Name string `json:"name,omitempty"`

	// The namespace of the HostNetworkAttachment. The default is the namespace of the host.
	// +optional
	// +k8s:validation:maxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// SwitchPortIdentifier identifies a port of a switch.
type SwitchPortIdentifier struct {
	// The MAC address of the switch.
	// +k8s:validation:pattern="^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$"
	SwitchID string `json:"switchID"`

	// The name of the port on the switch.
	PortID string `json:"portID"`
}
