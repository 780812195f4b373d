package v1alpha1

// Image is what is written to a host, or booted from.
type Image struct {
	// Where to fetch the image: an http, https, ftp, gopher or oci URL.
	URL string `json:"url"`

	// The checksum of the image, or a URL where it is found. Needed for ordinary
	// images; not allowed with an oci URL; optional for live-iso.
	// +optional
	Checksum string `json:"checksum,omitempty"`

	// The algorithm of the checksum: md5, sha256, sha512, or auto to let Ironic
	// work it out. Empty is the same as auto.
	// +optional
	ChecksumType ChecksumType `json:"checksumType,omitempty"`

	// The format of the image: raw, qcow2, vdi, vmdk, or live-iso for an ISO that
	// is booted and not written to a disk. raw images are streamed to the disk.
	// +optional
	DiskFormat *DiskFormat `json:"format,omitempty"`

	// The name of a Secret of type kubernetes.io/dockerconfigjson with the
	// credentials to pull an oci image.
	// +optional
	OCIAuthSecretName *string `json:"ociAuthSecretName,omitempty"`
}

// IsLiveISO tells whether the image is booted from instead of written to a disk.
func (image *Image) IsLiveISO() bool {
	return image != nil && image.DiskFormat != nil && *image.DiskFormat == LiveISO
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
	// AutoChecksum lets Ironic find out the algorithm by itself.
	AutoChecksum ChecksumType = "auto"
)

// DiskFormat is the format of an image.
// +enum
type DiskFormat string

// The disk formats.
const (
	// Raw is a disk image as it is.
	Raw DiskFormat = "raw"
	// QCOW2 is QEMU's copy-on-write format.
	QCOW2 DiskFormat = "qcow2"
	// VDI is VirtualBox's format.
	VDI DiskFormat = "vdi"
	// VMDK is VMware's format.
	VMDK DiskFormat = "vmdk"
	// LiveISO is a CD image that is booted, not written to a disk.
	LiveISO DiskFormat = "live-iso"
)

// RootDeviceHints choose a disk. All given hints must match.
type RootDeviceHints struct {
	// The device name, /dev/... or, stable over reboots, /dev/disk/by-path/...
	// Must match exactly.
	// +optional
	DeviceName string `json:"deviceName,omitempty"`

	// The SCSI address, for instance 0:0:0:0. Must match exactly.
	// +optional
	HCTL string `json:"hctl,omitempty"`

	// The model, or a part of it.
	// +optional
	Model string `json:"model,omitempty"`

	// The vendor, or a part of it.
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

	// Whether the disk has to be a rotating one (true) or must not be (false).
	// +optional
	Rotational *bool `json:"rotational,omitempty"`
}

// RAIDConfig is the RAID layout of a host, in hardware or in software but not
// both. Neither list leaves RAID as it is; an empty list removes the volumes
// that are there.
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
	// The size in GiB. Empty takes what there is.
	// +optional
	// +k8s:validation:minimum=0
	SizeGibibytes *int `json:"sizeGibibytes,omitempty"`

	// The RAID level: 0, 1, 2, 5, 6, 1+0, 5+0 or 6+0.
	Level string `json:"level"`

	// The name of the volume, up to 64 characters.
	// +optional
	// +k8s:validation:maxLength=64
	Name string `json:"name,omitempty"`

	// Whether the disks have to be rotating ones (true) or must not be (false).
	// +optional
	Rotational *bool `json:"rotational,omitempty"`

	// How many disks the volume uses.
	// +optional
	// +k8s:validation:minimum=1
	NumberOfPhysicalDisks *int `json:"numberOfPhysicalDisks,omitempty"`

	// The controller that makes the volume.
	// +optional
	Controller string `json:"controller,omitempty"`

	// The disks that the volume uses, by the controller's names for them. Needs
	// controller.
	// +optional
	// +listType=atomic
	PhysicalDisks []string `json:"physicalDisks,omitempty"`
}

// SoftwareRAIDVolume is a volume of Linux software RAID.
type SoftwareRAIDVolume struct {
	// Whether the image is written to this volume. Excludes rootDeviceHints.
	// +optional
	// +default=false
	RootVolume bool `json:"rootVolume"`

	// The size in GiB. Empty takes what there is.
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

// FirmwareConfig are BIOS settings of a host.
type FirmwareConfig struct {
	// Whether the CPU supports virtual machines.
	// +optional
	VirtualizationEnabled *bool `json:"virtualizationEnabled,omitempty"`

	// Whether one core runs several threads.
	// +optional
	SimultaneousMultithreadingEnabled *bool `json:"simultaneousMultithreadingEnabled,omitempty"`

	// Whether virtual machines may be given parts of a PCI device.
	// +optional
	SriovEnabled *bool `json:"sriovEnabled,omitempty"`
}
