// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"regexp"
	"strings"
)

// Image is an image that is written to a host, or from which the host boots.
type Image struct {
	// The http, https or oci URL of the image.
	URL string `json:"url"`

	// The checksum of the image, or a URL where it is found. Optional for live-iso; not
	// allowed with an oci URL; otherwise required.
	// +optional
	Checksum string `json:"checksum,omitempty"`

	// The algorithm of the checksum: md5, sha256, sha512, or auto, with which Ironic detects
	// the algorithm. The default is auto.
	// +optional
	ChecksumType ChecksumType `json:"checksumType,omitempty"`

	// The format of the image: raw, qcow2, vdi, vmdk, or live-iso for an ISO from which the
	// host boots and that is not written to a disk. raw images are streamed to the disk.
	// +optional
	DiskFormat *DiskFormat `json:"format,omitempty"`

	// The name of a Secret of type kubernetes.io/dockerconfigjson with the credentials to
	// pull an oci image, in the namespace of the host.
	// +optional
	OCIAuthSecretName *string `json:"ociAuthSecretName,omitempty"`
}

// IsLiveISO reports whether the host boots from the image instead of having it written to a
// disk.
func (image *Image) IsLiveISO() bool {
	return image != nil && image.DiskFormat != nil && *image.DiskFormat == LiveISO
}

var digestPattern = regexp.MustCompile(`^(?:(md5|sha1|sha224|sha256|sha384|sha512):)?([0-9a-f]+)$`)

// Digest returns the hexadecimal digits of the image's checksum in lower case, as tools compare them, and the algorithm that is
// in front of them, as in sha256:0123abcd, or none. It is not ok if the checksum is missing or something else, such as a URL.
func (image *Image) Digest() (algorithm ChecksumType, digits string, ok bool) {
	match := digestPattern.FindStringSubmatch(strings.ToLower(image.Checksum))
	if match == nil {
		return "", "", false
	}
	return ChecksumType(match[1]), match[2], true
}

// ChecksumType is the algorithm of an image's checksum.
// +enum
type ChecksumType string

// The checksum types.
const (
	// MD5 is the MD5 algorithm.
	MD5 ChecksumType = "md5"
	// SHA256 is the SHA-256 algorithm.
	SHA256 ChecksumType = "sha256"
	// SHA512 is the SHA-512 algorithm.
	SHA512 ChecksumType = "sha512"
	// AutoChecksum lets Ironic detect the algorithm.
	AutoChecksum ChecksumType = "auto"
)

// DiskFormat is the format of an image.
// +enum
type DiskFormat string

// The disk formats.
const (
	// Raw is a plain disk image.
	Raw DiskFormat = "raw"
	// QCOW2 is QEMU's copy-on-write format.
	QCOW2 DiskFormat = "qcow2"
	// VDI is VirtualBox's format.
	VDI DiskFormat = "vdi"
	// VMDK is VMware's format.
	VMDK DiskFormat = "vmdk"
	// LiveISO is a CD image from which the host boots. It is not written to a disk.
	LiveISO DiskFormat = "live-iso"
)

// RootDeviceHints select a disk. A disk must match all hints.
type RootDeviceHints struct {
	// The device name: /dev/..., or /dev/disk/by-path/..., which is stable across reboots.
	// Must match exactly.
	// +optional
	DeviceName string `json:"deviceName,omitempty"`

	// The SCSI address, for example 0:0:0:0. Must match exactly.
	// +optional
	HCTL string `json:"hctl,omitempty"`

	// The model, or part of it.
	// +optional
	Model string `json:"model,omitempty"`

	// The vendor, or part of it.
	// +optional
	Vendor string `json:"vendor,omitempty"`

	// The serial number. Must match exactly.
	// +optional
	SerialNumber string `json:"serialNumber,omitempty"`

	// The smallest acceptable size in gigabytes.
	// +optional
	// +k8s:validation:minimum=0
	MinSizeGigabytes int `json:"minSizeGigabytes,omitempty"`

	// The World Wide Name of the disk. Must match exactly.
	// +optional
	WWN string `json:"wwn,omitempty"`

	// The World Wide Name with the vendor's extension. Must match exactly.
	// +optional
	WWNWithExtension string `json:"wwnWithExtension,omitempty"`

	// The vendor's extension of the World Wide Name. Must match exactly.
	// +optional
	WWNVendorExtension string `json:"wwnVendorExtension,omitempty"`

	// Whether the disk must be a rotating disk (true) or must not be one (false).
	// +optional
	Rotational *bool `json:"rotational,omitempty"`
}

// RAIDConfig is the RAID layout of a host, in either hardware or software. If neither list
// is set, the existing layout is kept. An empty list removes the existing volumes.
type RAIDConfig struct {
	// Volumes of a RAID controller.
	// +optional
	// +listType=atomic
	HardwareRAIDVolumes []HardwareRAIDVolume `json:"hardwareRAIDVolumes"`

	// Volumes of Linux software RAID, at most two.
	// +optional
	// +k8s:validation:maxItems=2
	// +listType=atomic
	SoftwareRAIDVolumes []SoftwareRAIDVolume `json:"softwareRAIDVolumes"`
}

// HardwareRAIDVolume is a volume of a RAID controller.
type HardwareRAIDVolume struct {
	// The size in GiB. By default, the volume uses all available space.
	// +optional
	// +k8s:validation:minimum=0
	SizeGibibytes *int `json:"sizeGibibytes,omitempty"`

	// The RAID level: 0, 1, 2, 5, 6, 1+0, 5+0 or 6+0.
	Level string `json:"level"`

	// The name of the volume, up to 64 characters.
	// +optional
	// +k8s:validation:maxLength=64
	Name string `json:"name,omitempty"`

	// Whether the disks must be rotating disks (true) or must not be (false).
	// +optional
	Rotational *bool `json:"rotational,omitempty"`

	// The number of disks that the volume uses.
	// +optional
	// +k8s:validation:minimum=1
	NumberOfPhysicalDisks *int `json:"numberOfPhysicalDisks,omitempty"`

	// The name of the RAID controller.
	// +optional
	Controller string `json:"controller,omitempty"`

	// The disks that the volume uses, by the names that the controller has for them.
	// Requires controller.
	// +optional
	// +listType=atomic
	PhysicalDisks []string `json:"physicalDisks,omitempty"`
}

// SoftwareRAIDVolume is a volume of Linux software RAID.
type SoftwareRAIDVolume struct {
	// Whether the image is written to this volume. Cannot be combined with rootDeviceHints.
	// +optional
	// +default=false
	RootVolume bool `json:"rootVolume"`

	// The size in GiB. By default, the volume uses all available space.
	// +optional
	// +k8s:validation:minimum=0
	SizeGibibytes *int `json:"sizeGibibytes,omitempty"`

	// The RAID level: 0, 1 or 1+0. The root volume must have level 1.
	Level string `json:"level"`

	// The disks that the volume uses, at least two of them.
	// +optional
	// +k8s:validation:minItems=2
	// +listType=atomic
	PhysicalDisks []RootDeviceHints `json:"physicalDisks,omitempty"`
}

// FirmwareConfig has BIOS settings of a host.
type FirmwareConfig struct {
	// Whether hardware virtualization is enabled.
	// +optional
	VirtualizationEnabled *bool `json:"virtualizationEnabled,omitempty"`

	// Whether each core runs several threads.
	// +optional
	SimultaneousMultithreadingEnabled *bool `json:"simultaneousMultithreadingEnabled,omitempty"`

	// Whether SR-IOV is enabled, with which a PCI device can be shared by virtual machines.
	// +optional
	SriovEnabled *bool `json:"sriovEnabled,omitempty"`
}
