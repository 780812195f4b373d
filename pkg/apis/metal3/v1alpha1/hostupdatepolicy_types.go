package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +genclient:noStatus
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostUpdatePolicy says when the firmware of the host with the same name may be
// changed.
type HostUpdatePolicy struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata. The name is that of the host.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The policy.
	// +optional
	Spec HostUpdatePolicySpec `json:"spec,omitempty"`

	// There is nothing in it.
	// +optional
	Status HostUpdatePolicyStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostUpdatePolicyList is a list of host update policies.
type HostUpdatePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// The host update policies.
	Items []HostUpdatePolicy `json:"items"`
}

// HostUpdatePolicySpec says when the firmware of a host may be changed.
type HostUpdatePolicySpec struct {
	// When BIOS settings may be changed: onPreparing, which is what an empty value
	// means, or also onReboot of a provisioned host.
	// +optional
	FirmwareSettings UpdatePolicy `json:"firmwareSettings,omitempty"`

	// When firmware may be updated: onPreparing, which is what an empty value means,
	// or also onReboot of a provisioned host.
	// +optional
	FirmwareUpdates UpdatePolicy `json:"firmwareUpdates,omitempty"`
}

// UpdatePolicy is when something of a host may be changed.
// +enum
type UpdatePolicy string

// The update policies.
const (
	// UpdateOnPreparing allows changes before the host is available, and no later.
	UpdateOnPreparing UpdatePolicy = "onPreparing"
	// UpdateOnReboot allows changes also with a reboot of a provisioned host.
	UpdateOnReboot UpdatePolicy = "onReboot"
)

// HostUpdatePolicyStatus has nothing in it.
type HostUpdatePolicyStatus struct{}
