package ironicsim

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
)

// biosAttribute is a BIOS attribute of a machine with a Redfish BMC, with its entry in the attribute registry. The
// attributes are those of the machines of package bmcsim, so that a test can use both.
type biosAttribute struct {
	name     string
	value    any
	kind     string // Enumeration, Integer, String, Boolean, Password
	values   []string
	min, max int // of an Integer, or of the length of a String
	readOnly bool
	unique   bool
}

var biosAttributes = []biosAttribute{
	{name: "AssetTag", value: "", kind: "String", max: 16, unique: true},
	{name: "BootMode", value: "Uefi", kind: "Enumeration", values: []string{"Uefi", "Bios"}},
	{name: "LogicalProc", value: "Enabled", kind: "Enumeration", values: []string{"Enabled", "Disabled"}},
	{name: "NumCores", value: 16, kind: "Integer", min: 1, max: 64},
	{name: "ProcVirtualization", value: "Disabled", kind: "Enumeration", values: []string{"Enabled", "Disabled"}},
	{name: "QuietBoot", value: true, kind: "Boolean"},
	{name: "SerialNumber", value: "QPX12345", kind: "String", max: 32, readOnly: true, unique: true},
	{name: "SetupPassword", value: nil, kind: "Password", max: 32},
	{name: "SriovGlobalEnable", value: "Disabled", kind: "Enumeration", values: []string{"Enabled", "Disabled"}},
}

func biosAttributeOf(name string) *biosAttribute {
	i := slices.IndexFunc(biosAttributes, func(a biosAttribute) bool { return a.name == name })
	if i < 0 {
		return nil
	}
	return &biosAttributes[i]
}

// accepts reports whether the BMC takes a value, which came as JSON.
func (a *biosAttribute) accepts(value any) bool {
	if a == nil || a.readOnly {
		return false
	}
	switch v := value.(type) {
	case string:
		return a.kind == "String" && len(v) >= a.min && len(v) <= a.max || slices.Contains(a.values, v)
	case bool:
		return a.kind == "Boolean"
	}
	n, err := strconv.Atoi(textOf(value))
	return err == nil && a.kind == "Integer" && n >= a.min && n <= a.max
}

// machineSettings are what a BMC can change of its machine. Missing entries have their default.
type machineSettings struct {
	bios     map[string]any
	firmware map[string]string
	// volumes are those of the RAID controller; softwareRAID are those that the ramdisk made.
	volumes      []Volume
	softwareRAID []Volume
	volumesMade  int
}

// Volume is a RAID volume of a machine.
type Volume struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Level is Ironic's raid_level.
	Level string `json:"level"`
	// SizeGB is the size in GiB.
	SizeGB int `json:"sizeGB"`
}

// maxVolumeGB is the size of a volume that takes all the space.
const maxVolumeGB = 446

var defaultFirmware = map[string]string{"bios": "2.17.1", "bmc": "1.45.0"}

// BIOS returns the values of all BIOS settings of the machine.
func (b *BMC) BIOS() map[string]any {
	b.s.mu.RLock()
	defer b.s.mu.RUnlock()
	all := map[string]any{}
	for _, a := range biosAttributes {
		all[a.name] = b.settings.biosValue(a)
	}
	return all
}

func (m *machineSettings) biosValue(a biosAttribute) any {
	if v, changed := m.bios[a.name]; changed {
		return v
	}
	return a.value
}

// Firmware returns the versions of the firmware of the machine, of bios and of bmc.
func (b *BMC) Firmware() map[string]string {
	b.s.mu.RLock()
	defer b.s.mu.RUnlock()
	return b.settings.versions()
}

func (m *machineSettings) versions() map[string]string {
	all := maps.Clone(defaultFirmware)
	maps.Copy(all, m.firmware)
	return all
}

// Volumes returns the volumes of the machine's RAID controller.
func (b *BMC) Volumes() []Volume {
	b.s.mu.RLock()
	defer b.s.mu.RUnlock()
	return slices.Clone(b.settings.volumes)
}

// SoftwareRAID returns the volumes that ramdisks have made on the machine.
func (b *BMC) SoftwareRAID() []Volume {
	b.s.mu.RLock()
	defer b.s.mu.RUnlock()
	return slices.Clone(b.settings.softwareRAID)
}

func (m *machineSettings) setBIOS(name string, value any) {
	if m.bios == nil {
		m.bios = map[string]any{}
	}
	m.bios[name] = value
}

func (m *machineSettings) setFirmware(component, version string) {
	if m.firmware == nil {
		m.firmware = map[string]string{}
	}
	m.firmware[component] = version
}

// createVolume adds a volume from an element of logical_disks.
func (m *machineSettings) createVolume(d logicalDisk) Volume {
	m.volumesMade++
	id := strconv.Itoa(m.volumesMade)
	size := maxVolumeGB
	if n, err := strconv.Atoi(textOf(d.size)); err == nil {
		size = n
	}
	return Volume{ID: id, Name: cmp.Or(d.name, "Virtual disk "+id), Level: d.level, SizeGB: size}
}
