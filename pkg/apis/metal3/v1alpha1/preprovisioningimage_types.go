package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PreprovisioningImage asks for a ramdisk with the network configuration of a
// host built in. What builds such images answers in the status.
type PreprovisioningImage struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata. The name is that of the host.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What to build.
	// +optional
	Spec PreprovisioningImageSpec `json:"spec,omitempty"`

	// What was built.
	// +optional
	Status PreprovisioningImageStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PreprovisioningImageList is a list of preprovisioning images.
type PreprovisioningImageList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// The preprovisioning images.
	Items []PreprovisioningImage `json:"items"`
}

// PreprovisioningImageSpec says what to build.
type PreprovisioningImageSpec struct {
	// A Secret, in the namespace of the image, with the network configuration.
	// +optional
	NetworkDataName string `json:"networkDataName,omitempty"`

	// The CPU architecture, for instance x86_64 or aarch64.
	// +optional
	Architecture string `json:"architecture,omitempty"`

	// The formats that the host can boot: iso, initrd.
	// +optional
	// +listType=atomic
	AcceptFormats []ImageFormat `json:"acceptFormats,omitempty"`
}

// ImageFormat is the format of a ramdisk.
// +enum
type ImageFormat string

// The formats of a ramdisk.
const (
	// ImageFormatISO is a CD image.
	ImageFormatISO ImageFormat = "iso"
	// ImageFormatInitRD is an initial ramdisk, which is booted with a kernel.
	ImageFormatInitRD ImageFormat = "initrd"
)

// PreprovisioningImageStatus says what was built.
type PreprovisioningImageStatus struct {
	// Where the image is.
	// +optional
	ImageURL string `json:"imageUrl,omitempty"`

	// Where the kernel of an initrd is.
	// +optional
	KernelURL string `json:"kernelUrl,omitempty"`

	// Kernel parameters that an initrd needs, in addition to the usual ones.
	// +optional
	ExtraKernelParams string `json:"extraKernelParams,omitempty"`

	// The format of the image: iso or initrd.
	// +optional
	Format ImageFormat `json:"format,omitempty"`

	// The version of the Secret with the network configuration that is built in.
	// +optional
	NetworkData SecretStatus `json:"networkData,omitempty"`

	// The CPU architecture of the image.
	// +optional
	Architecture string `json:"architecture,omitempty"`

	// Whether the image can be fetched (Ready), or cannot be built (Error).
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// SecretStatus is a version of a Secret.
type SecretStatus struct {
	// The name of the Secret.
	// +optional
	Name string `json:"name,omitempty"`

	// The resourceVersion of the Secret.
	// +optional
	Version string `json:"version,omitempty"`
}
