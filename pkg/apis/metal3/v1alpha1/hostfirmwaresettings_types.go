package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostFirmwareSettings are the BIOS settings of the host with the same name, and
// what they have to be.
type HostFirmwareSettings struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata. The name is that of the host.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The wanted settings.
	// +optional
	Spec HostFirmwareSettingsSpec `json:"spec,omitempty"`

	// The settings that are there.
	// +optional
	Status HostFirmwareSettingsStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostFirmwareSettingsList is a list of the BIOS settings of hosts.
type HostFirmwareSettingsList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// The BIOS settings of each host.
	Items []HostFirmwareSettings `json:"items"`
}

// DesiredSettingsMap are wanted BIOS settings, by name: text or whole numbers.
type DesiredSettingsMap map[string]intstr.IntOrString

// SettingsMap are BIOS settings, by name.
type SettingsMap map[string]string

// HostFirmwareSettingsSpec has the wanted BIOS settings of a host.
type HostFirmwareSettingsSpec struct {
	// The settings that are to be changed, by name: text or whole numbers. The
	// FirmwareSchema says which there are and what they take.
	Settings DesiredSettingsMap `json:"settings"`
}

// HostFirmwareSettingsStatus has the BIOS settings of a host.
type HostFirmwareSettingsStatus struct {
	// The FirmwareSchema of the host.
	// +optional
	FirmwareSchema *SchemaReference `json:"schema,omitempty"`

	// The settings, by name. Passwords are not among them.
	Settings SettingsMap `json:"settings"`

	// When the status was last written.
	// +optional
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`

	// Whether the wanted settings can be set (Valid), and whether some of them are
	// still to be set (ChangeDetected).
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// SchemaReference names a FirmwareSchema.
type SchemaReference struct {
	// The namespace of the FirmwareSchema.
	Namespace string `json:"namespace"`

	// The name of the FirmwareSchema.
	Name string `json:"name"`
}
