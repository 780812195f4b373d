// SPDX-License-Identifier: Apache-2.0

package bmcsim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// SoftwareVolume is an md device that the ramdisk has created.
type SoftwareVolume struct {
	// Disk is its name, such as /dev/md0.
	Disk string
	// Level is Ironic's raid_level, such as 1 or 1+0.
	Level string
	Name  string
	Bytes int64
	// Members are the names of the disks.
	Members []string
	Root    bool
}

// SoftwareRAID returns the md devices of the machine.
func (m *Machine) SoftwareRAID() []SoftwareVolume { return cloned(m, &m.softwareRAID) }

// logicalDisk is an element of logical_disks in Ironic's target_raid_config.
type logicalDisk struct {
	Size       any               `json:"size_gb"` // a number or MAX
	Level      string            `json:"raid_level"`
	Controller string            `json:"controller"`
	Name       string            `json:"volume_name"`
	Root       bool              `json:"is_root_volume"`
	Disks      []json.RawMessage `json:"physical_disks"`
}

// mdSuperblock is at the end of disks that belong to an md device.
var mdSuperblock = []byte("md superblock")

// createSoftwareRAID executes raid.create_configuration of the ramdisk's hardware manager, with its limits.
func (m *Machine) createSoftwareRAID(step string, config map[string]any) (any, error) {
	content, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	var target struct {
		Disks []logicalDisk `json:"logical_disks"`
	}
	if err := json.Unmarshal(content, &target); err != nil {
		return nil, fmt.Errorf("target_raid_config: %w", err)
	}
	if len(target.Disks) == 0 {
		return nil, nil
	}
	if err := checkSoftwareRAID(target.Disks); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	disks := m.physicalDisks()
	var volumes []SoftwareVolume
	members := map[string]bool{}
	for i, d := range target.Disks {
		v := SoftwareVolume{Disk: "/dev/md" + strconv.Itoa(i), Level: d.Level, Name: d.Name, Root: d.Root}
		least := int64(0)
		for _, disk := range disks {
			if len(d.Disks) > 0 && !slices.ContainsFunc(d.Disks, disk.matches) {
				continue
			}
			v.Members = append(v.Members, disk.name)
			members[disk.name] = true
			if least == 0 || disk.bytes < least {
				least = disk.bytes
			}
		}
		if len(v.Members) < 2 {
			return nil, fmt.Errorf("not enough disks for a software RAID device: the hints of logical disk %d match %v", i, v.Members)
		}
		v.Bytes = least
		if size, ok := d.Size.(float64); ok {
			v.Bytes = int64(size) << 30
		}
		volumes = append(volumes, v)
	}
	var used []string
	for name := range members {
		if content := m.disks[name]; bytes.Equal(content[510:512], []byte("\x55\xaa")) || bytes.HasPrefix(content[512:], []byte("EFI PART")) || isMember(content) {
			used = append(used, name)
		}
	}
	if len(used) > 0 {
		slices.Sort(used)
		return nil, fmt.Errorf("partitions detected on devices %v during RAID config", used)
	}
	for name := range members {
		m.changeDisk(step, name, func(content []byte) { copy(content[diskSize-metadataSize:], mdSuperblock) })
	}
	for _, v := range volumes {
		m.disks[v.Disk] = make([]byte, diskSize)
	}
	m.softwareRAID = volumes
	return config, nil
}

func checkSoftwareRAID(disks []logicalDisk) error {
	whole, roots := 0, 0
	for _, d := range disks {
		if d.Controller != "software" {
			return errors.New("the ramdisk can only create a software RAID, and controller is not software")
		}
		if d.Size == "MAX" {
			whole++
		}
		if d.Root {
			roots++
		}
		if len(d.Disks) == 1 {
			return errors.New("a software RAID device needs at least two physical disks")
		}
	}
	switch {
	case disks[0].Level != "1":
		return errors.New("the first software RAID device must have the level 1")
	case len(disks) > 2:
		return fmt.Errorf("at most 2 software RAID devices are supported, not %d", len(disks))
	case whole > 1:
		return errors.New("only one software RAID device can have the size MAX")
	case roots > 1:
		return errors.New("only one software RAID device can be the root volume")
	}
	return nil
}

// deleteSoftwareRAID executes raid.delete_configuration. Disks that are not part of a software RAID keep
// their content.
func (m *Machine) deleteSoftwareRAID(step string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range m.softwareRAID {
		delete(m.disks, v.Disk)
	}
	m.softwareRAID = nil
	for name, content := range m.disks {
		if isMember(content) {
			m.changeDisk(step, name, func(content []byte) {
				clear(content[:metadataSize])
				clear(content[diskSize-metadataSize:])
			})
		}
	}
}

func isMember(content []byte) bool {
	return bytes.HasPrefix(content[diskSize-metadataSize:], mdSuperblock)
}

// matches reports whether a disk has the properties in a hint, which are those of root device hints with
// their operators.
func (d disk) matches(hint json.RawMessage) bool {
	var hints map[string]any
	if json.Unmarshal(hint, &hints) != nil {
		return false
	}
	for key, want := range hints {
		var have string
		switch key {
		case "name":
			have = d.name
		case "serial":
			have = d.serial
		case "model":
			have = d.model
		case "wwn":
			have = d.wwn
		case "hctl":
			have = d.hctl
		case "vendor":
			have = diskVendor
		case "rotational":
			have = strconv.FormatBool(d.rotational)
		case "size":
			have = strconv.FormatInt(d.bytes>>30, 10)
		default:
			return false
		}
		if !matchesHint(have, fmt.Sprint(want)) {
			return false
		}
	}
	return true
}

func matchesHint(have, want string) bool {
	operator, value, found := strings.Cut(want, " ")
	if !found {
		return strings.EqualFold(have, want)
	}
	value = strings.TrimSpace(value)
	a, errA := strconv.ParseFloat(have, 64)
	b, errB := strconv.ParseFloat(value, 64)
	numbers := errA == nil && errB == nil
	switch operator {
	case "s==":
		return strings.EqualFold(have, value)
	case "s!=":
		return !strings.EqualFold(have, value)
	case "<in>":
		return strings.Contains(strings.ToLower(have), strings.ToLower(value))
	case "=", ">=":
		return numbers && a >= b
	case "==":
		return numbers && a == b
	case "<=":
		return numbers && a <= b
	case ">":
		return numbers && a > b
	case "<":
		return numbers && a < b
	case "!=":
		return numbers && a != b
	}
	return strings.EqualFold(have, want)
}
