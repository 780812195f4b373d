// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// HardwareDetails is the hardware that the last inspection found.
type HardwareDetails struct {
	// The manufacturer, product name and serial number of the machine.
	// +optional
	SystemVendor HardwareSystemVendor `json:"systemVendor,omitempty"`

	// The firmware of the machine.
	// +optional
	Firmware Firmware `json:"firmware,omitempty"`

	// The size of the memory in MiB.
	// +optional
	RAMMebibytes int `json:"ramMebibytes,omitempty"`

	// The network interfaces. An interface with both an IPv4 and an IPv6 address is listed
	// twice.
	// +optional
	// +listType=atomic
	NIC []NIC `json:"nics,omitempty"`

	// The disks.
	// +optional
	// +listType=atomic
	Storage []Storage `json:"storage,omitempty"`

	// The processors.
	// +optional
	CPU CPU `json:"cpu,omitempty"`

	// The host name of the ramdisk during the inspection.
	// +optional
	Hostname string `json:"hostname,omitempty"`
}

// HardwareSystemVendor has the manufacturer, product name and serial number of a machine.
type HardwareSystemVendor struct {
	// The manufacturer of the machine.
	// +optional
	Manufacturer string `json:"manufacturer,omitempty"`

	// The product name of the machine.
	// +optional
	ProductName string `json:"productName,omitempty"`

	// The serial number of the machine.
	// +optional
	SerialNumber string `json:"serialNumber,omitempty"`
}

// Firmware is the firmware of a machine.
type Firmware struct {
	// The BIOS or UEFI firmware.
	// +optional
	BIOS BIOS `json:"bios,omitempty"`
}

// BIOS is the BIOS or UEFI firmware of a machine.
type BIOS struct {
	// The release date of the firmware.
	// +optional
	Date string `json:"date,omitempty"`

	// The vendor of the firmware.
	// +optional
	Vendor string `json:"vendor,omitempty"`

	// The version of the firmware.
	// +optional
	Version string `json:"version,omitempty"`
}

// ClockSpeed is a clock speed in MHz.
type ClockSpeed float64

// Clock speeds.
const (
	MegaHertz ClockSpeed = 1.0
	GigaHertz            = 1000 * MegaHertz
)

// CPU describes the processors of a machine.
type CPU struct {
	// The architecture, for example x86_64 or aarch64.
	// +optional
	Arch string `json:"arch,omitempty"`

	// The model of the processors.
	// +optional
	Model string `json:"model,omitempty"`

	// The clock speed in MHz.
	// +optional
	ClockMegahertz ClockSpeed `json:"clockMegahertz,omitempty"`

	// The flags of the processors, in alphabetical order.
	// +optional
	// +listType=atomic
	Flags []string `json:"flags,omitempty"`

	// The number of logical processors.
	// +optional
	Count int `json:"count,omitempty"`
}

// VLANID is an 802.1Q VLAN identifier, 0 to 4094.
type VLANID int32

// VLAN is one VLAN on a network interface.
type VLAN struct {
	// The VLAN identifier.
	// +optional
	// +k8s:validation:minimum=0
	// +k8s:validation:maximum=4094
	ID VLANID `json:"id,omitempty"`

	// The name of the VLAN.
	// +optional
	Name string `json:"name,omitempty"`
}

// LLDP is what the switch to which a network interface is connected announces by LLDP.
type LLDP struct {
	// The chassis identifier of the switch, which is often its MAC address.
	// +optional
	SwitchID string `json:"switchID,omitempty"`

	// The switch port to which the interface is connected.
	// +optional
	PortID string `json:"portID,omitempty"`

	// The system name of the switch.
	// +optional
	SwitchSystemName string `json:"switchSystemName,omitempty"`
}

// NIC is a network interface of a machine.
type NIC struct {
	// The name of the interface, for example eno1.
	// +optional
	Name string `json:"name,omitempty"`

	// The PCI vendor and product IDs, for example 0x8086 0x1572.
	// +optional
	Model string `json:"model,omitempty"`

	// The MAC address of the interface.
	// +optional
	// +k8s:validation:pattern="[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}"
	MAC string `json:"mac,omitempty"`

	// The IPv4 or IPv6 address that the interface had during the inspection.
	// +optional
	IP string `json:"ip,omitempty"`

	// The speed of the interface in Gbit/s.
	// +optional
	SpeedGbps int `json:"speedGbps,omitempty"`

	// The VLANs on the interface.
	// +optional
	// +listType=atomic
	VLANs []VLAN `json:"vlans,omitempty"`

	// The VLAN of untagged traffic.
	// +optional
	// +k8s:validation:minimum=0
	// +k8s:validation:maximum=4094
	VLANID VLANID `json:"vlanId,omitempty"`

	// Whether the host boots from this interface.
	// +optional
	PXE bool `json:"pxe,omitempty"`

	// What the switch at the other end announces by LLDP.
	// +optional
	LLDP *LLDP `json:"lldp,omitempty"`

	// The PCI address of the interface, for example 0000:02:00.0.
	// +optional
	PCIAddress string `json:"pciAddress,omitempty"`
}

// DiskType is the technology of a disk.
// +enum
type DiskType string

// The disk types.
const (
	// HDD is a rotating disk.
	HDD DiskType = "HDD"
	// SSD is a solid state disk.
	SSD DiskType = "SSD"
	// NVME is a solid state disk that is attached by NVM Express.
	NVME DiskType = "NVME"
)

// Capacity is a disk size in bytes.
type Capacity int64

// Disk sizes.
const (
	Byte     Capacity = 1
	KibiByte          = Byte * 1024
	KiloByte          = Byte * 1000
	MebiByte          = KibiByte * 1024
	MegaByte          = KiloByte * 1000
	GibiByte          = MebiByte * 1024
	GigaByte          = MegaByte * 1000
	TebiByte          = GibiByte * 1024
	TeraByte          = GigaByte * 1000
)

// Storage is a disk of a machine.
type Storage struct {
	// The device name of the disk. If there is one that is stable across reboots
	// (/dev/disk/by-path/...), it is used.
	// +optional
	Name string `json:"name,omitempty"`

	// Other device names of the disk, for example /dev/sda. They may change with a reboot.
	// +optional
	// +listType=atomic
	AlternateNames []string `json:"alternateNames,omitempty"`

	// Whether the disk is a rotating disk. Use type instead.
	// +optional
	Rotational bool `json:"rotational,omitempty"`

	// The technology of the disk: HDD, SSD or NVME.
	// +optional
	Type DiskType `json:"type,omitempty"`

	// The size of the disk in bytes.
	// +optional
	SizeBytes Capacity `json:"sizeBytes,omitempty"`

	// The vendor of the disk.
	// +optional
	Vendor string `json:"vendor,omitempty"`

	// The model of the disk.
	// +optional
	Model string `json:"model,omitempty"`

	// The serial number of the disk.
	// +optional
	SerialNumber string `json:"serialNumber,omitempty"`

	// The World Wide Name of the disk.
	// +optional
	WWN string `json:"wwn,omitempty"`

	// The vendor's extension of the World Wide Name.
	// +optional
	WWNVendorExtension string `json:"wwnVendorExtension,omitempty"`

	// The World Wide Name with the vendor's extension.
	// +optional
	WWNWithExtension string `json:"wwnWithExtension,omitempty"`

	// The SCSI address of the disk, for example 0:0:0:0.
	// +optional
	HCTL string `json:"hctl,omitempty"`
}
