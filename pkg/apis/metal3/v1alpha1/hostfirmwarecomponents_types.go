// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostFirmwareComponents has the firmware versions of the host with the same name, and the
// firmware updates that should be made.
type HostFirmwareComponents struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata. The name must be the name of the host.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The updates that should be made.
	// +optional
	Spec HostFirmwareComponentsSpec `json:"spec,omitempty"`

	// The firmware that the host has.
	// +optional
	Status HostFirmwareComponentsStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostFirmwareComponentsList is a list of HostFirmwareComponents.
type HostFirmwareComponentsList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// The firmware of each host.
	Items []HostFirmwareComponents `json:"items"`
}

// NICComponentPrefix is the prefix of the names of components that are network interfaces.
const NICComponentPrefix = "nic:"

// FirmwareUpdate is an update of one component.
type FirmwareUpdate struct {
	// The component: bios, bmc, or nic: followed by the name of a network interface.
	Component string `json:"component"`

	// The http or https URL of the firmware.
	URL string `json:"url"`
}

// HostFirmwareComponentsSpec has the updates of a host's firmware that should be made.
type HostFirmwareComponentsSpec struct {
	// The updates, at most one for each component. The list may be empty.
	// +listType=atomic
	Updates []FirmwareUpdate `json:"updates"`
}

// HostFirmwareComponentsStatus is the firmware that a host has.
type HostFirmwareComponentsStatus struct {
	// The updates that were last carried out.
	// +optional
	// +listType=atomic
	Updates []FirmwareUpdate `json:"updates,omitempty"`

	// The firmware of each component.
	// +optional
	// +listType=atomic
	Components []FirmwareComponentStatus `json:"components,omitempty"`

	// The state of the host's node in Ironic in which the firmware was read. It is read again
	// when the node has come into another one.
	// +optional
	Source *SettingsSource `json:"source,omitempty"`

	// The stateChangedAt of the last preparation or service of the host of which it is recorded in
	// updates what it has updated.
	// +optional
	PreparedAt *metav1.MicroTime `json:"preparedAt,omitempty"`

	// When the status was last written.
	// +optional
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`

	// Whether the updates can be carried out (Valid), and whether some of them have not been
	// carried out yet (ChangeDetected).
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// FirmwareComponentStatus is the firmware of one component.
type FirmwareComponentStatus struct {
	// The component: bios, bmc, or nic: followed by the name of a network interface.
	Component string `json:"component"`

	// The version when Ironic first read it.
	InitialVersion string `json:"initialVersion"`

	// The current version.
	// +optional
	CurrentVersion string `json:"currentVersion,omitempty"`

	// The version that was last flashed.
	// +optional
	LastVersionFlashed string `json:"lastVersionFlashed,omitempty"`

	// When a version was last flashed. null if that never happened.
	// +optional
	UpdatedAt metav1.Time `json:"updatedAt,omitempty"`
}
