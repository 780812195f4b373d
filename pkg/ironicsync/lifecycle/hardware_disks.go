package lifecycle

import (
	"cmp"
	"slices"
	"strings"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// disks returns the disks of an inventory. An entry that is no object is left out.
func disks(all part, known []metal3.Storage) (disks []metal3.Storage) {
	entries, ok := all.list()
	if !ok {
		return known
	}
	for _, entry := range entries {
		if disk := entry.object(); !disk.isLost && !disk.isAbsent() {
			disks = append(disks, storage(disk, known))
		}
	}
	return disks
}

// byPath begins the device names that are stable across reboots.
const byPath = "/dev/disk/by-path/"

func storage(disk object, all []metal3.Storage) metal3.Storage {
	known := knownDisk(all, disk)
	knownName, knownPath := namesOf(known)
	name, path := read(disk.at("name"), knownName, toText), read(disk.at("by_path"), knownPath, toText)
	s := metal3.Storage{
		Name:               cmp.Or(path, name),
		Rotational:         read(disk.at("rotational"), known.Rotational, toBool),
		Type:               metal3.SSD,
		SizeBytes:          metal3.Capacity(read(disk.at("size"), int64(known.SizeBytes), toWhole)),
		Vendor:             read(disk.at("vendor"), known.Vendor, toText),
		Model:              read(disk.at("model"), known.Model, toText),
		SerialNumber:       read(disk.at("serial"), known.SerialNumber, toText),
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
