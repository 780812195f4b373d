// SPDX-License-Identifier: Apache-2.0

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

// shape is what is known of a machine.
type shape struct {
	machine, cpu, nics, boots, disks string
	// marks are how many there are by which the machine is told from others.
	marks string
	// unread are the parts that cannot be read.
	unread string
}

func marksOf(hw *metal3.HardwareDetails) string {
	serial := "no serial"
	if serialOf(hw) != "" {
		serial = "serial"
	}
	return fmt.Sprintf("%s, %d MACs, %d disks", serial, len(macsOf(hw)), len(disksOf(hw)))
}

// nextOfInspected is the next step of a host when the inspection of its machine has ended.
func nextOfInspected(hw *metal3.HardwareDetails, unread string) string {
	host := newHost(withState(metal3.StateInspecting), inspectionBegan)
	node := nodeIn(ironic.Manageable, func(n *ironic.Node) { n.InspectionFinishedAt = &now })
	host.Status, _ = Observe(host, Observation{Node: node, Inspected: &Inspected{Hardware: hw, Unread: unread}}, now)
	return nextOf(planned(host, node)).String()
}

// TestHardwareFromShapes decodes inventories that have the shape of those of real machines, as they were published in the
// documentation of Ironic and of its agent, in bug reports and in operators' notes, with invented values: testdata/inventories/README.md
// names the reports. Some parts are odd, but all of them can be read, except those that are named. Each host goes on, and is known
// by the marks that there are.
func TestHardwareFromShapes(t *testing.T) {
	want := map[string]shape{
		"accelerators-ipv6":    {"NVIDIA DGXH100, 2097152 MiB", "224 x86_64 3800 MHz", "10 of 400 Gbit/s", "00:16:3e:18:00:01 2001:db8::18:1", "8 NVME of 30726 GB", "serial, 10 MACs, 8 disks", ""},
		"arm-no-flags":         {"GIGABYTE R120-T32, 131072 MiB", "96 aarch64 0 MHz", "1 of 0 Gbit/s", "00:16:3e:3e:00:01 192.0.2.142", "1 HDD of 1000 GB", "no serial, 1 MACs, 1 disks", ""},
		"arm64":                {"HPE ProLiant RL300 Gen11, 262144 MiB", "80 aarch64 0 MHz", "2 of 25 Gbit/s", "00:16:3e:13:00:01 192.0.2.33", "1 NVME of 960 GB", "serial, 2 MACs, 1 disks", ""},
		"blade-pxelinux":       {"Dell Inc. PowerEdge M630, 131072 MiB", "48 x86_64 3100 MHz", "2 of 0 Gbit/s", "00:16:3e:03:00:01 192.0.2.23", "1 HDD of 299 GB", "serial, 2 MACs, 1 disks", ""},
		"bmc-unknown":          {"Intel Corporation S1200SP, 32768 MiB", "8 x86_64 3900 MHz", "2 of 0 Gbit/s", "", "1 SSD of 500 GB", "no serial, 2 MACs, 1 disks", ""},
		"bochs":                {"Bochs Bochs, 2048 MiB", "2 x86_64 2100 MHz", "2 of 0 Gbit/s", "52:54:00:20:06:30 192.0.2.60", "1 HDD of 13 GB", "no serial, 2 MACs, 0 disks", ""},
		"bond-and-vlan":        {"Huawei 2288H V5, 131072 MiB", "40 x86_64 3000 MHz", "5 of 10 Gbit/s", "00:16:3e:19:00:01 2001:db8::19", "3 SSD of 991 GB", "serial, 1 MACs, 2 disks", ""},
		"bond-effective-mac":   {"Lenovo ThinkSystem SR650 -[7X06CTO1WW]-, 262144 MiB", "64 x86_64 3900 MHz", "4 of 0 Gbit/s", "00:16:3e:38:00:01 192.0.2.138", "1 SSD of 480 GB", "serial, 2 MACs, 1 disks", ""},
		"cdc-ether":            {"Quanta Cloud Technology Inc. QuantaGrid D52B-1U, 262144 MiB", "64 x86_64 3900 MHz", "2 of 10 Gbit/s", "00:16:3e:37:00:01 192.0.2.137", "1 SSD of 480 GB", "serial, 2 MACs, 1 disks", ""},
		"diskless":             {"Quanta Cloud Technology Inc. QuantaGrid D43K-1U, 65536 MiB", "16 x86_64 5000 MHz", "1 of 1 Gbit/s", "00:16:3e:17:00:01 192.0.2.37", "0  of 0 GB", "serial, 1 MACs, 0 disks", ""},
		"extra-hardware":       {"Dell Inc. PowerEdge R430, 262144 MiB", "64 x86_64 3900 MHz", "2 of 0 Gbit/s", "00:16:3e:41:00:01 192.0.2.145", "1 SSD of 479 GB", "serial, 2 MACs, 1 disks", ""},
		"fibre-channel":        {"Cisco Systems Inc UCSB-B200-M5, 393216 MiB", "64 x86_64 3900 MHz", "3 of 0 Gbit/s", "00:16:3e:16:00:01 192.0.2.36", "4 SSD of 429 GB", "serial, 1 MACs, 1 disks", ""},
		"gen12-local-mac":      {"HPE ProLiant DL380 Gen12, 524288 MiB", "128 x86_64 4000 MHz", "3 of 25 Gbit/s", "00:16:3e:36:00:01 192.0.2.136", "1 NVME of 960 GB", "serial, 2 MACs, 1 disks", ""},
		"infiniband":           {"GIGABYTE G492-ZD2-00, 1048576 MiB", "256 x86_64 3529 MHz", "3 of 0 Gbit/s", "00:16:3e:15:00:01 192.0.2.35", "1 NVME of 3840 GB", "serial, 2 MACs, 1 disks", ""},
		"iscsi-ibft":           {"Cisco Systems Inc UCSB-B200-M4, 262144 MiB", "64 x86_64 3900 MHz", "3 of 0 Gbit/s", "00:16:3e:44:00:01 192.0.2.148", "1 HDD of 53 GB", "serial, 3 MACs, 1 disks", ""},
		"kubevirt":             {"KubeVirt None, 8192 MiB", "4 x86_64 2445 MHz", "1 of 0 Gbit/s", "", "1 HDD of 21 GB", "no serial, 0 MACs, 0 disks", ""},
		"kvm-virtio-zones":     {"Red Hat KVM, 54000 MiB", "12 x86_64 2712 MHz", "4 of 0 Gbit/s", "52:54:00:20:01:01 fe80::5054:ff:fe20:101%enp1s0", "2 HDD of 171 GB", "no serial, 3 MACs, 0 disks", ""},
		"lldp-odd":             {"Dell Inc. PowerEdge R6415, 262144 MiB", "64 x86_64 3900 MHz", "2 of 0 Gbit/s", "00:16:3e:42:00:01 192.0.2.146", "1 SSD of 240 GB", "serial, 2 MACs, 1 disks", ""},
		"md-raid":              {"Lenovo ThinkSystem SR630 V2, 262144 MiB", "64 x86_64 3900 MHz", "1 of 0 Gbit/s", "00:16:3e:40:00:01 192.0.2.144", "4 SSD of 708 GB", "serial, 1 MACs, 2 disks", ""},
		"mellanox-lldp":        {"Dell Inc. PowerEdge R640 (SKU=NotProvided;ModelName=PowerEdge R640), 196608 MiB", "48 x86_64 3700 MHz", "3 of 0 Gbit/s", "00:16:3e:05:00:0a 192.0.2.25", "2 SSD of 2079 GB", "serial, 3 MACs, 2 disks", ""},
		"memory-unknown":       {"Dell Inc. PowerEdge C6420, 0 MiB", "64 x86_64 3900 MHz", "1 of 0 Gbit/s", "00:16:3e:3f:00:01 192.0.2.143", "1 SSD of 480 GB", "serial, 1 MACs, 1 disks", ""},
		"multipath-fc":         {"HPE Synergy 480 Gen10, 262144 MiB", "64 x86_64 3900 MHz", "2 of 0 Gbit/s", "00:16:3e:34:00:01 192.0.2.134", "2 SSD of 1206 GB", "serial, 2 MACs, 2 disks", ""},
		"nic-without-mac":      {"HP ProLiant BL460c Gen9, 262144 MiB", "64 x86_64 3900 MHz", "4 of 0 Gbit/s", "00:16:3e:39:00:01 192.0.2.139", "1 HDD of 146 GB", "serial, 1 MACs, 1 disks", ""},
		"nvme-eui":             {"ASRockRack B650D4U-2L2T/BCM, 65536 MiB", "32 x86_64 5759 MHz", "2 of 0 Gbit/s", "00:16:3e:31:00:01 fe80::216:3eff:fe31:1", "2 NVME of 1024 GB", "no serial, 1 MACs, 2 disks", ""},
		"nvme-zero-eui":        {"Gigabyte Technology Co., Ltd. MZ32-AR0-00, 262144 MiB", "32 x86_64 3000 MHz", "2 of 0 Gbit/s", "00:16:3e:32:00:01 192.0.2.132", "3 NVME of 2548 GB", "no serial, 2 MACs, 3 disks", ""},
		"perc-volumes":         {"Dell Inc. PowerEdge R740xd (SKU=NotProvided;ModelName=PowerEdge R740xd), 393216 MiB", "64 x86_64 3900 MHz", "4 of 0 Gbit/s", "00:16:3e:33:00:01 192.0.2.133", "10 HDD of 5995 GB", "serial, 4 MACs, 10 disks", ""},
		"ppc64le":              {" 9006-22P, 514984 MiB", "128 ppc64le 3800 MHz", "1 of 0 Gbit/s", "", "1 SSD of 1920 GB", "no serial, 1 MACs, 1 disks", ""},
		"qemu-scsi":            {"Red Hat KVM, 16384 MiB", "4 x86_64 2300 MHz", "3 of 0 Gbit/s", "52:54:00:20:02:01 fe80::5054:ff:fe20:201", "1 HDD of 53 GB", "no serial, 2 MACs, 0 disks", ""},
		"redfish-bare":         {"ZT Systems , 0 MiB", "0  0 MHz", "0 of 0 Gbit/s", "", "0  of 0 GB", "no serial, 0 MACs, 0 disks", ""},
		"redfish-empty-bays":   {"HPE ProLiant DL360 Gen10, 131072 MiB", "0  4000 MHz", "2 of 1 Gbit/s", "", "5 SSD of 1800 GB", "serial, 2 MACs, 0 disks", ""},
		"redfish-emulated":     {"Sushy Emulator , 4096 MiB", "2  0 MHz", "0 of 0 Gbit/s", "", "0  of 0 GB", "no serial, 0 MACs, 0 disks", ""},
		"redfish-idrac":        {"Dell Inc. PowerEdge R650, 393216 MiB", "64 x86_64 4000 MHz", "3 of 1 Gbit/s", "00:16:3e:09:00:00 ", "3 SSD of 4160 GB", "serial, 3 MACs, 1 disks", ""},
		"redfish-ilo":          {"HPE ProLiant DL380 Gen10, 131072 MiB", "2 x86_64 4000 MHz", "3 of 0 Gbit/s", "", "2 SSD of 960 GB", "serial, 2 MACs, 0 disks", ""},
		"redfish-r7615":        {"Dell Inc. System, 98304 MiB", "32 x86_64 4400 MHz", "2 of 0 Gbit/s", "", "2 SSD of 959 GB", "serial, 2 MACs, 0 disks", ""},
		"redfish-xcc":          {"Lenovo ThinkSystem SR650, 65536 MiB", "0  0 MHz", "2 of 0 Gbit/s", "", "0  of 0 GB", "serial, 2 MACs, 0 disks", ""},
		"smart-array":          {"HP ProLiant DL360 Gen9 (755258-B21), 65536 MiB", "24 x86_64 3200 MHz", "4 of 0 Gbit/s", "00:16:3e:08:00:01 192.0.2.28", "1 HDD of 1200 GB", "serial, 4 MACs, 1 disks", ""},
		"storage-hba-and-raid": {"Dell Inc. PowerEdge R730xd, 262144 MiB", "48 x86_64 2900 MHz", "4 of 0 Gbit/s", "00:16:3e:04:00:00 ", "6 HDD of 6377 GB", "serial, 4 MACs, 6 disks", ""},
		"supermicro-usb-nic":   {"Supermicro AS -1114S-WN10RT (To be filled by O.E.M.), 262144 MiB", "64 x86_64 2500 MHz", "4 of 1 Gbit/s", "00:16:3e:07:00:01 fe80::216:3eff:fe07:1", "2 SSD of 16481 GB", "serial, 2 MACs, 2 disks", ""},
		"usb-stick":            {"Supermicro SYS-5018D-FN4T, 65536 MiB", "16 x86_64 2100 MHz", "2 of 0 Gbit/s", "00:16:3e:35:00:01 192.0.2.135", "3 HDD of 3496 GB", "serial, 2 MACs, 3 disks", ""},
		"vmware-guest":         {"VMware, Inc. VMware7,1, 16384 MiB", "8 x86_64 2494 MHz", "2 of 0 Gbit/s", "00:50:56:00:43:01 fe80::250:56ff:fe00:4301", "2 HDD of 150 GB", "serial, 1 MACs, 0 disks", ""},
		"white-box": {"Acme White Box, 65536 MiB", "32 x86_64 0 MHz", "3 of 10 Gbit/s", "00:16:3e:20:00:01 192.0.2.40", "2 SSD of 480 GB", "no serial, 1 MACs, 0 disks",
			`inventory.cpu.frequency is "2400.5 MHz"; inventory.system_vendor.firmware is "1.0"; plugin_data.all_interfaces is a list; ` +
				`plugin_data.parsed_lldp[eno1].switch_port_vlans[1].id is "x"; inventory.interfaces[1].mac_address is "N/A"; ` +
				`inventory.interfaces[1].speed_mbps is -1; inventory.disks[2] is "sdc"; inventory.disks[1].size is -1`},
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
		got := shape{
			fmt.Sprintf("%s %s, %d MiB", hw.SystemVendor.Manufacturer, hw.SystemVendor.ProductName, hw.RAMMebibytes),
			fmt.Sprintf("%d %s %v MHz", hw.CPU.Count, hw.CPU.Arch, hw.CPU.ClockMegahertz),
			fmt.Sprintf("%d of %d Gbit/s", len(hw.NIC), speed), boots,
			fmt.Sprintf("%d %s of %d GB", len(hw.Storage), kind, size/1e9), marksOf(hw), unread,
		}
		if next := nextOfInspected(hw, unread); next != "=preparing" {
			t.Errorf("%s: the host does not go on: %s", name, next)
		}
		if got != want[name] {
			t.Errorf("%s:\n%+v, want\n%+v", name, got, want[name])
		}
	}
}
