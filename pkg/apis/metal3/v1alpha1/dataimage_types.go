// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// DataImage is an ISO image in a virtual drive of the host with the same name, in addition
// to what the host boots from.
type DataImage struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata. The name must be the name of the host.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The image that should be attached.
	// +optional
	Spec DataImageSpec `json:"spec,omitempty"`

	// The image that is attached.
	// +optional
	Status DataImageStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// DataImageList is a list of data images.
type DataImageList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// The data images.
	Items []DataImage `json:"items"`
}

// DataImageSpec is the image that should be attached.
type DataImageSpec struct {
	// The http, https or oci URL of the image.
	URL string `json:"url"`
}

// DataImageStatus is the image that is attached.
type DataImageStatus struct {
	// When the attached image was last checked.
	// +optional
	LastReconciled *metav1.Time `json:"lastReconciled,omitempty"`

	// The image in the virtual drive.
	// +optional
	AttachedImage AttachedImageReference `json:"attachedImage,omitempty"`

	// The errors since the last success.
	// +optional
	Error DataImageError `json:"error,omitempty"`
}

// AttachedImageReference is the image in a virtual drive.
type AttachedImageReference struct {
	// The URL of the image. Empty if there is none.
	URL string `json:"url"`
}

// DataImageError describes the errors of a data image.
type DataImageError struct {
	// The number of errors since the last success.
	Count int `json:"count"`

	// The last error.
	Message string `json:"message"`
}
