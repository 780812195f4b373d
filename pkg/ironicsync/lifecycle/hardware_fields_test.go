// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"slices"
	"strings"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// isUnidentified reports whether it is not known of which entry of a list the part is if it cannot be read: of an entry itself, and
// of the name of a disk that has no serial number.
func isUnidentified(path []string, before *metal3.HardwareDetails) bool {
	isBelow := func(list string) bool { i := slices.Index(path, list); return i >= 0 && i < len(path)-1 }
	var disk int
	if len(path) == 4 && path[1] == "disks" && path[3] == "name" {
		_, err := fmt.Sscan(path[2], &disk)
		return err == nil && before.Storage[disk].HCTL == ""
	}
	return len(path) == 3 && (path[1] == "disks" || path[1] == "interfaces") || isBelow("switch_port_vlans") || isBelow("flags")
}

// mayChange returns which fields of the hardware, by their prefixes, come from a part of the inventory.
func mayChange(path []string, before *metal3.HardwareDetails) []string {
	at := func(i int) string {
		if i < len(path) {
			return path[i]
		}
		return ""
	}
	field := map[string]string{
		"manufacturer": "vendor.manufacturer", "product_name": "vendor.product", "serial_number": "vendor.serial", "firmware": "bios",
		"architecture": "cpu.arch", "model_name": "cpu.model", "frequency": "cpu.clock", "count": "cpu.count", "flags": "cpu.flags",
	}[at(2)]
	switch path[0] + "." + at(1) {
	case "inventory.hostname":
		return []string{"hostname"}
	case "inventory.memory":
		return []string{"memory"}
	case "inventory.system_vendor":
		if at(2) == "" {
			return []string{"vendor", "bios"}
		}
		if at(3) != "" {
			return []string{"bios." + at(3)}
		}
		return orNone(field)
	case "inventory.cpu":
		if at(2) == "" {
			return []string{"cpu"}
		}
		return orNone(field)
	case "inventory.boot":
		return []string{"nic.*.pxe"}
	case "inventory.disks":
		if at(3) == "" {
			return []string{strings.TrimSuffix("disk."+at(2), ".")}
		}
		prefix := "disk." + at(2) + "."
		return map[string][]string{
			"name": {prefix + "name", prefix + "alternate", prefix + "type", prefix + "serial"}, "by_path": {prefix + "name", prefix + "alternate"},
			"rotational": {prefix + "rotational", prefix + "type"}, "size": {prefix + "size", prefix + "serial"}, "vendor": {prefix + "vendor"}, "model": {prefix + "model"},
			"serial": {prefix + "serial"}, "wwn": {prefix + "wwn="}, "wwn_with_extension": {prefix + "wwnWith"}, "wwn_vendor_extension": {prefix + "wwnVendor"}, "hctl": {prefix + "hctl"},
		}[at(3)]
	case "inventory.storage_controllers":
		return []string{"disk.*.serial", "disk.*.type", "disk.*.rotational", "disk.*.model", "disk.*.vendor"} // of the drive that is the disk
	case "inventory.interfaces":
		if at(2) == "" {
			return []string{"nic"}
		}
		prefix := "nic." + at(2) + "."
		if at(3) == "" {
			return []string{prefix}
		}
		return map[string][]string{
			"name": {prefix + "name", prefix + "pxe", prefix + "lldp", prefix + "vlan"}, "mac_address": {prefix + "mac", prefix + "pxe"},
			"ipv4_address": {prefix + "ips"}, "ipv6_address": {prefix + "ips"}, "vendor": {prefix + "model"}, "product": {prefix + "model"},
			"speed_mbps": {prefix + "speed"}, "pci_address": {prefix + "pci"},
		}[at(3)]
	case "plugin_data.":
		return []string{"nic.*.pxe", "nic.*.lldp", "nic.*.vlan"}
	case "plugin_data.all_interfaces":
		if at(3) == "" || at(3) == "pxe_enabled" {
			return []string{"nic." + indexOf(before, at(2)) + ".pxe"}
		}
	case "plugin_data.parsed_lldp":
		prefix := "nic." + indexOf(before, at(2)) + "."
		return []string{prefix + "lldp", prefix + "vlan"}
	}
	return nil
}

// matches reports whether a field begins with a prefix, in which * stands for any interface.
func matches(field, prefix string) bool {
	before, after, isAny := strings.Cut(prefix, "*")
	if !isAny {
		return strings.HasPrefix(field, prefix)
	}
	rest, ok := strings.CutPrefix(field, before)
	return ok && strings.HasPrefix(strings.TrimLeft(rest, "0123456789"), after)
}

func orNone(field string) []string {
	if field == "" {
		return nil
	}
	return []string{field}
}

// interfacesOf returns the interfaces by their order, with all of their entries.
func interfacesOf(hw *metal3.HardwareDetails) (interfaces [][]metal3.NIC) {
	for _, nic := range hw.NIC {
		if last := len(interfaces) - 1; last >= 0 && interfaces[last][0].Name == nic.Name && interfaces[last][0].MAC == nic.MAC {
			interfaces[last] = append(interfaces[last], nic)
			continue
		}
		interfaces = append(interfaces, []metal3.NIC{nic})
	}
	return interfaces
}

// indexOf returns the index of an interface, or * for all.
func indexOf(hw *metal3.HardwareDetails, name string) string {
	for i, entries := range interfacesOf(hw) {
		if entries[0].Name == name {
			return fmt.Sprint(i)
		}
	}
	return "*"
}

// flattened returns the hardware by fields. If the part at path is an entry of a list that was left out, an empty one is in its place.
func flattened(hw, before *metal3.HardwareDetails, path []string) map[string]string {
	v, bios, cpu := hw.SystemVendor, hw.Firmware.BIOS, hw.CPU
	flat := map[string]string{
		"hostname": hw.Hostname, "memory": fmt.Sprint(hw.RAMMebibytes),
		"vendor.manufacturer": v.Manufacturer, "vendor.product": v.ProductName, "vendor.serial": v.SerialNumber,
		"bios.vendor": bios.Vendor, "bios.version": bios.Version, "bios.build_date": bios.Date,
		"cpu.arch": cpu.Arch, "cpu.model": cpu.Model, "cpu.clock": fmt.Sprint(cpu.ClockMegahertz), "cpu.flags": fmt.Sprint(cpu.Flags), "cpu.count": fmt.Sprint(cpu.Count),
	}
	var left int
	isIn := func(list string) bool {
		if len(path) < 3 || path[0] != "inventory" || path[1] != list {
			return false
		}
		_, err := fmt.Sscan(path[2], &left)
		return err == nil
	}
	disks, interfaces := slices.Clone(hw.Storage), interfacesOf(hw)
	if isIn("disks") && len(disks) < len(before.Storage) {
		disks = slices.Insert(disks, left, metal3.Storage{})
	}
	if isIn("interfaces") && len(interfaces) < len(interfacesOf(before)) {
		interfaces = slices.Insert(interfaces, left, []metal3.NIC{{}})
	}
	for i, d := range disks {
		for name, value := range map[string]any{
			"name": d.Name, "alternate": d.AlternateNames, "type": d.Type, "rotational": d.Rotational, "size": d.SizeBytes, "vendor": d.Vendor, "model": d.Model,
			"serial": d.SerialNumber, "wwn=": d.WWN, "wwnWith": d.WWNWithExtension, "wwnVendor": d.WWNVendorExtension, "hctl": d.HCTL,
		} {
			flat[fmt.Sprintf("disk.%d.%s", i, name)] = fmt.Sprint(value)
		}
	}
	for i, entries := range interfaces {
		nic, ips := entries[0], []string{}
		for _, entry := range entries {
			ips = append(ips, entry.IP)
		}
		for name, value := range map[string]any{
			"name": nic.Name, "mac": nic.MAC, "model": nic.Model, "ips": ips, "speed": nic.SpeedGbps, "pci": nic.PCIAddress, "pxe": nic.PXE,
			"lldp": valueOf(nic.LLDP), "vlans": nic.VLANs, "vlanId": nic.VLANID,
		} {
			flat[fmt.Sprintf("nic.%d.%s", i, name)] = fmt.Sprint(value)
		}
	}
	return flat
}
