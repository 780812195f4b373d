// SPDX-License-Identifier: Apache-2.0

package bmcsim

import (
	"encoding/hex"
	"fmt"
	"net"
	"slices"
)

// report returns what the ramdisk posts to continue_inspection: an inventory, and the data that Ironic
// stores as plugin data. A ramdisk knows from which interface it was booted only if it was booted from
// the network.
func (m *Machine) report(fromNetwork bool) object {
	m.mu.Lock()
	devices, root, biosVersion := m.blockDevices(), m.rootDisk(), m.firmware[firmwareBIOS]
	m.mu.Unlock()
	h := m.hardware
	interfaces, lldp := []object{}, object{}
	for _, n := range h.nics {
		tlvs := n.lldp()
		lldp[n.name] = tlvs
		var speed any
		if n.carrier {
			speed = n.speedMbps
		}
		interfaces = append(interfaces, object{
			"name": n.name, "mac_address": n.mac, "ipv4_address": orNull(n.ip), "ipv6_address": nil, "has_carrier": n.carrier,
			"lldp": tlvs, "vendor": n.model[:6], "product": n.model[7:], "client_id": nil, "biosdevname": nil,
			"speed_mbps": speed, "pci_address": n.pci, "driver": "i40e",
		})
	}
	disks := []object{}
	for _, d := range devices {
		disks = append(disks, object{
			"name": d.name, "by_path": d.byPath, "model": d.model, "serial": d.serial, "vendor": diskVendor, "size": d.bytes, "rotational": d.rotational,
			"wwn": d.wwn, "wwn_with_extension": d.wwn, "wwn_vendor_extension": nil, "hctl": orNull(d.hctl),
			"logical_sectors": 512, "physical_sectors": 512,
		})
	}
	var boot any
	if fromNetwork {
		boot = h.nics[0].mac
	}
	return object{
		"inventory": object{
			"interfaces": interfaces, "disks": disks,
			"cpu": object{
				"model_name": h.cpuModel, "frequency": fmt.Sprintf("%d.0000", h.cpuMHz), "count": h.cpus, "architecture": h.arch,
				"flags": []string{"aes", "avx2", "fpu", "lm", "sse4_2", "vmx"}, "socket_count": 2,
			},
			"memory": object{"total": int64(h.memoryMiB) << 20, "physical_mb": h.memoryMiB},
			// The ramdisk does not report the address of a BMC on a loopback address.
			"bmc_address": nil, "bmc_v6address": nil, "bmc_mac": nil,
			"system_vendor": object{
				"product_name": h.product, "serial_number": h.serial, "manufacturer": h.manufacturer,
				"firmware": object{"vendor": h.manufacturer, "version": biosVersion, "build_date": "03/14/2023"},
			},
			"boot":     object{"current_boot_mode": "uefi", "pxe_interface": boot},
			"hostname": "host-" + h.serial,
		},
		"root_disk": disks[slices.IndexFunc(devices, func(d disk) bool { return d.name == root })], "boot_interface": boot, "lldp_raw": lldp, "error": nil,
		"configuration": object{"collectors": []string{"default", "lldp"}, "managers": []object{{"name": "generic_hardware_manager", "version": "1.2"}}},
	}
}

// lldp returns the TLVs of the last LLDP frame from the switch, each with its type and its value in
// hexadecimal (IEEE 802.1AB, and IEEE 802.1Q annex D for VLANs).
func (n nic) lldp() [][2]any {
	tlvs := [][2]any{}
	if !n.carrier {
		return tlvs
	}
	add := func(kind int, parts ...[]byte) {
		tlvs = append(tlvs, [2]any{kind, hex.EncodeToString(slices.Concat(parts...))})
	}
	mac, _ := net.ParseMAC(n.switchMAC) // hardwareOf creates valid addresses
	add(1, []byte{4}, mac)
	add(2, []byte{5}, []byte(n.switchPort))
	add(3, []byte{0, 120})
	add(5, []byte("switch-"+n.switchMAC[15:]))
	ieee8021 := []byte{0x00, 0x80, 0xc2}
	add(127, ieee8021, []byte{1}, []byte{byte(n.vlan >> 8), byte(n.vlan)})
	for _, v := range n.vlans {
		add(127, ieee8021, []byte{3}, []byte{byte(v.id >> 8), byte(v.id), byte(len(v.name))}, []byte(v.name))
	}
	add(0)
	return tlvs
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}
