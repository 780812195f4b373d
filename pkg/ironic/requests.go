// SPDX-License-Identifier: Apache-2.0

package ironic

import "encoding/json"

// NodeCreate is a node to be made. UUID and Name are chosen by the caller, so
// that a repeated request is refused as a duplicate.
type NodeCreate struct {
	UUID       string         `json:"uuid,omitempty"`
	Name       string         `json:"name,omitempty"`
	Driver     string         `json:"driver"`
	DriverInfo map[string]any `json:"driver_info,omitempty"`

	BIOSInterface       string `json:"bios_interface,omitempty"`
	BootInterface       string `json:"boot_interface,omitempty"`
	DeployInterface     string `json:"deploy_interface,omitempty"`
	FirmwareInterface   string `json:"firmware_interface,omitempty"` // left out below API 1.86
	InspectInterface    string `json:"inspect_interface,omitempty"`
	ManagementInterface string `json:"management_interface,omitempty"`
	PowerInterface      string `json:"power_interface,omitempty"`
	RAIDInterface       string `json:"raid_interface,omitempty"`
	VendorInterface     string `json:"vendor_interface,omitempty"`

	Properties     map[string]any `json:"properties,omitempty"`
	Extra          map[string]any `json:"extra,omitempty"`
	AutomatedClean *bool          `json:"automated_clean,omitempty"`
	NetworkData    map[string]any `json:"network_data,omitempty"`
	InstanceUUID   string         `json:"instance_uuid,omitempty"`
	InstanceInfo   map[string]any `json:"instance_info,omitempty"`
	ConductorGroup string         `json:"conductor_group,omitempty"` // empty is Ironic's [DEFAULT]default_conductor_group
	// DisablePowerOff needs API 1.95; true is refused below it.
	DisablePowerOff *bool `json:"disable_power_off,omitempty"`
}

// PatchOp is an operation of a JSON patch; Ironic knows no "test".
type PatchOp string

// The operations that Ironic knows.
const (
	PatchAdd    PatchOp = "add"
	PatchRemove PatchOp = "remove"
)

// Patch is one step of a JSON patch. Below API 1.98 each part of the path must
// be made of letters, digits, "_" and "-": put other keys into a whole object.
type Patch struct {
	Op    PatchOp
	Path  string
	Value any // null is sent for nil, except with PatchRemove
}

// SameJSON compares two values as JSON, which has one kind of numbers only.
func SameJSON(a, b any) bool {
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && string(x) == string(y)
}

// ProvisionOptions is what goes with some provision verbs.
type ProvisionOptions struct {
	// ConfigDrive goes with active and rebuild: an object with user_data,
	// meta_data and network_data, or a base64 string.
	ConfigDrive any `json:"configdrive,omitempty"`
	// CleanSteps are required for clean.
	CleanSteps []StepRequest `json:"clean_steps,omitempty"`
	// DeploySteps go with active and rebuild.
	DeploySteps []StepRequest `json:"deploy_steps,omitempty"`
	// ServiceSteps are required for service (API 1.87).
	ServiceSteps []StepRequest `json:"service_steps,omitempty"`
	// DisableRamdisk goes with clean: no ramdisk is booted.
	DisableRamdisk bool `json:"disable_ramdisk,omitempty"`
}

// StepRequest is a clean, deploy or service step to be executed.
type StepRequest struct {
	Interface string         `json:"interface"`
	Step      string         `json:"step"`
	Args      map[string]any `json:"args,omitzero"` // Ironic wants it in deploy steps, if only empty
	// Priority is required for deploy steps.
	Priority *int `json:"priority,omitempty"`
}

// LogicalDisk is a RAID volume to be made. What is empty is left to Ironic and the controller.
type LogicalDisk struct {
	// SizeGB is a number of GiB, or "MAX".
	SizeGB     any    `json:"size_gb"`
	RAIDLevel  string `json:"raid_level"`
	VolumeName string `json:"volume_name,omitempty"`
	// DiskType is hdd or ssd.
	DiskType              string `json:"disk_type,omitempty"`
	NumberOfPhysicalDisks int    `json:"number_of_physical_disks,omitempty"`
	// Controller is "software" for a volume that the ramdisk makes.
	Controller string `json:"controller,omitempty"`
	// PhysicalDisks are the controller's names of disks, or for software RAID root device hints.
	PhysicalDisks any `json:"physical_disks,omitempty"`
	// IsRootVolume is nil where Ironic is not to be told.
	IsRootVolume *bool `json:"is_root_volume,omitempty"`
}

// PortFilter selects ports; what is empty does not count.
type PortFilter struct {
	// Node is the UUID or name of a node.
	Node string
	// Address is a MAC address, in any case.
	Address string
}
