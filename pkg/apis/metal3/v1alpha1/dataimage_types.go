package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// DataImage is an ISO image that the host with the same name has in a virtual
// drive beside what it boots from.
type DataImage struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata. The name is that of the host.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which image is wanted.
	// +optional
	Spec DataImageSpec `json:"spec,omitempty"`

	// Which image is there.
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

// DataImageSpec says which image is wanted.
type DataImageSpec struct {
	// Where to fetch the image: an http, https, ftp, gopher or oci URL.
	URL string `json:"url"`
}

// DataImageStatus says which image is there.
type DataImageStatus struct {
	// When the drive was last looked after.
	// +optional
	LastReconciled *metav1.Time `json:"lastReconciled,omitempty"`

	// The image in the drive.
	// +optional
	AttachedImage AttachedImageReference `json:"attachedImage,omitempty"`

	// What went wrong since the last success.
	// +optional
	Error DataImageError `json:"error,omitempty"`
}

// AttachedImageReference is the image in a virtual drive.
type AttachedImageReference struct {
	// Where the image came from. Empty while there is none.
	URL string `json:"url"`
}

// DataImageError is what goes wrong with a data image.
type DataImageError struct {
	// How often it went wrong since the last success.
	Count int `json:"count"`

	// What went wrong last.
	Message string `json:"message"`
}
