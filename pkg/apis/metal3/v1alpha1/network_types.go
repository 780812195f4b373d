package v1alpha1

// NetworkInterface attaches one network interface of a host, named by exactly
// one of name and macAddress, to a network.
type NetworkInterface struct {
	// The name of the interface, for instance eno1.
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

	// The switch port that the interface is plugged into.
	// +optional
	SwitchPort *SwitchPortIdentifier `json:"switchPort,omitempty"`
}

// HostNetworkAttachmentRef names a HostNetworkAttachment.
// +structType=atomic
type HostNetworkAttachmentRef struct {
	// The name of the HostNetworkAttachment.
	// +optional
	// +k8s:validation:maxLength=253
	Name string `json:"name,omitempty"`

	// Its namespace; empty is the namespace of the host.
	// +optional
	// +k8s:validation:maxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// SwitchPortIdentifier is one port of one switch.
type SwitchPortIdentifier struct {
	// The MAC address of the switch.
	// +k8s:validation:pattern="^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$"
	SwitchID string `json:"switchID"`

	// The name of the port, as the switch has it.
	PortID string `json:"portID"`
}
