// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// maxInventory bounds the size of the inventories that are decoded, and that of the plugin data, in bytes. It allows for data
// that is not taken over into status.hardware, which is cut to validation.MaxHardware.
const maxInventory = 2 << 20

// HardwareFrom converts the inventory of an inspection, as Ironic stores it, to status.hardware. The inventory is what the hardware
// manager of ironic-python-agent makes, or what Ironic makes in the same form of what the BMC says; the plugin data is what
// Ironic's inspection hooks add. Of a part that cannot be read, what was known before remains, unless that is of another machine, and unread names it; known may
// be nil. The error says why the inventory cannot be used at all.
func HardwareFrom(raw *ironic.Inventory, known *metal3.HardwareDetails) (hw *metal3.HardwareDetails, unread string, err error) {
	if size := len(raw.Inventory); size > maxInventory {
		return nil, "", fmt.Errorf("inventory from Ironic: it is larger (%d bytes) than any server's (%d bytes)", size, maxInventory)
	}
	if known == nil {
		known = &metal3.HardwareDetails{}
	}
	told := &unreadParts{}
	inv := part{path: field.NewPath("inventory"), value: raw.Inventory, unread: told}
	if inv.isAbsent() {
		return nil, "", errors.New("inventory from Ironic: there is nothing in it")
	}
	all := inv.object()
	if all.isLost {
		return nil, "", fmt.Errorf("inventory from Ironic: %s", told)
	}
	hw = &metal3.HardwareDetails{
		RAMMebibytes: memory(all.at("memory").object(), known.RAMMebibytes),
		CPU:          cpu(all.at("cpu").object(), known.CPU),
		Hostname:     read(all.at("hostname"), known.Hostname, toText),
	}
	vendor := all.at("system_vendor").object()
	hw.SystemVendor = metal3.HardwareSystemVendor{
		Manufacturer: read(vendor.at("manufacturer"), known.SystemVendor.Manufacturer, toText),
		ProductName:  read(vendor.at("product_name"), known.SystemVendor.ProductName, toText),
		SerialNumber: read(vendor.at("serial_number"), known.SystemVendor.SerialNumber, toText),
	}
	bios := vendor.at("firmware").object()
	hw.Firmware.BIOS = metal3.BIOS{
		Date:    read(bios.at("build_date"), known.Firmware.BIOS.Date, toText),
		Vendor:  read(bios.at("vendor"), known.Firmware.BIOS.Vendor, toText),
		Version: read(bios.at("version"), known.Firmware.BIOS.Version, toText),
	}
	hw.NIC = newNetwork(all, pluginData(raw.PluginData, told), known.NIC).nics()
	hw.Storage = disks(all, known.Storage)
	if hw, err = cutHardware(hw); err == nil && areTwoMachines(hw, known) {
		return HardwareFrom(raw, nil)
	}
	return hw, told.String(), err
}

// areTwoMachines reports whether hardware details are of two machines: the host has got another BMC. Network
// interfaces count more than serial numbers: a Dell's BMC reports that of the mainboard, and a ramdisk the service tag.
func areTwoMachines(a, b *metal3.HardwareDetails) bool {
	if macs, others := macsOf(a), macsOf(b); len(macs) > 0 && len(others) > 0 {
		return !areMostlyTheSame(macs, others)
	}
	serial, other := serialOf(a), serialOf(b)
	return serial != "" && other != "" && serial != other
}

// pluginData returns the plugin data, which is lost if it is too large.
func pluginData(raw json.RawMessage, told *unreadParts) object {
	p := part{path: field.NewPath("plugin_data"), value: raw, unread: told}
	if len(raw) > maxInventory {
		told.add(part{path: p.path, value: fmt.Appendf(nil, "larger than %d bytes", maxInventory)})
		p.value, p.isLost = nil, true
	}
	return p.object()
}

// memory returns the size of the memory in MiB. The ramdisk says nothing of the physical memory if lshw does not find it,
// and then what the kernel has of it is known nevertheless, in bytes.
func memory(memory object, known int) int {
	size := read(memory.at("physical_mb"), known, toCount)
	if size == 0 {
		const mebibyte = 1 << 20
		size = int(min(peek(memory.at("total"), toWhole)/mebibyte, math.MaxInt32))
	}
	return size
}

func cpu(cpu object, known metal3.CPU) metal3.CPU {
	return metal3.CPU{
		Arch:           read(cpu.at("architecture"), known.Arch, toArch),
		Model:          read(cpu.at("model_name"), known.Model, toText),
		ClockMegahertz: metal3.ClockSpeed(math.Round(read(cpu.at("frequency"), float64(known.ClockMegahertz), toNumber))), // clients take it for an integer, as with the operator
		Flags:          flags(cpu.at("flags"), known.Flags),
		Count:          read(cpu.at("count"), known.Count, toCount),
	}
}

// flags returns the flags of a CPU in alphabetical order. They can also be one text.
func flags(all part, known []string) (flags []string) {
	var text string
	if !all.isAbsent() && json.Unmarshal(all.value, &text) == nil {
		flags = strings.Fields(text)
		slices.Sort(flags)
		return flags
	}
	entries, ok := all.list()
	if !ok {
		return known
	}
	for _, entry := range entries {
		if flag := read(entry, "", toText); flag != "" {
			flags = append(flags, flag)
		}
	}
	slices.Sort(flags)
	return flags
}
