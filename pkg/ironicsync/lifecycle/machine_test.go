// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// inspected is a host of which an inspection has found the serial number and network interfaces.
func inspected(name, serial string, macs ...string) *metal3.BareMetalHost {
	h := newHost()
	h.Name, h.UID = name, types.UID("uid-of-"+name)
	h.Spec.BootMACAddress = ""
	h.Status.HardwareDetails = &metal3.HardwareDetails{SystemVendor: metal3.HardwareSystemVendor{Manufacturer: "Contoso", ProductName: "2U", SerialNumber: serial}}
	for _, mac := range macs {
		h.Status.HardwareDetails.NIC = append(h.Status.HardwareDetails.NIC, metal3.NIC{MAC: mac})
	}
	return h
}

func withDisks(h *metal3.BareMetalHost, disks ...metal3.Storage) *metal3.BareMetalHost {
	h.Status.HardwareDetails.Storage = disks
	return h
}

func bootingFrom(h *metal3.BareMetalHost, mac string) *metal3.BareMetalHost {
	h.Spec.BootMACAddress = mac
	return h
}

// TestLikeness: two independent marks make one machine of two hosts, and one is told. No mark is what the manufacturer has left as it
// was, what all BMCs have in common, and what a third machine reports, too.
func TestLikeness(t *testing.T) {
	const a, b, c, d, e, local = "00:25:90:00:00:01", "00:25:90:00:00:02", "00:25:90:00:00:03", "00:25:90:00:00:04", "00:25:90:00:00:05", "02:25:90:00:00:09"
	const chassis, other = "CZ1234567", "CZ7654321"
	one, two := metal3.Storage{SerialNumber: "S3X1NX0K"}, metal3.Storage{SerialNumber: "S3X1NX0L"}
	wwn := metal3.Storage{WWN: "0x5000C500A1B2C3D4", SerialNumber: "A"}
	uninspected := func(name string) *metal3.BareMetalHost {
		h := inspected(name, "")
		h.Status.HardwareDetails = nil
		return h
	}
	tests := map[string]struct {
		one, other *metal3.BareMetalHost
		thirds     []*metal3.BareMetalHost
		marks      string
		want       bool
	}{
		"two sleds":                                   {one: inspected("a", chassis, a, b), other: inspected("b", chassis, c, d), marks: "serial number"},
		"four sleds":                                  {one: inspected("a", chassis, a), other: inspected("b", chassis, b), thirds: []*metal3.BareMetalHost{inspected("c", chassis, c), inspected("d", chassis, d)}},
		"sleds with the network of BMCs":              {one: inspected("a", chassis, a, e), other: inspected("b", chassis, b, e), marks: "serial number"},
		"a card that others have":                     {one: inspected("a", chassis, e), other: inspected("b", chassis, e, b), thirds: []*metal3.BareMetalHost{inspected("c", chassis, a, b, c, e)}, marks: "serial number and network interfaces", want: true},
		"sleds that reach one disk":                   {one: withDisks(inspected("a", chassis, a), wwn), other: withDisks(inspected("b", chassis, b), wwn), marks: "serial number and disks"},
		"one machine":                                 {one: inspected("a", chassis, a, b), other: inspected("b", " cz1234567", b, "00:25:90:00:00:01"), marks: "serial number and network interfaces", want: true},
		"with three hosts":                            {one: inspected("a", chassis, a), other: inspected("b", chassis, a), thirds: []*metal3.BareMetalHost{inspected("c", chassis, a)}, marks: "serial number and network interfaces", want: true},
		"as it was found by the BMC":                  {one: inspected("a", chassis, a, b, c), other: inspected("b", chassis, a), marks: "serial number and network interfaces", want: true},
		"without a serial number":                     {one: withDisks(inspected("a", "", a, b), wwn, one), other: withDisks(inspected("b", "Not Specified", a, b), wwn, one), marks: "network interfaces and disks", want: true},
		"with new cards":                              {one: withDisks(inspected("a", chassis, a, b), wwn, one), other: withDisks(inspected("b", chassis, c, d), wwn, one), marks: "serial number and disks"},
		"with some new cards":                         {one: withDisks(inspected("a", chassis, a, b), one), other: withDisks(inspected("b", chassis, b, c), one), marks: "serial number and disks", want: true},
		"with a new board":                            {one: withDisks(inspected("a", chassis, a), wwn), other: withDisks(inspected("b", other, a), wwn), marks: "network interfaces and disks", want: true},
		"all cards, and nothing else":                 {one: inspected("a", "", a, b), other: inspected("b", "", a, b), marks: "network interfaces"},
		"a card was moved":                            {one: inspected("a", chassis, a, b), other: inspected("b", other, a, b), marks: "network interfaces"},
		"half of the cards":                           {one: inspected("a", chassis, a, b), other: inspected("b", other, b, c)},
		"disks were moved":                            {one: withDisks(inspected("a", chassis, a), one, two), other: withDisks(inspected("b", other, b), one, two), marks: "disks"},
		"half of the disks":                           {one: withDisks(inspected("a", chassis, a), one, two), other: withDisks(inspected("b", other, b), two, wwn)},
		"another manufacturer":                        {one: inspected("a", chassis, a), other: inspected("b", other, b)},
		"virtual machines":                            {one: inspected("a", chassis, "52:54:00:00:00:01"), other: inspected("b", chassis, "52:54:00:00:00:01"), marks: "serial number and network interfaces", want: true},
		"a local address":                             {one: inspected("a", "", a, local), other: inspected("b", "", b, local)},
		"the boot MAC address of another":             {one: bootingFrom(uninspected("a"), a), other: bootingFrom(uninspected("b"), "00:25:90:00:00:01"), marks: "network interfaces"},
		"a boot MAC address that another machine has": {one: bootingFrom(uninspected("b"), "00:25:90:00:00:0A"), other: inspected("a", chassis, a, "00:25:90:00:00:0a"), marks: "network interfaces"},
		"another boot MAC address":                    {one: bootingFrom(uninspected("b"), c), other: inspected("a", chassis, a)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hosts := append([]*metal3.BareMetalHost{test.one, test.other}, test.thirds...)
			sharing := func(key string) []*metal3.BareMetalHost {
				return slices.DeleteFunc(slices.Clone(hosts), func(h *metal3.BareMetalHost) bool { return !slices.Contains(MachineKeys(h), key) })
			}
			for _, l := range []Likeness{LikenessOf(test.one, test.other, sharing), LikenessOf(test.other, test.one, sharing)} {
				if got := l.String(); got != test.marks || l.IsSame() != test.want {
					t.Errorf("they have %q in common, and are the same: %t; want %q, %t", got, l.IsSame(), test.marks, test.want)
				}
			}
		})
	}
}

// TestPlaceholders: what is no serial number is none of a machine, nor of a disk.
func TestPlaceholders(t *testing.T) {
	for _, serial := range []string{
		"SystemSerialNumb", "oem default string inject xxxxxxxxxx", "To Be Filled By O.E.M. by More String", "SSN12345678901234567",
		"", " ", "n/a", "None", "NULL", "Not Specified", "Not Applicable", "To Be Filled By O.E.M.", "To be filled by O.E.M", "Default string", "default_string", "System Serial Number",
		"Chassis Serial Number", "0123456789", "1234567890", "123456789", "12345678", "0000000000", "000-000-000", "ffffffff", "FFFFFFFFFFFF", "XXXXXXXX", "........", "Unknown", "O.E.M.",
		"Unspecified System Serial Number", "SYS-1234567890", "SN-12345", "(null string)", "EVAL", "123456789000",
	} {
		hardware := &metal3.HardwareDetails{SystemVendor: metal3.HardwareSystemVendor{SerialNumber: serial}, Storage: []metal3.Storage{{SerialNumber: serial, WWN: "0x0000000000000000"}}}
		if got, disks := serialOf(hardware), disksOf(hardware); got != "" || len(disks) > 0 {
			t.Errorf("%q is taken for the serial number %q, and of disks %q", serial, got, disks)
		}
	}
	for _, mark := range []string{"eui.0000000000000000", "eui.00000000000000000000000000000000", "naa.0000000000000000", "0x0000000000000000", "QM00001", "drive-scsi0-0-0-0", "0QEMU_QEMU_HARDDISK_drive-scsi0-0-0-0"} {
		if disks := disksOf(&metal3.HardwareDetails{Storage: []metal3.Storage{{WWN: mark, SerialNumber: mark}}}); len(disks) > 0 {
			t.Errorf("%q is taken for what tells a disk from others: %q", mark, disks)
		}
	}
	for _, mark := range []string{"eui.0025380000003101", "naa.5000c50000000400", "nvme.c0a9-313933324532-4354353030503153534438-00000001", "0x5000c50000000400", "K0000015"} {
		if disks := disksOf(&metal3.HardwareDetails{Storage: []metal3.Storage{{WWN: "eui.0000000000000000", SerialNumber: mark}}}); len(disks) != 1 {
			t.Errorf("%q does not tell a disk from others", mark)
		}
	}
	for _, serial := range []string{"CZ1234567", "7D2S-0123", "J301AB2C", "VMware-42 1f 6b", "1234-5678-0042"} {
		if got := serialOf(&metal3.HardwareDetails{SystemVendor: metal3.HardwareSystemVendor{SerialNumber: serial}}); got == "" {
			t.Errorf("%q is no serial number", serial)
		}
	}
}

// TestWWNOfSeveralDisks: a WWN that an enclosure gives to all of its disks tells none of them from others.
func TestWWNOfSeveralDisks(t *testing.T) {
	const shared = "0x5000000000000001"
	disks := disksOf(&metal3.HardwareDetails{Storage: []metal3.Storage{
		{Name: "/dev/sda", WWN: shared, SerialNumber: "WD-A1000001"}, {Name: "/dev/sdb", WWN: shared, SerialNumber: "WD-A1000002"},
		{Name: "/dev/sdc", WWN: "0x5000c50000000400", SerialNumber: "ZA100001"}, {Name: "/dev/sdd", WWN: "0x5000c50000000400", SerialNumber: "ZA100001"}, // by two paths
	}})
	if want := []string{"0x5000c50000000400", "wd-a1000001", "wd-a1000002"}; !slices.Equal(disks, want) {
		t.Errorf("the disks are known by %q, want %q", disks, want)
	}
}

// TestMachineOfThousandsOfParts: a machine that reports thousands of network interfaces costs the leader no more than any other.
func TestMachineOfThousandsOfParts(t *testing.T) {
	var macs []string
	for i := range 4000 {
		macs = append(macs, fmt.Sprintf("00:25:90:00:%02x:%02x", i>>8, i&0xff))
	}
	a, b := inspected("a", "CZ1234567", macs...), inspected("b", "CZ1234567", macs...)
	if keys := MachineKeys(a); len(keys) > maxParts+2 {
		t.Errorf("the machine has %d keys", len(keys))
	}
	lookups := 0
	likeness := LikenessOf(a, b, func(string) []*metal3.BareMetalHost {
		lookups++
		return []*metal3.BareMetalHost{a, b}
	})
	if !likeness.IsSame() || lookups > 2*maxParts+1 {
		t.Errorf("%+v after %d lookups", likeness, lookups)
	}
}
