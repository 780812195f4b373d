package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostFirmwareComponents is the firmware of the host with the same name, and what
// it has to be updated to.
type HostFirmwareComponents struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata. The name is that of the host.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The wanted updates.
	// +optional
	Spec HostFirmwareComponentsSpec `json:"spec,omitempty"`

	// The firmware that is there.
	// +optional
	Status HostFirmwareComponentsStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostFirmwareComponentsList is a list of the firmware of hosts.
type HostFirmwareComponentsList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// The firmware of each host.
	Items []HostFirmwareComponents `json:"items"`
}

// NICComponentPrefix begins the names of the firmware of network interfaces.
const NICComponentPrefix = "nic:"

// FirmwareUpdate is an update of one component.
type FirmwareUpdate struct {
	// The component: bios, bmc, or nic: and the name of a network interface.
	Component string `json:"component"`

	// Where to fetch the firmware: an http, https, ftp, gopher or oci URL.
	URL string `json:"url"`
}

// HostFirmwareComponentsSpec has the wanted updates of a host's firmware.
type HostFirmwareComponentsSpec struct {
	// The updates, one for each component. An empty list wants none.
	// +listType=atomic
	Updates []FirmwareUpdate `json:"updates"`
}

// HostFirmwareComponentsStatus is the firmware of a host.
type HostFirmwareComponentsStatus struct {
	// The updates that were last carried out.
	// +optional
	// +listType=atomic
	Updates []FirmwareUpdate `json:"updates,omitempty"`

	// The firmware of each component.
	// +optional
	// +listType=atomic
	Components []FirmwareComponentStatus `json:"components,omitempty"`

	// When the status was last written.
	// +optional
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`

	// Whether the updates can be carried out (Valid), and whether some of them are
	// still to come (ChangeDetected).
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// FirmwareComponentStatus is the firmware of one component.
type FirmwareComponentStatus struct {
	// The component: bios, bmc, or nic: and the name of a network interface.
	Component string `json:"component"`

	// The version when Ironic first saw it.
	InitialVersion string `json:"initialVersion"`

	// The version now.
	// +optional
	CurrentVersion string `json:"currentVersion,omitempty"`

	// The version that was last written.
	// +optional
	LastVersionFlashed string `json:"lastVersionFlashed,omitempty"`

	// When a version was last written. null before that.
	// +optional
	UpdatedAt metav1.Time `json:"updatedAt,omitempty"`
}
