// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"bytes"
	"net"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// One machine can be reached at several addresses: its BMC has a DNS name and an IP address, or there are two of it. What
// inspections have found tells that. But machines say untrue things of themselves, too.

// maxParts is how many network interfaces and disks of a machine are looked at. That is as many as one has, and no more, because
// a machine can report thousands, and each is compared with those of others whenever a step of one of the hosts is planned.
const maxParts = 64

// MaxSharing is how many hosts can have a key of MachineKeys in common that tells machines apart.
const MaxSharing = 8

// placeholders are serial numbers that manufacturers have left as they were, without what is neither a letter nor a digit.
var placeholders = []string{
	"notspecified", "notavailable", "notapplicable", "notpresent", "notset", "tobefilled", "tobefilledbyoem", "oem", "defaultstring", "default", "systemserialnumber",
	"chassisserialnumber", "serialnumber", "serial", "unknown", "undefined", "invalid", "empty", "none", "null", "assettag", "noassettag", "virtual",
	"unspecified", "unspecifiedsystemserialnumber", "unspecifiedbaseboardserialnumber", "sys1234567890", "sys9876543210", "sn12345", "sn1234567890",
	"mb1234567890", "nullstring", "eval", "123456789000", "serialnumberxxxxxx", "systemserialnumb", "baseboardserialnumber", "oemserial", "notprovided",
	"ssn12345678901234567", "bsn12345678901234567",
}

// placeholderPrefixes begin texts of a manufacturer's tool in which only the end differs.
var placeholderPrefixes = []string{"tobefilledby", "oemdefaultstring"}

// isPlaceholder reports whether what a machine says to be the serial number of a part is none: too short, left as it was, or typed in
// as a sequence.
func isPlaceholder(serial string) bool {
	bare := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, serial)
	return len(bare) < 4 || slices.Contains(placeholders, bare) ||
		slices.ContainsFunc(placeholderPrefixes, func(prefix string) bool { return strings.HasPrefix(bare, prefix) }) || strings.Trim(bare, bare[:1]) == "" ||
		strings.Contains("01234567890123456789abcdefghijklmnopqrstuvwxyz", bare)
}

// serialOf returns the serial number of a host's machine; empty if it has none that tells machines apart.
func serialOf(hardware *metal3.HardwareDetails) string {
	if hardware == nil || isPlaceholder(hardware.SystemVendor.SerialNumber) {
		return ""
	}
	return strings.ToLower(strings.TrimSpace(hardware.SystemVendor.SerialNumber))
}

// qemuMACs is how the MAC addresses begin that QEMU's users give to virtual machines, each its own.
var qemuMACs = []byte{0x52, 0x54, 0x00}

// sharedMACs are addresses that are administered globally, and yet the same in all machines: those of the interface between a
// BlueField DPU and its host (tmfifo_net0), on both sides.
var sharedMACs = []string{"00:1a:ca:ff:ff:01", "00:1a:ca:ff:ff:02"}

// IsOwnMAC reports whether a MAC address in lower case, with colons, may be that of one machine alone. The BMCs of many machines give the same one,
// which is administered locally, to the network that they have with the operating system.
func IsOwnMAC(mac string) bool {
	address, err := net.ParseMAC(mac)
	const group, local = 1, 2
	return err == nil && len(address) == 6 && address[0]&group == 0 && (address[0]&local == 0 || bytes.HasPrefix(address, qemuMACs)) &&
		!slices.Contains(sharedMACs, mac) && mac != "00:00:00:00:00:00"
}

// macsOf returns the MAC addresses by which a host's machine is known.
func macsOf(hardware *metal3.HardwareDetails) (macs []string) {
	if hardware == nil {
		return nil
	}
	for _, nic := range hardware.NIC[:min(len(hardware.NIC), maxParts)] {
		if address, err := net.ParseMAC(nic.MAC); err == nil && IsOwnMAC(address.String()) {
			macs = append(macs, address.String())
		}
	}
	slices.Sort(macs)
	return slices.Compact(macs)
}

// wwnForm is how the name of a disk begins that says by whose rules it was given. NVMe disks without one say eui.0000000000000000.
var wwnForm = regexp.MustCompile(`^(0x|eui\.|naa\.|nvme\.|t10\.|uuid\.)`)

// qemuDisk is how QEMU names the disks of virtual machines that have no serial numbers of their own, in each machine alike.
var qemuDisk = regexp.MustCompile(`^(qm\d{5}|(.*_)?drive-[a-z]+[0-9-]*)$`)

// isDiskMark reports whether what a disk says to be its name tells it from others.
func isDiskMark(mark string) bool {
	return !isPlaceholder(wwnForm.ReplaceAllString(mark, "")) && !qemuDisk.MatchString(mark)
}

// disksOf returns what a machine's disks are known by: their WWNs or, where they have none, their serial numbers.
func disksOf(hardware *metal3.HardwareDetails) (disks []string) {
	if hardware == nil {
		return nil
	}
	storage := hardware.Storage[:min(len(hardware.Storage), maxParts)]
	several := wwnsOfSeveral(storage)
	for _, disk := range storage {
		for _, mark := range []string{disk.WWNWithExtension, disk.WWN, disk.SerialNumber} {
			if several[mark] && mark != disk.SerialNumber {
				continue
			}
			if mark = strings.ToLower(strings.TrimSpace(mark)); isDiskMark(mark) {
				disks = append(disks, mark)
				break
			}
		}
	}
	slices.Sort(disks)
	return slices.Compact(disks)
}

// wwnsOfSeveral returns the WWNs that disks with different serial numbers have: some enclosures give all of theirs the same one.
func wwnsOfSeveral(storage []metal3.Storage) map[string]bool {
	serials, several := map[string]string{}, map[string]bool{}
	for _, disk := range storage {
		for _, wwn := range []string{disk.WWNWithExtension, disk.WWN} {
			serial, known := serials[wwn]
			several[wwn] = several[wwn] || known && serial != disk.SerialNumber
			serials[wwn] = disk.SerialNumber
		}
	}
	return several
}

// MachineMACs returns the MAC addresses by which the host's machine is known, with the one that its spec names.
func MachineMACs(host *metal3.BareMetalHost) []string {
	macs := macsOf(host.Status.HardwareDetails)
	if boot := host.Spec.BootMAC(); boot != "" && !slices.Contains(macs, boot) {
		macs = append(macs, boot)
	}
	return macs
}

// MachineKeys returns what the host's machine can be found by. Hosts that share one may be of one machine: see LikenessOf. Hosts that
// have only disks in common, which several machines can reach, are not.
func MachineKeys(host *metal3.BareMetalHost) []string {
	keys := MachineMACs(host)
	if serial := serialOf(host.Status.HardwareDetails); serial != "" {
		keys = append(keys, serialKey(serial))
	}
	return keys
}

func serialKey(serial string) string { return "serial/" + serial }

// Likeness is in what the machines of two hosts agree, according to the hardware that inspections have found.
type Likeness struct {
	// More than half of the network interfaces of the one with fewer of them are the other's, too. Of a host that was not inspected,
	// its boot MAC address is.
	NICs bool
	// So it is with the disks.
	Disks bool
	// The serial numbers are the same.
	Serial bool
	// otherNICs is set if both have network interfaces, and none in common.
	otherNICs bool
}

// IsSame reports whether the two are one machine: two independent marks agree. One alone proves nothing: all sleds of a chassis can
// report its serial number, a card can have been moved from one machine into another, and several machines can reach one disk in a
// storage network.
func (l Likeness) IsSame() bool {
	return !l.otherNICs && (l.NICs && l.Disks || l.NICs && l.Serial || l.Disks && l.Serial)
}

// String names what the machines have in common; empty if that is nothing.
func (l Likeness) String() string {
	var marks []string
	for _, mark := range []struct {
		agrees bool
		name   string
	}{{l.Serial, "serial number"}, {l.NICs, "network interfaces"}, {l.Disks, "disks"}} {
		if mark.agrees {
			marks = append(marks, mark.name)
		}
	}
	return strings.Join(marks, " and ")
}

// LikenessOf compares the machines of two hosts. sharing returns the hosts that have a key of MachineKeys: what a third machine has,
// too, tells no machines apart.
func LikenessOf(a, b *metal3.BareMetalHost, sharing func(key string) []*metal3.BareMetalHost) Likeness {
	judged := map[types.NamespacedName]bool{}
	isOther := func(third *metal3.BareMetalHost) bool {
		key := types.NamespacedName{Namespace: third.Namespace, Name: third.Name}
		is, known := judged[key]
		if !known {
			is = !isSameHost(third, a) && !isSameHost(third, b) && haveOtherNICs(third, a) && haveOtherNICs(third, b)
			judged[key] = is
		}
		return is
	}
	isCommon := func(key string) bool {
		hosts := sharing(key)
		return len(hosts) > MaxSharing || slices.ContainsFunc(hosts, isOther)
	}
	one, other := a.Status.HardwareDetails, b.Status.HardwareDetails
	macs, others := slices.DeleteFunc(macsOf(one), isCommon), slices.DeleteFunc(macsOf(other), isCommon)
	l := Likeness{NICs: areMostlyTheSame(macs, others), Disks: areMostlyTheSame(disksOf(one), disksOf(other))}
	switch {
	case len(macs) > 0 && len(others) > 0:
		l.otherNICs = !slices.ContainsFunc(macs, func(mac string) bool { return slices.Contains(others, mac) })
	default:
		l.NICs = bootsFrom(a, b) || bootsFrom(b, a)
	}
	serial := serialOf(one)
	l.Serial = serial != "" && serial == serialOf(other) && !isCommon(serialKey(serial))
	return l
}

func isSameHost(a, b *metal3.BareMetalHost) bool {
	return a.Namespace == b.Namespace && a.Name == b.Name
}

// areMostlyTheSame reports whether more than half of the marks of the one with fewer of them are among the other's.
func areMostlyTheSame(marks, others []string) bool {
	common := 0
	for _, mark := range marks {
		if slices.Contains(others, mark) {
			common++
		}
	}
	return 2*common > min(len(marks), len(others))
}

// haveOtherNICs reports whether both hosts have network interfaces, and they are those of two machines.
func haveOtherNICs(a, b *metal3.BareMetalHost) bool {
	macs, others := macsOf(a.Status.HardwareDetails), macsOf(b.Status.HardwareDetails)
	return len(macs) > 0 && len(others) > 0 && !areMostlyTheSame(macs, others)
}

// bootsFrom reports whether the boot MAC address of a is one of b's machine.
func bootsFrom(a, b *metal3.BareMetalHost) bool {
	boot := a.Spec.BootMAC()
	if boot == "" {
		return false
	}
	return boot == b.Spec.BootMAC() || HasNIC(b.Status.HardwareDetails, boot)
}

// HasNIC reports whether one of the network interfaces has the MAC address. hardware may be nil.
func HasNIC(hardware *metal3.HardwareDetails, mac string) bool {
	return hardware != nil && slices.ContainsFunc(hardware.NIC, func(nic metal3.NIC) bool { return strings.EqualFold(nic.MAC, mac) })
}

// AreConfirmedApart reports whether a person has confirmed that two hosts are of different machines.
func AreConfirmedApart(a, b *metal3.BareMetalHost) bool {
	return slices.Contains(a.Status.Record.OtherMachines, b.UID) || slices.Contains(b.Status.Record.OtherMachines, a.UID)
}

// usesMachine reports whether the host's machine runs something on its behalf, is about to, or has not ceased to yet.
func usesMachine(host *metal3.BareMetalHost) bool {
	switch host.Status.Provisioning.State {
	case metal3.StateProvisioning, metal3.StateDeprovisioning:
		return true
	}
	return host.Status.Provisioning.State.RunsSomething() || host.Status.Record.Deployment != nil
}
