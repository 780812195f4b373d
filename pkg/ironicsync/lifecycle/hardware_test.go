// SPDX-License-Identifier: Apache-2.0

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
		got, _, err := HardwareFrom(recordedInventory(t, release), nil)
		if err != nil {
			t.Errorf("%s: %v", release, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", release, diff)
		}
	}
}
