// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"cmp"
	"fmt"
	"maps"
	"strconv"

	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

// machineSettings are what a BMC can change of its machine. Missing entries have
// their default. The BIOS attributes of a machine with a Redfish BMC are those of
// bmcsim's, so that a test can use both.
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
	for _, a := range bmcsim.BIOSAttributes {
		all[a.Name] = b.settings.biosValue(a)
	}
	return all
}

func (m *machineSettings) biosValue(a bmcsim.BIOSAttribute) any {
	if v, changed := m.bios[a.Name]; changed {
		return v
	}
	return a.Value
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
func (b *BMC) Volumes() []Volume { return cloned(b, &b.settings.volumes) }

// SoftwareRAID returns the volumes that ramdisks have made on the machine.
func (b *BMC) SoftwareRAID() []Volume { return cloned(b, &b.settings.softwareRAID) }

// SetBIOS changes a BIOS setting of the machine behind Ironic's back.
func (b *BMC) SetBIOS(name string, value any) error {
	a := bmcsim.BIOSAttributeOf(name)
	if a == nil {
		return fmt.Errorf("ironicsim: there is no BIOS attribute %s", name)
	}
	b.set(func() { b.settings.setBIOS(name, toJSON(value)) })
	return nil
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
