package lifecycle

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

func recordedInventory(t testing.TB, release string) *ironic.Inventory {
	t.Helper()
	raw := &ironic.Inventory{}
	if err := json.Unmarshal(readTestdata(t, release+"-inventory.json"), raw); err != nil {
		t.Fatal(err)
	}
	return raw
}

// The same machine, as the native inspection (trixie, sid) and as
// ironic-inspector (bookworm) tell of it.
func TestHardwareFrom(t *testing.T) {
	lldp := &metal3.LLDP{SwitchID: "11:22:33:aa:bb:cc", PortID: "Ethernet1/18", SwitchSystemName: "switch-1"}
	vlans := []metal3.VLAN{{ID: 100, Name: "vlan100"}, {ID: 200, Name: "vlan200"}}
	eth0 := metal3.NIC{
		Name: "eth0", Model: "0x1af4 0x0001", MAC: "52:54:00:11:22:33", IP: "198.51.100.10", SpeedGbps: 10,
		PXE: true, VLANs: vlans, VLANID: 100, LLDP: lldp, PCIAddress: "0000:00:02.0",
	}
	eth0v6 := eth0
	eth0v6.IP = "2001:db8::10"
	want := &metal3.HardwareDetails{
		Hostname:     "host-1",
		SystemVendor: metal3.HardwareSystemVendor{Manufacturer: "QEMU", ProductName: "Standard PC (Q35 + ICH9, 2009)", SerialNumber: "SN-1"},
		Firmware:     metal3.Firmware{BIOS: metal3.BIOS{Vendor: "SeaBIOS", Version: "1.16.0", Date: "04/01/2014"}},
		RAMMebibytes: 16384,
		CPU:          metal3.CPU{Arch: "x86_64", Model: "Intel Xeon E5-2680 v4", ClockMegahertz: 2400, Flags: []string{"fpu", "sse2", "vme", "vmx"}, Count: 8},
		NIC: []metal3.NIC{
			eth0, eth0v6, // one for each address family
			{Name: "eth1", Model: "0x1af4 0x0001", MAC: "52:54:00:11:22:fe", IP: "fe80::5054:ff:fe11:22fe", SpeedGbps: 25, PCIAddress: "0000:00:03.0"},
			{Name: "eth2", MAC: "52:54:00:11:22:ff"}, // no address is no reason to leave it out
		},
		Storage: []metal3.Storage{
			{
				Name: "/dev/disk/by-path/pci-0000:00:05.0-scsi-0:0:0:0", AlternateNames: []string{"/dev/sda", "/dev/disk/by-path/pci-0000:00:05.0-scsi-0:0:0:0"},
				Type: metal3.HDD, Rotational: true, SizeBytes: 53687091200, Vendor: "QEMU", Model: "QEMU HARDDISK", SerialNumber: "drive-scsi0", HCTL: "0:0:0:0",
				WWN: "0x50014ee2b1234567", WWNVendorExtension: "0x0000000000000001", WWNWithExtension: "0x50014ee2b12345670000000000000001",
			},
			{
				Name: "/dev/sdb", AlternateNames: []string{"/dev/sdb"},
				Type: metal3.SSD, SizeBytes: 53687091200, Vendor: "QEMU", Model: "QEMU HARDDISK", SerialNumber: "drive-scsi1", HCTL: "0:0:1:0",
			},
			{
				Name: "/dev/disk/by-path/pci-0000:03:00.0-nvme-1", AlternateNames: []string{"/dev/nvme0n1", "/dev/disk/by-path/pci-0000:03:00.0-nvme-1"},
				Type: metal3.NVME, SizeBytes: 960197124096, Model: "SAMSUNG MZ1LB960", SerialNumber: "S4NN", WWN: "eui.36344830",
			},
		},
	}
	for _, release := range releases {
		got, err := HardwareFrom(recordedInventory(t, release))
		if err != nil {
			t.Errorf("%s: %v", release, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", release, diff)
		}
	}
}

// What ramdisks and hooks leave out, or put in another form.
func TestHardwareFromIncomplete(t *testing.T) {
	for name, tt := range map[string]struct {
		inventory, plugins string
		want               metal3.HardwareDetails
	}{
		"nothing at all": {inventory: `{}`},
		"nulls":          {inventory: `{"cpu": null, "disks": null, "interfaces": null, "memory": {"physical_mb": null}}`, plugins: `null`},
		"a disk without names": {
			inventory: `{"disks": [{"size": 1}]}`,
			want:      metal3.HardwareDetails{Storage: []metal3.Storage{{Type: metal3.SSD, SizeBytes: 1}}},
		},
		"a CPU frequency that is a number": {
			inventory: `{"cpu": {"frequency": 2600.5}}`,
			want:      metal3.HardwareDetails{CPU: metal3.CPU{ClockMegahertz: 2600.5}},
		},
		"a CPU frequency that is none": {inventory: `{"cpu": {"frequency": "unknown"}}`},
		"a NUL CPU frequency":          {inventory: `{"cpu": {"frequency": null}}`},
		"PXE by the boot MAC address, without plugin data": {
			inventory: `{"boot": {"pxe_interface": "52:54:00:AA:BB:CC"}, "interfaces": [{"name": "a", "mac_address": "52:54:00:aa:bb:cc"}, {"name": "b", "mac_address": "52:54:00:aa:bb:cd"}]}`,
			want:      metal3.HardwareDetails{NIC: []metal3.NIC{{Name: "a", MAC: "52:54:00:aa:bb:cc", PXE: true}, {Name: "b", MAC: "52:54:00:aa:bb:cd"}}},
		},
		"plugin data knows better than the boot MAC address": {
			inventory: `{"boot": {"pxe_interface": "52:54:00:aa:bb:cc"}, "interfaces": [{"name": "a", "mac_address": "52:54:00:aa:bb:cc"}]}`,
			plugins:   `{"all_interfaces": {"a": {"pxe_enabled": false}}}`,
			want:      metal3.HardwareDetails{NIC: []metal3.NIC{{Name: "a", MAC: "52:54:00:aa:bb:cc"}}},
		},
		"a switch that names no VLAN": {
			inventory: `{"interfaces": [{"name": "a"}]}`,
			plugins:   `{"parsed_lldp": {"a": {"switch_port_id": "swp1"}}}`,
			want:      metal3.HardwareDetails{NIC: []metal3.NIC{{Name: "a", LLDP: &metal3.LLDP{PortID: "swp1"}}}},
		},
		"LLDP of an interface that is not there": {
			inventory: `{"interfaces": [{"name": "a"}]}`,
			plugins:   `{"parsed_lldp": {"b": {"switch_port_id": "swp1"}}}`,
			want:      metal3.HardwareDetails{NIC: []metal3.NIC{{Name: "a"}}},
		},
	} {
		got, err := HardwareFrom(&ironic.Inventory{Inventory: json.RawMessage(tt.inventory), PluginData: json.RawMessage(tt.plugins)})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(&tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestHardwareFromRubbish(t *testing.T) {
	for name, raw := range map[string]*ironic.Inventory{
		"no inventory":           {},
		"inventory is a list":    {Inventory: json.RawMessage(`[]`)},
		"disks are an object":    {Inventory: json.RawMessage(`{"disks": {}}`)},
		"plugin data is a text":  {Inventory: json.RawMessage(`{}`), PluginData: json.RawMessage(`"x"`)},
		"interfaces are numbers": {Inventory: json.RawMessage(`{}`), PluginData: json.RawMessage(`{"all_interfaces": {"a": 1}}`)},
	} {
		if hardware, err := HardwareFrom(raw); err == nil {
			t.Errorf("%s: no error, but %+v", name, hardware)
		}
	}
}
