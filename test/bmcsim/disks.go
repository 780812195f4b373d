package bmcsim

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// A disk says that it is large and is small: diskSize bytes, of which the first and
// the last metadataSize are the partition tables and their copies.
const (
	diskSize     = 8 << 10
	metadataSize = 1 << 10
)

// DiskWrite is something that a machine's disks went through.
type DiskWrite struct {
	// Step of the ramdisk did it, such as "clean erase_devices_metadata".
	Step string
	// Disk is its name, such as /dev/sda.
	Disk string
	At   time.Time
}

// Disks are the contents of the machine's disks by their names.
func (m *Machine) Disks() map[string][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	disks := make(map[string][]byte, len(m.disks))
	for name, content := range m.disks {
		disks[name] = bytes.Clone(content)
	}
	return disks
}

// DiskWrites are those of ramdisks since the machine was made, the last at the end.
// The machine's own operating system writes nothing.
func (m *Machine) DiskWrites() []DiskWrite {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.diskWrites)
}

// disksInUse are those of a machine that somebody worked with: each has partition
// tables at both ends and data in between.
func disksInUse(h hardware) map[string][]byte {
	disks := map[string][]byte{}
	for _, d := range h.disks {
		content := bytes.Repeat([]byte("data on "+d.serial+"\n"), diskSize/8)[:diskSize]
		copy(content[510:], "\x55\xaa")          // the boot sector ends
		copy(content[512:], "EFI PART")          // GPT
		copy(content[diskSize-512:], "EFI PART") // its copy
		disks[d.name] = content
	}
	return disks
}

// rootDisk is where images are written to.
func (m *Machine) rootDisk() string { return m.hardware.disks[len(m.hardware.disks)-1].name }

// changeDisk needs m.mu. change gets the disk's content to write to.
func (m *Machine) changeDisk(step, name string, change func([]byte)) {
	change(m.disks[name])
	m.diskWrites = append(m.diskWrites, DiskWrite{Step: step, Disk: name, At: time.Now()})
}

// eraseDisks does to all disks what a step of the ramdisk does. Other steps leave
// them alone.
func (m *Machine) eraseDisks(kind, step string) {
	var whole func(disk string) bool // as opposed to its partition tables
	switch step {
	case "erase_devices":
		whole = func(string) bool { return true }
	case "erase_devices_express": // where that takes no time
		whole = func(disk string) bool { return strings.Contains(disk, "nvme") }
	case "erase_devices_metadata", "create_configuration", "delete_configuration", "apply_configuration":
		// The last three are those of RAID.
		whole = func(string) bool { return false }
	default:
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.disks)) {
		m.changeDisk(kind+" "+step, name, func(content []byte) {
			if whole(name) {
				clear(content)
			}
			clear(content[:metadataSize])
			clear(content[diskSize-metadataSize:])
		})
	}
}

// writeDisk puts the beginning of what is deployed on the root disk, and the rest
// that it does not fill stays. m.mu must be held.
func (m *Machine) writeDisk(step string, deployed []byte, drive ConfigDrive) {
	m.changeDisk("deploy "+step, m.rootDisk(), func(content []byte) {
		copy(content, deployed)
		if len(drive) > 0 { // a partition at the end
			copy(content[diskSize-metadataSize:], fmt.Sprintf("config-2 %s", drive.UserData()))
		}
	})
}
