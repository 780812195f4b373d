// SPDX-License-Identifier: Apache-2.0

package bmcsim

import (
	"fmt"
	"strconv"
)

// hardware describes the hardware of a machine. The BMC and the ramdisk report the same hardware.
type hardware struct {
	uuid, manufacturer, product, serial string
	arch, cpuModel                      string
	cpus, cpuMHz, memoryMiB             int
	nics                                []nic
	disks                               []disk
}

type nic struct {
	name, mac, ip, model, pci string
	carrier                   bool
	speedMbps                 int
	// What the switch announces by LLDP if there is a carrier.
	switchMAC, switchPort string
	vlan                  int // untagged
	vlans                 []vlan
}

type vlan struct {
	id   int
	name string
}

type disk struct {
	name, byPath, model, serial, wwn, hctl string
	bytes                                  int64
	rotational                             bool
}

// hardwareOf returns the hardware of a machine by its index. It is always the same, and differs from
// the hardware of all other machines.
func hardwareOf(index int) hardware {
	hi, lo := index>>8&0xff, index&0xff
	mac := func(port int) string { return fmt.Sprintf("52:54:00:%02x:%02x:%02x", hi, lo, port) }
	serial := func(kind string) string { return fmt.Sprintf("%s%05d", kind, index) }
	switchMAC := fmt.Sprintf("02:00:5e:00:00:%02x", index/32)
	return hardware{
		uuid:         fmt.Sprintf("6d657461-6c33-4000-8000-%012x", index),
		manufacturer: "Contoso", product: "Rackmaster 2U", serial: serial("CNT"),
		arch: "x86_64", cpuModel: "Contoso(R) Cascade CPU @ 2.40GHz", cpus: 32, cpuMHz: 2400, memoryMiB: 131072,
		nics: []nic{
			{
				name: "eno1", mac: mac(1), ip: fmt.Sprintf("172.22.%d.%d", hi, lo), model: "0x8086 0x1572", pci: "0000:18:00.0",
				carrier: true, speedMbps: 10000, switchMAC: switchMAC, switchPort: "Ethernet" + strconv.Itoa(index%32+1),
				vlan: 100, vlans: []vlan{{100, "provisioning"}, {200, "storage"}},
			},
			{
				name: "eno2", mac: mac(2), model: "0x8086 0x1572", pci: "0000:18:00.1",
				carrier: true, speedMbps: 10000, switchMAC: switchMAC, switchPort: "Ethernet" + strconv.Itoa(index%32+33),
				vlan: 300, vlans: []vlan{{300, "tenant"}},
			},
			{name: "eno3", mac: mac(3), model: "0x14e4 0x165f", pci: "0000:19:00.0"},
		},
		disks: []disk{
			{
				name: "/dev/sda", byPath: "/dev/disk/by-path/pci-0000:3b:00.0-scsi-0:0:0:0", model: "Spinner 4000", serial: serial("SDA"),
				wwn: fmt.Sprintf("0x50014ee2%08x", index), hctl: "0:0:0:0", bytes: 4000787030016, rotational: true,
			},
			{
				name: "/dev/nvme0n1", byPath: "/dev/disk/by-path/pci-0000:5e:00.0-nvme-1", model: "Flash 960", serial: serial("NVM"),
				wwn: fmt.Sprintf("eui.0025385b%08x", index), bytes: 960197124096,
			},
		},
	}
}
