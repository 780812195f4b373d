// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// network is what an inspection has reported of the network interfaces.
type network struct {
	interfaces part
	// bootMAC is the MAC address of the interface from which the ramdisk was booted; empty if that is not known.
	bootMAC string
	// allInterfaces and parsedLLDP are what Ironic's inspection hooks have made of that, by the names of the interfaces.
	allInterfaces, parsedLLDP object
	known                     []metal3.NIC
}

func newNetwork(inventory, plugins object, known []metal3.NIC) network {
	bootedBefore := ""
	for _, nic := range known {
		if nic.PXE {
			bootedBefore = nic.MAC
		}
	}
	return network{
		interfaces:    inventory.at("interfaces"),
		bootMAC:       read(inventory.at("boot").object().at("pxe_interface"), bootedBefore, toBootMAC),
		allInterfaces: plugins.at("all_interfaces").object(),
		parsedLLDP:    plugins.at("parsed_lldp").object(),
		known:         known,
	}
}

// nics returns the interfaces. An entry that is no object is left out.
func (n network) nics() (nics []metal3.NIC) {
	entries, ok := n.interfaces.list()
	if !ok {
		return n.known
	}
	for _, entry := range entries {
		if iface := entry.object(); !iface.isLost && !iface.isAbsent() {
			nics = append(nics, n.nic(iface)...)
		}
	}
	return nics
}

// nic returns one entry for each address family of the interface, or a single one if the
// interface has no address.
func (n network) nic(iface object) []metal3.NIC {
	known, knownIPv4, knownIPv6 := n.knownNIC(iface)
	nic := metal3.NIC{
		Name:       read(iface.at("name"), known.Name, toText),
		Model:      model(iface, known.Model),
		MAC:        read(iface.at("mac_address"), known.MAC, toMAC),
		IP:         read(iface.at("ipv4_address"), knownIPv4, toIP),
		SpeedGbps:  read(iface.at("speed_mbps"), 1000*known.SpeedGbps, toCount) / 1000,
		PCIAddress: read(iface.at("pci_address"), known.PCIAddress, toText),
	}
	processed := n.allInterfaces.of(nic.Name).object()
	nic.PXE = n.boots(nic.MAC, processed, known)
	lldp := n.parsedLLDP.of(nic.Name)
	if lldp.isAbsent() && !lldp.isLost {
		lldp = processed.at("lldp_processed") // ironic-inspector
	}
	setLLDP(&nic, lldp.object(), known)
	v6 := nic
	v6.IP = read(iface.at("ipv6_address"), knownIPv6, toIP)
	switch {
	case v6.IP == "":
		return []metal3.NIC{nic}
	case nic.IP == "":
		return []metal3.NIC{v6}
	}
	return []metal3.NIC{nic, v6}
}

// model returns the vendor and the product of an interface. If one of them cannot be read, what was known of both remains.
func model(iface object, known string) string {
	const unread = "\x00"
	vendor, product := read(iface.at("vendor"), unread, toText), read(iface.at("product"), unread, toText)
	if vendor == unread || product == unread {
		return known
	}
	return strings.TrimSpace(vendor + " " + product)
}

// boots reports whether the machine boots from an interface. Ironic's hooks know best.
func (n network) boots(mac string, processed object, known metal3.NIC) bool {
	isBootMAC := n.bootMAC != "" && n.bootMAC == mac
	if processed.isLost && n.bootMAC == "" {
		return known.PXE
	}
	if processed.isLost || processed.isAbsent() {
		return isBootMAC
	}
	return read(processed.at("pxe_enabled"), known.PXE || isBootMAC, toBool) || read(processed.at("pxe"), false, toBool) // pxe: ironic-inspector
}

// knownNIC returns what was known of an interface before, with its addresses: of that which does not differ from it in what
// can be read of its name and MAC address. (VLAN and bond interfaces share those of others.)
func (n network) knownNIC(iface object) (known metal3.NIC, ipv4, ipv6 string) {
	name, mac := peek(iface.at("name"), toText), peek(iface.at("mac_address"), toMAC)
	if name == "" && mac == "" {
		return known, "", ""
	}
	for i := len(n.known) - 1; i >= 0; i-- { // the first one counts
		nic := n.known[i]
		if name != "" && nic.Name != name || mac != "" && !strings.EqualFold(nic.MAC, mac) {
			continue
		}
		if known = nic; strings.Contains(nic.IP, ":") {
			ipv6 = nic.IP
		} else {
			ipv4 = nic.IP
		}
	}
	return known, ipv4, ipv6
}

// setLLDP sets what the switch has announced.
func setLLDP(nic *metal3.NIC, announced object, known metal3.NIC) {
	before := valueOf(known.LLDP)
	lldp := metal3.LLDP{
		SwitchID:         read(announced.at("switch_chassis_id"), before.SwitchID, toText),
		PortID:           read(announced.at("switch_port_id"), before.PortID, toText),
		SwitchSystemName: read(announced.at("switch_system_name"), before.SwitchSystemName, toText),
	}
	if lldp != (metal3.LLDP{}) {
		nic.LLDP = &lldp
	}
	if id := read(announced.at("switch_port_untagged_vlan_id"), int(known.VLANID), toCount); isVLAN(id) {
		nic.VLANID = metal3.VLANID(id)
	}
	vlans, ok := announced.at("switch_port_vlans").list()
	if !ok {
		nic.VLANs = known.VLANs
	}
	for _, entry := range vlans {
		vlan := entry.object()
		if id := read(vlan.at("id"), -1, toCount); isVLAN(id) && !vlan.isLost && !vlan.isAbsent() {
			nic.VLANs = append(nic.VLANs, metal3.VLAN{ID: metal3.VLANID(id), Name: read(vlan.at("name"), "", toText)})
		}
	}
}

// isVLAN reports whether a number is a valid VLAN ID. Switches can send other numbers by LLDP, such
// as 4095, which the API does not accept.
func isVLAN(id int) bool { return id >= 0 && id <= 4094 }
