// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PreprovisioningImage requests a ramdisk that includes the network configuration of a
// host. The controller that builds such images reports the result in the status.
type PreprovisioningImage struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata. The name must be the name of the host.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The requested image.
	// +optional
	Spec PreprovisioningImageSpec `json:"spec,omitempty"`

	// The image that was built.
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

// PreprovisioningImageSpec describes the requested image.
type PreprovisioningImageSpec struct {
	// The name of a Secret with the network configuration, in the namespace of the
	// PreprovisioningImage.
	// +optional
	NetworkDataName string `json:"networkDataName,omitempty"`

	// The CPU architecture, for example x86_64 or aarch64.
	// +optional
	Architecture string `json:"architecture,omitempty"`

	// The image formats that the host can boot: iso, initrd.
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

// PreprovisioningImageStatus describes the image that was built.
type PreprovisioningImageStatus struct {
	// The URL of the image.
	// +optional
	ImageURL string `json:"imageUrl,omitempty"`

	// The URL of the kernel for an initrd.
	// +optional
	KernelURL string `json:"kernelUrl,omitempty"`

	// Kernel parameters that an initrd needs in addition to the usual ones.
	// +optional
	ExtraKernelParams string `json:"extraKernelParams,omitempty"`

	// The format of the image: iso or initrd.
	// +optional
	Format ImageFormat `json:"format,omitempty"`

	// The version of the Secret whose network configuration the image includes.
	// +optional
	NetworkData SecretStatus `json:"networkData,omitempty"`

	// The CPU architecture of the image.
	// +optional
	Architecture string `json:"architecture,omitempty"`

	// Whether the image is available (Ready) or could not be built (Error).
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// SecretStatus identifies a version of a Secret.
type SecretStatus struct {
	// The name of the Secret.
	// +optional
	Name string `json:"name,omitempty"`

	// The resourceVersion of the Secret.
	// +optional
	Version string `json:"version,omitempty"`
}
