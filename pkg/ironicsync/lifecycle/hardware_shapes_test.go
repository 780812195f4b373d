package lifecycle

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// TestHardwareFromShapes decodes inventories that have the shape of those of real machines, as they were published in the
// documentation of Ironic and of its agent, in bug reports and in operators' notes, with invented values. Some parts are odd,
// but all of them can be read, except those that are named.
func TestHardwareFromShapes(t *testing.T) {
	want := map[string]struct{ machine, cpu, nics, boots, disks, unread string }{
		"accelerators-ipv6":    {"NVIDIA DGXH100, 2097152 MiB", "224 x86_64 3800 MHz", "10 of 400 Gbit/s", "00:16:3e:18:00:01 2001:db8::18:1", "8 NVME of 30726 GB", ""},
		"arm64":                {"HPE ProLiant RL300 Gen11, 262144 MiB", "80 aarch64 0 MHz", "2 of 25 Gbit/s", "00:16:3e:13:00:01 192.0.2.33", "1 NVME of 960 GB", ""},
		"blade-pxelinux":       {"Dell Inc. PowerEdge M630, 131072 MiB", "48 x86_64 3100 MHz", "2 of 0 Gbit/s", "00:16:3e:03:00:01 192.0.2.23", "1 HDD of 299 GB", ""},
		"bochs":                {"Bochs Bochs, 2048 MiB", "2 x86_64 2100.084 MHz", "2 of 0 Gbit/s", "52:54:00:20:06:30 192.0.2.60", "1 HDD of 13 GB", ""},
		"bond-and-vlan":        {"Huawei 2288H V5, 131072 MiB", "40 x86_64 3000 MHz", "5 of 10 Gbit/s", "00:16:3e:19:00:01 2001:db8::19", "3 SSD of 991 GB", ""},
		"diskless":             {"Quanta Cloud Technology Inc. QuantaGrid D43K-1U, 65536 MiB", "16 x86_64 5000 MHz", "1 of 1 Gbit/s", "00:16:3e:17:00:01 192.0.2.37", "0  of 0 GB", ""},
		"fibre-channel":        {"Cisco Systems Inc UCSB-B200-M5, 393216 MiB", "64 x86_64 3900 MHz", "3 of 0 Gbit/s", "00:16:3e:16:00:01 192.0.2.36", "4 SSD of 429 GB", ""},
		"infiniband":           {"GIGABYTE G492-ZD2-00, 1048576 MiB", "256 x86_64 3529.052 MHz", "3 of 0 Gbit/s", "00:16:3e:15:00:01 192.0.2.35", "1 NVME of 3840 GB", ""},
		"kubevirt":             {"KubeVirt None, 8192 MiB", "4 x86_64 2445.406 MHz", "1 of 0 Gbit/s", "", "1 HDD of 21 GB", ""},
		"kvm-virtio-zones":     {"Red Hat KVM, 54000 MiB", "12 x86_64 2712 MHz", "4 of 0 Gbit/s", "52:54:00:20:01:01 fe80::5054:ff:fe20:101%enp1s0", "2 HDD of 171 GB", ""},
		"mellanox-lldp":        {"Dell Inc. PowerEdge R640 (SKU=NotProvided;ModelName=PowerEdge R640), 196608 MiB", "48 x86_64 3700 MHz", "3 of 0 Gbit/s", "00:16:3e:05:00:0a 192.0.2.25", "2 SSD of 2079 GB", ""},
		"ppc64le":              {" 9006-22P, 514984 MiB", "128 ppc64le 3800 MHz", "1 of 0 Gbit/s", "", "1 SSD of 1920 GB", ""},
		"qemu-scsi":            {"Red Hat KVM, 16384 MiB", "4 x86_64 2299.998 MHz", "3 of 0 Gbit/s", "52:54:00:20:02:01 fe80::5054:ff:fe20:201", "1 HDD of 53 GB", ""},
		"redfish-emulated":     {"Sushy Emulator , 4096 MiB", "2  0 MHz", "0 of 0 Gbit/s", "", "0  of 0 GB", ""},
		"redfish-idrac":        {"Dell Inc. PowerEdge R650, 393216 MiB", "64 x86_64 4000 MHz", "3 of 1 Gbit/s", "00:16:3e:09:00:00 ", "3 SSD of 4160 GB", ""},
		"redfish-ilo":          {"HPE ProLiant DL380 Gen10, 131072 MiB", "2 x86_64 4000 MHz", "3 of 0 Gbit/s", "", "2 SSD of 960 GB", ""},
		"redfish-xcc":          {"Lenovo ThinkSystem SR650, 65536 MiB", "0  0 MHz", "2 of 0 Gbit/s", "", "0  of 0 GB", ""},
		"smart-array":          {"HP ProLiant DL360 Gen9 (755258-B21), 65536 MiB", "24 x86_64 3200 MHz", "4 of 0 Gbit/s", "00:16:3e:08:00:01 192.0.2.28", "1 HDD of 1200 GB", ""},
		"storage-hba-and-raid": {"Dell Inc. PowerEdge R730xd, 262144 MiB", "48 x86_64 2900 MHz", "4 of 0 Gbit/s", "00:16:3e:04:00:00 ", "6 HDD of 6377 GB", ""},
		"supermicro-usb-nic":   {"Supermicro AS -1114S-WN10RT (To be filled by O.E.M.), 262144 MiB", "64 x86_64 2500 MHz", "4 of 1 Gbit/s", "00:16:3e:07:00:01 fe80::216:3eff:fe07:1", "2 SSD of 16481 GB", ""},
		"white-box": {"Acme White Box, 65536 MiB", "32 x86_64 0 MHz", "3 of 10 Gbit/s", "00:16:3e:20:00:01 192.0.2.40", "2 SSD of 480 GB",
			`inventory.cpu.frequency is "2400.5 MHz"; inventory.system_vendor.firmware is "1.0"; plugin_data.all_interfaces is a list; ` +
				`plugin_data.parsed_lldp[eno1].switch_port_vlans[1].id is "x"; inventory.interfaces[1].mac_address is "N/A"; ` +
				`inventory.interfaces[1].speed_mbps is -1; inventory.disks[1].size is -1; inventory.disks[2] is "sdc"`},
	}
	files, err := filepath.Glob("testdata/inventories/*.json")
	if err != nil || len(files) != len(want) {
		t.Fatalf("%d inventories, want %d; %v", len(files), len(want), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		raw := &ironic.Inventory{}
		if err := json.Unmarshal(readTestdata(t, "inventories/"+name+".json"), raw); err != nil {
			t.Fatal(err)
		}
		hw, unread, err := HardwareFrom(raw, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var boots string
		for _, nic := range hw.NIC {
			if nic.PXE {
				boots = nic.MAC + " " + nic.IP
			}
		}
		var size metal3.Capacity
		for _, disk := range hw.Storage {
			size += disk.SizeBytes
		}
		var speed int
		var kind metal3.DiskType
		if len(hw.NIC) > 0 {
			speed = hw.NIC[0].SpeedGbps
		}
		if len(hw.Storage) > 0 {
			kind = hw.Storage[0].Type
		}
		got := struct{ machine, cpu, nics, boots, disks, unread string }{
			fmt.Sprintf("%s %s, %d MiB", hw.SystemVendor.Manufacturer, hw.SystemVendor.ProductName, hw.RAMMebibytes),
			fmt.Sprintf("%d %s %v MHz", hw.CPU.Count, hw.CPU.Arch, hw.CPU.ClockMegahertz),
			fmt.Sprintf("%d of %d Gbit/s", len(hw.NIC), speed), boots,
			fmt.Sprintf("%d %s of %d GB", len(hw.Storage), kind, size/metal3.GigaByte), unread,
		}
		if got != want[name] {
			t.Errorf("%s:\n%+v, want\n%+v", name, got, want[name])
		}
	}
}
