// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// TestHardwareFromParts is about what ramdisks, BMCs and hooks leave out, or put in another form. What cannot be read is named.
func TestHardwareFromParts(t *testing.T) {
	nics := func(nics ...metal3.NIC) metal3.HardwareDetails { return metal3.HardwareDetails{NIC: nics} }
	for name, tt := range map[string]struct {
		inventory, plugins string
		want               metal3.HardwareDetails
		unread             string
	}{
		"nothing at all": {inventory: `{}`},
		"nulls":          {inventory: `{"cpu": null, "disks": [null], "interfaces": null, "memory": {"physical_mb": null}}`, plugins: `null`},
		"a disk without names": {
			inventory: `{"disks": [{"size": 1}]}`,
			want:      metal3.HardwareDetails{Storage: []metal3.Storage{{Type: metal3.SSD, SizeBytes: 1}}},
		},
		"a disk that is none": {
			inventory: `{"disks": ["sda", {"name": "/dev/sdb"}]}`,
			want:      metal3.HardwareDetails{Storage: []metal3.Storage{{Type: metal3.SSD, Name: "/dev/sdb", AlternateNames: []string{"/dev/sdb"}}}},
			unread:    `inventory.disks[0] is "sda"`,
		},
		"disks that are an object": {inventory: `{"disks": {"sda": 1}}`, unread: `inventory.disks is an object`},
		"whether it rotates, in words": {
			inventory: `{"disks": [{"rotational": "True"}, {"rotational": 1}, {"rotational": "fast"}]}`,
			want:      metal3.HardwareDetails{Storage: []metal3.Storage{{Type: metal3.HDD, Rotational: true}, {Type: metal3.HDD, Rotational: true}, {Type: metal3.SSD}}},
			unread:    `inventory.disks[2].rotational is "fast"`,
		},
		"drives as their controllers have them": {
			inventory: `{"disks": [{"name": "Disk 0", "size": 10}, {"name": "Bay", "size": 20}, {"name": "Bay", "size": 20}, {"name": "Disk 1", "size": 30, "serial": "ABC"}],
				"storage_controllers": [{"drives": [{"name": "Disk 0", "size": 10, "media_type": "HDD", "serial_number": "ZA100001", "manufacturer": "SEAGATE", "model": "ST8"},
					{"name": "Bay", "size": 20, "serial_number": "ZA100002"}, {"name": "Disk 1", "size": 30, "media_type": "SSD", "serial_number": "XYZ"}]}, {"drives": null}, {}]}`,
			want: metal3.HardwareDetails{Storage: []metal3.Storage{
				{Name: "Disk 0", AlternateNames: []string{"Disk 0"}, Type: metal3.HDD, Rotational: true, SizeBytes: 10, SerialNumber: "ZA100001", Vendor: "SEAGATE", Model: "ST8"},
				{Name: "Bay", AlternateNames: []string{"Bay"}, Type: metal3.SSD, SizeBytes: 20}, {Name: "Bay", AlternateNames: []string{"Bay"}, Type: metal3.SSD, SizeBytes: 20},
				{Name: "Disk 1", AlternateNames: []string{"Disk 1"}, Type: metal3.SSD, SizeBytes: 30, SerialNumber: "ABC"},
			}},
		},
		"a drive that records in shingles": {
			inventory: `{"disks": [{"name": "Bay 1", "size": 10}], "storage_controllers": [{"drives": [{"name": "Bay 1", "size": 10, "media_type": "SMR"}]}]}`,
			want:      metal3.HardwareDetails{Storage: []metal3.Storage{{Name: "Bay 1", AlternateNames: []string{"Bay 1"}, Type: metal3.HDD, Rotational: true, SizeBytes: 10}}},
		},
		"a size beyond all numbers": {
			inventory: `{"disks": [{"size": 9223372036854775808}, {"size": "9007199254740993"}, {"size": 1e12}]}`,
			want:      metal3.HardwareDetails{Storage: []metal3.Storage{{Type: metal3.SSD}, {Type: metal3.SSD, SizeBytes: 9007199254740993}, {Type: metal3.SSD, SizeBytes: 1e12}}},
			unread:    `inventory.disks[0].size is 9223372036854775808`,
		},
		"a CPU frequency that is a number": {
			inventory: `{"cpu": {"frequency": 2600.5}}`,
			want:      metal3.HardwareDetails{CPU: metal3.CPU{ClockMegahertz: 2601}},
		},
		"a CPU frequency as it is measured": {
			inventory: `{"cpu": {"frequency": "2499.998"}}`,
			want:      metal3.HardwareDetails{CPU: metal3.CPU{ClockMegahertz: 2500}},
		},
		"a CPU frequency that is none":   {inventory: `{"cpu": {"frequency": "unknown"}}`, unread: `inventory.cpu.frequency is "unknown"`},
		"a CPU frequency with a unit":    {inventory: `{"cpu": {"frequency": "2400.5 MHz"}}`, unread: `inventory.cpu.frequency is "2400.5 MHz"`},
		"a CPU frequency that is empty":  {inventory: `{"cpu": {"frequency": ""}}`},
		"a CPU frequency that is null":   {inventory: `{"cpu": {"frequency": null}}`},
		"a number of CPUs in words":      {inventory: `{"cpu": {"count": " 8"}}`, want: metal3.HardwareDetails{CPU: metal3.CPU{Count: 8}}},
		"more CPUs than clients can say": {inventory: `{"cpu": {"count": 2147483648}}`, unread: `inventory.cpu.count is 2147483648`},
		"flags in one text": {
			inventory: `{"cpu": {"flags": "vme fpu"}}`,
			want:      metal3.HardwareDetails{CPU: metal3.CPU{Flags: []string{"fpu", "vme"}}},
		},
		"flags that are a number": {inventory: `{"cpu": {"flags": 7}}`, unread: `inventory.cpu.flags is 7`},
		"flags of several types": {
			inventory: `{"cpu": {"flags": ["vme", 3, null, ["x"], "fpu"]}}`,
			want:      metal3.HardwareDetails{CPU: metal3.CPU{Flags: []string{"3", "fpu", "vme"}}},
			unread:    `inventory.cpu.flags[3] is a list`,
		},
		"an architecture that spec.architecture must not become": {
			inventory: `{"cpu": {"architecture": "x86_64\nrm -rf /", "count": 2}}`,
			want:      metal3.HardwareDetails{CPU: metal3.CPU{Count: 2}},
			unread:    `inventory.cpu.architecture is "x86_64\nrm -rf /"`,
		},
		"memory with a fraction":           {inventory: `{"memory": {"physical_mb": 16384.5}}`, want: metal3.HardwareDetails{RAMMebibytes: 16384}},
		"memory of which lshw knows none":  {inventory: `{"memory": {"physical_mb": null, "total": 16777216000}}`, want: metal3.HardwareDetails{RAMMebibytes: 16000}},
		"memory that is negative":          {inventory: `{"memory": {"physical_mb": -1}}`, unread: `inventory.memory.physical_mb is -1`},
		"a serial number that is a number": {inventory: `{"system_vendor": {"serial_number": 1.50}}`, want: metal3.HardwareDetails{SystemVendor: metal3.HardwareSystemVendor{SerialNumber: "1.50"}}},
		"firmware that is a text": {
			inventory: `{"system_vendor": {"manufacturer": "Acme", "firmware": "1.0"}}`,
			want:      metal3.HardwareDetails{SystemVendor: metal3.HardwareSystemVendor{Manufacturer: "Acme"}},
			unread:    `inventory.system_vendor.firmware is "1.0"`,
		},
		"PXE by the boot MAC address, without plugin data": {
			inventory: `{"boot": {"pxe_interface": "52:54:00:AA:BB:CC"}, "interfaces": [{"name": "a", "mac_address": "52:54:00:aa:bb:cc"}, {"name": "b", "mac_address": "52:54:00:aa:bb:cd"}]}`,
			want:      nics(metal3.NIC{Name: "a", MAC: "52:54:00:aa:bb:cc", PXE: true}, metal3.NIC{Name: "b", MAC: "52:54:00:aa:bb:cd"}),
		},
		"PXE by what PXELINUX says": {
			inventory: `{"boot": {"pxe_interface": "01-52-54-00-AA-BB-CC"}, "interfaces": [{"name": "a", "mac_address": "52:54:00:aa:bb:cc"}]}`,
			want:      nics(metal3.NIC{Name: "a", MAC: "52:54:00:aa:bb:cc", PXE: true}),
		},
		"PXE by plugin data that cannot be read": {
			inventory: `{"boot": {"pxe_interface": "52:54:00:aa:bb:cc"}, "interfaces": [{"name": "a", "mac_address": "52:54:00:aa:bb:cc"}]}`,
			plugins:   `{"all_interfaces": {"a": 1}}`,
			want:      nics(metal3.NIC{Name: "a", MAC: "52:54:00:aa:bb:cc", PXE: true}),
			unread:    `plugin_data.all_interfaces[a] is 1`,
		},
		"plugin data knows better than the boot MAC address": {
			inventory: `{"boot": {"pxe_interface": "52:54:00:aa:bb:cc"}, "interfaces": [{"name": "a", "mac_address": "52:54:00:aa:bb:cc"}]}`,
			plugins:   `{"all_interfaces": {"a": {"pxe_enabled": false}}}`,
			want:      nics(metal3.NIC{Name: "a", MAC: "52:54:00:aa:bb:cc"}),
		},
		"MAC addresses in all forms": {
			inventory: `{"interfaces": [{"mac_address": "00-16-3E-20-00-01"}, {"mac_address": "0016.3e20.0001"}, {"mac_address": "00163E200001"},
				{"mac_address": "21:00:00:16:3E:AA:BB:01"}, {"mac_address": "a0:00:02:20:fe:80:00:00:00:00:00:00:00:16:3e:03:00:aa:bb:02"}, {"mac_address": ""}]}`,
			want: nics(metal3.NIC{MAC: "00:16:3e:20:00:01"}, metal3.NIC{MAC: "00:16:3e:20:00:01"}, metal3.NIC{MAC: "00:16:3e:20:00:01"},
				metal3.NIC{MAC: "21:00:00:16:3e:aa:bb:01"}, metal3.NIC{MAC: "a0:00:02:20:fe:80:00:00:00:00:00:00:00:16:3e:03:00:aa:bb:02"}, metal3.NIC{}),
		},
		"MAC addresses that are none": {
			inventory: `{"interfaces": [{"name": "a", "mac_address": "N/A"}, {"name": "b", "mac_address": "00:16:3e"}]}`,
			want:      nics(metal3.NIC{Name: "a"}, metal3.NIC{Name: "b"}),
			unread:    `inventory.interfaces[0].mac_address is "N/A"; inventory.interfaces[1].mac_address is "00:16:3e"`,
		},
		"addresses that are none, and one with a zone": {
			inventory: `{"interfaces": [{"name": "a", "ipv4_address": "none"}, {"name": "b", "ipv6_address": "fe80::1%b"}]}`,
			want:      nics(metal3.NIC{Name: "a"}, metal3.NIC{Name: "b", IP: "fe80::1%b"}),
			unread:    `inventory.interfaces[0].ipv4_address is "none"`,
		},
		"a speed that is negative": {inventory: `{"interfaces": [{"name": "a", "speed_mbps": -1}]}`, want: nics(metal3.NIC{Name: "a"}), unread: `inventory.interfaces[0].speed_mbps is -1`},
		"a switch that names no VLAN": {
			inventory: `{"interfaces": [{"name": "a"}]}`,
			plugins:   `{"parsed_lldp": {"a": {"switch_port_id": "swp1"}}}`,
			want:      nics(metal3.NIC{Name: "a", LLDP: &metal3.LLDP{PortID: "swp1"}}),
		},
		"VLANs with IDs in words, and none": {
			inventory: `{"interfaces": [{"name": "a"}]}`,
			plugins:   `{"parsed_lldp": {"a": {"switch_port_vlans": [{"id": "100", "name": "x"}, {"id": 4095}, {"id": "all"}, 7, null], "switch_port_untagged_vlan_id": 4095}}}`,
			want:      nics(metal3.NIC{Name: "a", VLANs: []metal3.VLAN{{ID: 100, Name: "x"}}}),
			unread:    `plugin_data.parsed_lldp[a].switch_port_vlans[2].id is "all"; plugin_data.parsed_lldp[a].switch_port_vlans[3] is 7`,
		},
		"an interface with a name that nobody can read": {
			inventory: `{"interfaces": [{"name": "a\u001b[2J"}]}`,
			plugins:   `{"all_interfaces": {"a\u001b[2J": 1}}`,
			want:      nics(metal3.NIC{Name: "a\x1b[2J"}),
			unread:    "plugin_data.all_interfaces[a\ufffd[2J] is 1",
		},
		"LLDP of an interface that is not there": {
			inventory: `{"interfaces": [{"name": "a"}]}`,
			plugins:   `{"parsed_lldp": {"b": {"switch_port_id": "swp1"}}}`,
			want:      nics(metal3.NIC{Name: "a"}),
		},
		"plugin data that is a text": {inventory: `{"interfaces": [{"name": "a"}]}`, plugins: `"x"`, want: nics(metal3.NIC{Name: "a"}), unread: `plugin_data is "x"`},
		"plugin data that is huge":   {inventory: `{"hostname": "a"}`, plugins: `{"x": "` + strings.Repeat("x", maxInventory) + `"}`, want: metal3.HardwareDetails{Hostname: "a"}, unread: "plugin_data is larger than 2097152 bytes"},
		"much that cannot be read": {
			inventory: `{"disks": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}`,
			unread: "inventory.disks[0] is 1; inventory.disks[1] is 2; inventory.disks[2] is 3; inventory.disks[3] is 4; " +
				"inventory.disks[4] is 5; inventory.disks[5] is 6; inventory.disks[6] is 7; inventory.disks[7] is 8; and 2 more",
		},
	} {
		got, unread, err := HardwareFrom(&ironic.Inventory{Inventory: json.RawMessage(tt.inventory), PluginData: json.RawMessage(tt.plugins)}, nil)
		if err != nil || unread != tt.unread {
			t.Errorf("%s: %v, and it cannot read %q, want %q", name, err, unread, tt.unread)
			continue
		}
		if diff := cmp.Diff(&tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestUnusableInventory is about what is no inventory.
func TestUnusableInventory(t *testing.T) {
	for name, tt := range map[string]struct{ inventory, want string }{
		"none":      {"", "there is nothing in it"},
		"null":      {"null", "there is nothing in it"},
		"a list":    {"[]", "inventory is a list"},
		"no JSON":   {"{", "inventory is an object"},
		"too large": {`{"hostname": "` + strings.Repeat("x", maxInventory) + `"}`, "it is larger"},
	} {
		hardware, _, err := HardwareFrom(&ironic.Inventory{Inventory: json.RawMessage(tt.inventory)}, nil)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, and %+v; want %s", name, err, hardware, tt.want)
		}
	}
}
