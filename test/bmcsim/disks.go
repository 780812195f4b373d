// SPDX-License-Identifier: Apache-2.0

package bmcsim

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// The simulated content of a disk is much smaller than the size that the machine reports: diskSize
// bytes, of which the first and the last metadataSize bytes are the partition tables and their copies.
const (
	diskSize     = 8 << 10
	metadataSize = 1 << 10
)

// DiskWrite is a write to a machine's disk.
type DiskWrite struct {
	// Step is the step of the ramdisk that wrote to the disk, such as "clean erase_devices_metadata".
	Step string
	// Disk is the name of the disk, such as /dev/sda.
	Disk string
	// At is the time of the write.
	At time.Time
}

// Disks returns the contents of the machine's disks by their names.
func (m *Machine) Disks() map[string][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	disks := make(map[string][]byte, len(m.disks))
	for name, content := range m.disks {
		disks[name] = bytes.Clone(content)
	}
	return disks
}

// DiskWrites returns all writes by ramdisks, in chronological order. The machine's own operating system
// writes nothing.
func (m *Machine) DiskWrites() []DiskWrite { return cloned(m, &m.diskWrites) }

// disksInUse returns the disks of a machine that was in use before: each has partition tables at both ends
// and data in between.
func disksInUse(h hardware) map[string][]byte {
	disks := map[string][]byte{}
	for _, d := range h.disks {
		content := bytes.Repeat([]byte("data on "+d.serial+"\n"), diskSize/8)[:diskSize]
		copy(content[510:], "\x55\xaa")          // the end of the boot sector
		copy(content[512:], "EFI PART")          // the GPT
		copy(content[diskSize-512:], "EFI PART") // the backup GPT
		disks[d.name] = content
	}
	return disks
}

// diskVendor is the vendor of all disks.
const diskVendor = "Contoso"

// physicalDisks returns the disks of the machine, including the volumes of its RAID controller. m.mu must be
// held.
func (m *Machine) physicalDisks() []disk {
	all := slices.Clone(m.hardware.disks)
	for _, v := range m.volumes {
		all = append(all, disk{
			name: v.Disk, byPath: "/dev/disk/by-path/pci-0000:65:00.0-scsi-0:2:" + v.ID + ":0", model: "Virtual disk", serial: m.hardware.serial + "-" + v.ID,
			wwn: "0x6003048" + m.hardware.serial[3:] + v.ID, hctl: "1:2:" + v.ID + ":0", bytes: v.Bytes, rotational: m.isHDD(v),
		})
	}
	return all
}

func (m *Machine) isHDD(v Volume) bool {
	return slices.ContainsFunc(raidDrives, func(d drive) bool { return d.media == "HDD" && slices.Contains(v.Drives, d.id) })
}

// blockDevices returns the physical disks and the md devices. m.mu must be held.
func (m *Machine) blockDevices() []disk {
	all := m.physicalDisks()
	for _, v := range m.softwareRAID {
		all = append(all, disk{name: v.Disk, byPath: v.Disk, model: "", serial: "", bytes: v.Bytes})
	}
	return all
}

// rootDisk returns the name of the disk to which images are written: the first md device, otherwise the first
// volume of the RAID controller, otherwise the last disk. Root device hints have no effect. m.mu must be held.
func (m *Machine) rootDisk() string {
	if len(m.softwareRAID) > 0 {
		return m.softwareRAID[0].Disk
	}
	if len(m.volumes) > 0 {
		return m.volumes[0].Disk
	}
	return m.hardware.disks[len(m.hardware.disks)-1].name
}

// changeDisk calls change, which modifies the content of a disk, and records the write. m.mu must be held.
func (m *Machine) changeDisk(step, name string, change func([]byte)) {
	change(m.disks[name])
	m.diskWrites = append(m.diskWrites, DiskWrite{Step: step, Disk: name, At: time.Now()})
}

// eraseDisks applies the effect of a step of the ramdisk to all disks. Steps that do not erase disks have no
// effect.
func (m *Machine) eraseDisks(kind, step string) {
	var whole func(disk string) bool // whether the whole disk is erased or only its partition tables
	switch step {
	case "erase_devices":
		whole = func(string) bool { return true }
	case "erase_devices_express": // erases whole disks if that takes no time
		whole = func(disk string) bool { return strings.Contains(disk, "nvme") }
	case "erase_devices_metadata":
		whole = func(string) bool { return false }
	default:
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.disks)) {
		if isMember(m.disks[name]) { // erasing the md device is enough, and keeps the software RAID
			continue
		}
		m.changeDisk(kind+" "+step, name, func(content []byte) {
			if whole(name) {
				clear(content)
			}
			clear(content[:metadataSize])
			clear(content[diskSize-metadataSize:])
		})
	}
}

// writeDisk writes the beginning of a deployed image to the root disk. The rest of the disk keeps its
// content. m.mu must be held.
func (m *Machine) writeDisk(step string, deployed []byte, drive ConfigDrive) {
	m.changeDisk("deploy "+step, m.rootDisk(), func(content []byte) {
		copy(content, deployed)
		if len(drive) > 0 { // the config drive is a partition at the end
			copy(content[diskSize-metadataSize:], fmt.Sprintf("config-2 %s", drive.UserData()))
		}
	})
}
