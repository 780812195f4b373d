// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +genclient:noStatus
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostUpdatePolicy determines when the firmware and the BIOS settings of the host with the
// same name may be changed.
type HostUpdatePolicy struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata. The name must be the name of the host.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The policy.
	// +optional
	Spec HostUpdatePolicySpec `json:"spec,omitempty"`

	// The status, which is always empty.
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

// HostUpdatePolicySpec determines when the firmware and the BIOS settings of a host may be
// changed.
type HostUpdatePolicySpec struct {
	// When BIOS settings may be changed: onPreparing, before the host is available; or
	// onReboot, also when a provisioned host is rebooted. The default is onPreparing.
	// +optional
	FirmwareSettings UpdatePolicy `json:"firmwareSettings,omitempty"`

	// When firmware may be updated: onPreparing, before the host is available; or onReboot,
	// also when a provisioned host is rebooted. The default is onPreparing.
	// +optional
	FirmwareUpdates UpdatePolicy `json:"firmwareUpdates,omitempty"`
}

// UpdatePolicy is when the firmware or the BIOS settings of a host may be changed.
// +enum
type UpdatePolicy string

// The update policies.
const (
	// UpdateOnPreparing allows changes only before the host is available.
	UpdateOnPreparing UpdatePolicy = "onPreparing"
	// UpdateOnReboot also allows changes when a provisioned host is rebooted.
	UpdateOnReboot UpdatePolicy = "onReboot"
)

// HostUpdatePolicyStatus is always empty.
type HostUpdatePolicyStatus struct{}
