// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostFirmwareSettings has the BIOS settings of the host with the same name, and the
// changes of settings that should be made.
type HostFirmwareSettings struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata. The name must be the name of the host.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The desired settings.
	// +optional
	Spec HostFirmwareSettingsSpec `json:"spec,omitempty"`

	// The settings that the host has.
	// +optional
	Status HostFirmwareSettingsStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostFirmwareSettingsList is a list of HostFirmwareSettings.
type HostFirmwareSettingsList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// The BIOS settings of each host.
	Items []HostFirmwareSettings `json:"items"`
}

// DesiredSettingsMap maps names of BIOS settings to desired values, which are strings or
// integers.
type DesiredSettingsMap map[string]intstr.IntOrString

// SettingsMap maps names of BIOS settings to values.
type SettingsMap map[string]string

// HostFirmwareSettingsSpec has the desired BIOS settings of a host.
type HostFirmwareSettingsSpec struct {
	// The desired settings, by name. Values are strings or integers. Settings that are not
	// listed are not changed. The FirmwareSchema lists the existing settings and the values
	// that they accept.
	Settings DesiredSettingsMap `json:"settings"`
}

// HostFirmwareSettingsStatus has the BIOS settings that a host has.
type HostFirmwareSettingsStatus struct {
	// The FirmwareSchema of the host.
	// +optional
	FirmwareSchema *SchemaReference `json:"schema,omitempty"`

	// The current settings, by name, without passwords.
	Settings SettingsMap `json:"settings"`

	// The state of the host's node in Ironic in which the settings were read. They are read
	// again when the node has come into another one.
	// +optional
	Source *SettingsSource `json:"source,omitempty"`

	// When the status was last written.
	// +optional
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`

	// Whether the desired settings can be applied (Valid), and whether some of them have not
	// been applied yet (ChangeDetected).
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// SettingsSource is a state of a node in Ironic.
type SettingsSource struct {
	// The UUID of the node.
	NodeUUID string `json:"nodeUUID"`

	// When the node came into its provision state.
	StateChangedAt metav1.MicroTime `json:"stateChangedAt"`
}

// SchemaReference refers to a FirmwareSchema.
type SchemaReference struct {
	// The namespace of the FirmwareSchema.
	Namespace string `json:"namespace"`

	// The name of the FirmwareSchema.
	Name string `json:"name"`
}
