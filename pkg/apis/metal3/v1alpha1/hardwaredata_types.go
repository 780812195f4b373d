// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +resourceName=hardwaredata
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HardwareData is the hardware of the host with the same name. It is written after each
// inspection. If it is created beforehand, the first inspection of the host is skipped.
type HardwareData struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata. The name must be the name of the host.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The hardware of the host.
	// +optional
	Spec HardwareDataSpec `json:"spec,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HardwareDataList is a list of HardwareData.
type HardwareDataList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// The hardware of each host.
	Items []HardwareData `json:"items"`
}

// HardwareDataSpec is the hardware of a host.
type HardwareDataSpec struct {
	// The hardware that the last inspection found.
	// +optional
	HardwareDetails *HardwareDetails `json:"hardware,omitempty"`
}
