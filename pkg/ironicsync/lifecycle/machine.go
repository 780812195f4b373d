package lifecycle

import (
	"net"
	"slices"
	"strings"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// One machine can be reached at several addresses: its BMC has a DNS name and an IP address, or there are two of it. What
// an inspection has found tells such hosts from each other.

// placeholders are serial numbers that manufacturers have left as they were.
var placeholders = []string{"not specified", "not available", "to be filled by o.e.m.", "system serial number", "default string", "unknown", "none", "n/a", "123456789", "0123456789", "1234567890"}

// serialOf returns the serial number of a host's machine with its manufacturer and product; empty if it has none that
// tells machines apart.
func serialOf(hardware *metal3.HardwareDetails) string {
	if hardware == nil {
		return ""
	}
	v := hardware.SystemVendor
	serial := strings.ToLower(strings.TrimSpace(v.SerialNumber))
	if len(serial) < 4 || slices.Contains(placeholders, serial) || strings.Trim(serial, serial[:1]) == "" {
		return ""
	}
	return strings.ToLower(v.Manufacturer) + "/" + strings.ToLower(v.ProductName) + "/" + serial
}

// macsOf returns the MAC addresses by which a host's machine is known. Those that are administered locally are left out:
// the BMCs of many machines give the same one to the network that they have with the operating system.
func macsOf(hardware *metal3.HardwareDetails) (macs []string) {
	if hardware == nil {
		return nil
	}
	for _, nic := range hardware.NIC {
		address, err := net.ParseMAC(nic.MAC)
		if err == nil && len(address) == 6 && address[0]&3 == 0 && address.String() != "00:00:00:00:00:00" {
			macs = append(macs, address.String())
		}
	}
	slices.Sort(macs)
	return slices.Compact(macs)
}

// MachineMACs returns the MAC addresses by which the host's machine is known, with the one that its spec names.
func MachineMACs(host *metal3.BareMetalHost) []string {
	macs := macsOf(host.Status.HardwareDetails)
	if boot := strings.ToLower(host.Spec.BootMACAddress); boot != "" && !slices.Contains(macs, boot) {
		macs = append(macs, boot)
	}
	return macs
}

// MachineKeys returns what the host's machine can be found by. Hosts that share one may be of one machine: see
// IsSameMachine.
func MachineKeys(host *metal3.BareMetalHost) []string {
	keys := MachineMACs(host)
	if serial := serialOf(host.Status.HardwareDetails); serial != "" {
		keys = append(keys, serial)
	}
	return keys
}

// IsSameMachine tells whether two hosts are of the same machine, according to the hardware that an inspection has found:
// the serial numbers, where both have one; otherwise a boot MAC address, or half of the network interfaces. (A card can
// have been moved from one machine into another.)
func IsSameMachine(a, b *metal3.BareMetalHost) bool {
	one, other := a.Status.HardwareDetails, b.Status.HardwareDetails
	if s, o := serialOf(one), serialOf(other); s != "" && o != "" {
		return s == o
	}
	if bootsFrom(a, b) || bootsFrom(b, a) {
		return true
	}
	macs, others := macsOf(one), macsOf(other)
	common := 0
	for _, mac := range macs {
		if slices.Contains(others, mac) {
			common++
		}
	}
	return common > 0 && 2*common >= min(len(macs), len(others))
}

// bootsFrom tells whether the boot MAC address of a is one of b's machine.
func bootsFrom(a, b *metal3.BareMetalHost) bool {
	boot := a.Spec.BootMACAddress
	if boot == "" {
		return false
	}
	hardware := b.Status.HardwareDetails
	return strings.EqualFold(boot, b.Spec.BootMACAddress) || hardware != nil && slices.ContainsFunc(hardware.NIC, func(nic metal3.NIC) bool { return strings.EqualFold(nic.MAC, boot) })
}

// UsesMachine tells whether the host's machine runs something on its behalf, is about to, or has not ceased to yet.
func UsesMachine(host *metal3.BareMetalHost) bool {
	switch host.Status.Provisioning.State {
	case metal3.StateProvisioning, metal3.StateDeprovisioning:
		return true
	}
	return RunsSomething(host) || host.Status.Record.Deployment != nil
}
