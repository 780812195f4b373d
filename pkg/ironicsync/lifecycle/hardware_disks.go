// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"slices"
	"strings"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// disks returns the disks of an inventory. An entry that is no object is left out.
func disks(inventory object, known []metal3.Storage) (disks []metal3.Storage) {
	entries, ok := inventory.at("disks").list()
	if !ok {
		return known
	}
	var all []object
	alike := map[driveKey]int{}
	for _, entry := range entries {
		if disk := entry.object(); !disk.isLost && !disk.isAbsent() {
			all = append(all, disk)
			key, _ := driveKeyOf(disk)
			alike[key]++
		}
	}
	drives := drivesOf(inventory)
	for _, disk := range all {
		disks = append(disks, storage(disk, drives.of(disk, alike), known))
	}
	return disks
}

// byPath begins the device names that are stable across reboots.
const byPath = "/dev/disk/by-path/"

// turning are the MediaTypes of Redfish whose drives rotate: SMR is shingled magnetic recording.
var turning = []string{string(metal3.HDD), "SMR"}

// storage returns a disk. drive is what its controller says of it, which has no fields if that is not known.
func storage(disk, drive object, all []metal3.Storage) metal3.Storage {
	known := knownDisk(all, disk)
	knownName, knownPath := namesOf(known)
	name, path := read(disk.at("name"), knownName, toText), read(disk.at("by_path"), knownPath, toText)
	s := metal3.Storage{
		Name:               cmp.Or(path, name),
		Rotational:         read(disk.at("rotational"), known.Rotational, toBool) || slices.Contains(turning, read(drive.at("media_type"), string(known.Type), toText)),
		Type:               metal3.SSD,
		SizeBytes:          metal3.Capacity(read(disk.at("size"), int64(known.SizeBytes), toWhole)),
		Vendor:             read(disk.or("vendor", drive, "manufacturer"), known.Vendor, toText),
		Model:              read(disk.or("model", drive, "model"), known.Model, toText),
		SerialNumber:       read(disk.or("serial", drive, "serial_number"), known.SerialNumber, toText),
		WWN:                read(disk.at("wwn"), known.WWN, toText),
		WWNVendorExtension: read(disk.at("wwn_vendor_extension"), known.WWNVendorExtension, toText),
		WWNWithExtension:   read(disk.at("wwn_with_extension"), known.WWNWithExtension, toText),
		HCTL:               read(disk.at("hctl"), known.HCTL, toText),
	}
	switch {
	case strings.HasPrefix(name, "/dev/nvme"):
		s.Type = metal3.NVME
	case s.Rotational:
		s.Type = metal3.HDD
	}
	for _, name := range []string{name, path} {
		if name != "" {
			s.AlternateNames = append(s.AlternateNames, name)
		}
	}
	return s
}

// drives are the disks as the controllers have them. Of a BMC, Ironic takes over the names and sizes of disks, and puts what else it
// is told below the controllers.
type drives struct {
	byKey map[driveKey][]object
	// isLost is set if some cannot be read.
	isLost bool
}

// driveKey is what a disk and a drive have in common.
type driveKey struct {
	name string
	size int64
}

// driveKeyOf is not ok if the key cannot be read.
func driveKeyOf(o object) (key driveKey, ok bool) {
	unread := &unreadParts{}
	name, size := o.at("name"), o.at("size")
	name.unread, size.unread = unread, unread
	return driveKey{read(name, "", toText), read(size, 0, toWhole)}, !o.isLost && len(unread.told) == 0
}

func drivesOf(inventory object) drives {
	found := drives{byKey: map[driveKey][]object{}}
	controllers, ok := inventory.at("storage_controllers").list()
	found.isLost = !ok
	for _, entry := range controllers {
		controller := entry.object()
		entries, ok := controller.at("drives").list()
		found.isLost = found.isLost || !ok
		for _, entry := range entries {
			drive := entry.object()
			key, ok := driveKeyOf(drive)
			found.isLost = found.isLost || !ok
			found.byKey[key] = append(found.byKey[key], drive)
		}
	}
	return found
}

// of returns the drive that is a disk: no other drive, and none of the other disks, which are counted by their keys, has its name and
// size.
func (d drives) of(disk object, alike map[driveKey]int) object {
	key, ok := driveKeyOf(disk)
	if found := d.byKey[key]; ok && len(found) == 1 && alike[key] == 1 {
		return found[0]
	}
	return object{part: part{isLost: d.isLost || !ok}}
}

// knownDisk returns what was known of a disk before: of that which does not differ from it in what can be read of its name
// and serial number.
func knownDisk(all []metal3.Storage, disk object) metal3.Storage {
	name := cmp.Or(peek(disk.at("by_path"), toText), peek(disk.at("name"), toText))
	serial := peek(disk.at("serial"), toText)
	if name == "" && serial == "" {
		return metal3.Storage{}
	}
	for _, known := range all {
		if (name == "" || slices.Contains(known.AlternateNames, name)) && (serial == "" || known.SerialNumber == serial) {
			return known
		}
	}
	return metal3.Storage{}
}

func namesOf(disk metal3.Storage) (name, path string) {
	for _, alternate := range disk.AlternateNames {
		if strings.HasPrefix(alternate, byPath) {
			path = alternate
		} else {
			name = alternate
		}
	}
	return name, path
}
