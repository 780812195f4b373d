// SPDX-License-Identifier: Apache-2.0

package hostnetwork

import (
	"fmt"
	"regexp"
	"strings"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// problem is why the interfaces of a host cannot be configured, for its user.
type problem struct{ reason, message string }

func (p *problem) Error() string { return p.message }

// port is how a port is to be configured in Ironic. A nil link is left as it is, and so is a nil switchport that is kept.
// Otherwise, a nil switchport is removed.
type port struct {
	switchport, link map[string]any
	kept             bool
}

// macOf returns the MAC address of an interface, in lower case. An interface that is given by its name has
// the one that the inspection has found.
func macOf(host *metal3.BareMetalHost, nic *metal3.NetworkInterface) (string, error) {
	if nic.MACAddress != "" {
		return strings.ToLower(nic.MACAddress), nil
	}
	hardware := host.Status.HardwareDetails
	if hardware == nil {
		return "", &problem{metal3.InspectionIncompleteReason, "The interface " + nic.Name + " is not known before the host was inspected"}
	}
	for _, found := range hardware.NIC {
		if found.Name == nic.Name && found.MAC != "" {
			return strings.ToLower(found.MAC), nil
		}
	}
	// Only now, and with a bound: an inspection can find thousands of interfaces, and as many can be in the spec.
	const maxNames = 50
	known, names := map[string]bool{"": true}, []string{}
	for _, found := range hardware.NIC {
		if !known[found.Name] && len(names) < maxNames {
			names = append(names, found.Name)
		}
		known[found.Name] = true
	}
	if more := len(known) - 1 - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return "", &problem{metal3.InvalidInterfaceNamesReason, "The host has no interface " + nic.Name + "; it has " + strings.Join(names, ", ")}
}

// switchportOf returns an attachment in the form of a port's extra/switchport.
func switchportOf(spec *metal3.HostNetworkAttachmentSpec) map[string]any {
	switchport := map[string]any{"mode": string(spec.Mode), "native_vlan": spec.NativeVLAN}
	if vlans := spec.VLANs(); len(vlans) > 0 {
		switchport["allowed_vlans"] = vlans
	}
	if spec.MTU != nil {
		switchport["mtu"] = *spec.MTU
	}
	return switchport
}

// switchID is what Ironic accepts as the switch_id of a link: a MAC address, or the datapath ID of an OpenFlow switch.
var switchID = regexp.MustCompile(`^(([0-9a-f]{2}:){5}[0-9a-f]{2}|[0-9a-f]{16})$`)

// linkOf returns the switch port of an interface as a port's local_link_connection: the one that the spec
// names, or the one that the switch has announced by LLDP; nil if neither is known. Only an inspection knows the latter: what users write
// in place of one could name any switch port, past a policy that refuses them in the spec. A switch can announce any text as its ID:
// the error is then a *problem.
func linkOf(host *metal3.BareMetalHost, nic *metal3.NetworkInterface, mac string) (map[string]any, error) {
	if given := nic.SwitchPort; given != nil {
		// Ironic has it in lower case.
		return map[string]any{"switch_id": strings.ToLower(given.SwitchID), "port_id": given.PortID}, nil
	}
	if hardware := host.Status.HardwareDetails; hardware != nil && lifecycle.WasInspected(host) {
		for _, found := range hardware.NIC {
			if lldp := found.LLDP; strings.EqualFold(found.MAC, mac) && lldp != nil && lldp.SwitchID != "" && lldp.PortID != "" {
				id := strings.ToLower(lldp.SwitchID)
				if !switchID.MatchString(id) {
					return nil, &problem{metal3.IronicRefusedReason, fmt.Sprintf("The switch of interface %s announces %q as its ID, which is no MAC address: give its switchPort", mac, lldp.SwitchID)}
				}
				link := map[string]any{"switch_id": id, "port_id": lldp.PortID}
				if lldp.SwitchSystemName != "" {
					link["switch_info"] = lldp.SwitchSystemName
				}
				return link, nil
			}
		}
	}
	return nil, nil
}

// admitted returns what Ironic can be told of a port, and a *problem if that is less than what is wanted. Ironic accepts
// a switchport on a port that is connected to nothing. From then on, its network interface refuses to clean, deploy or
// service the node, and to change the port.
func admitted(host *metal3.BareMetalHost, present *ironic.SwitchPort, wanted port) (port, error) {
	if wanted.switchport == nil {
		return wanted, nil
	}
	vlans, _ := wanted.switchport["allowed_vlans"].([]int)
	why := problem{reason: metal3.IronicRefusedReason}
	switch mode := wanted.switchport["mode"]; {
	case len(vlans) > metal3.MaxAllowedVLANs:
		why.message = fmt.Sprintf("The attachment of interface %s has %d VLANs, more than %d", present.Address, len(vlans), metal3.MaxAllowedVLANs)
	case present.PXEEnabled && mode != string(metal3.SwitchPortAccess):
		why.message = fmt.Sprintf("The interface %s boots by PXE (pxe_enabled), and its attachment has the mode %s: Ironic permits the mode access only", present.Address, mode)
	case wanted.link != nil, isConnected(present.Link):
		return wanted, nil
	case host.Status.HardwareDetails == nil:
		why = problem{metal3.InspectionIncompleteReason, fmt.Sprintf("The switch port of interface %s is not known before the host was inspected: wait for that, or give its switchPort", present.Address)}
	case !lifecycle.WasInspected(host):
		why.message = fmt.Sprintf("The switch port of interface %s is not known: the hardware of the host was given, and not inspected, so give its switchPort", present.Address)
	default:
		why.message = fmt.Sprintf("The switch port of interface %s is not known: no switch announces it, so give its switchPort", present.Address)
	}
	wanted.switchport, wanted.kept = nil, true
	return wanted, &why
}

func isConnected(link map[string]any) bool {
	switchID, _ := link["switch_id"].(string)
	portID, _ := link["port_id"].(string)
	return switchID != "" && portID != ""
}

// switchportKey in the extra of a port is what ironic-networking configures the switch port by.
const switchportKey = "switchport"

// patchesOf returns what differs of a port. The link comes first: Ironic accepts it for idle nodes only, and
// cannot configure a switch port that it does not know.
func patchesOf(present *ironic.SwitchPort, wanted port) []ironic.Patch {
	var patches []ironic.Patch
	if wanted.link != nil && !ironic.SameJSON(present.Link, wanted.link) {
		patches = append(patches, ironic.Patch{Op: ironic.PatchAdd, Path: "/local_link_connection", Value: wanted.link})
	}
	switch has := present.Extra[switchportKey]; {
	case wanted.kept:
	case wanted.switchport == nil && has != nil:
		patches = append(patches, ironic.Patch{Op: ironic.PatchRemove, Path: "/extra/" + switchportKey})
	case wanted.switchport != nil && !ironic.SameJSON(has, wanted.switchport):
		patches = append(patches, ironic.Patch{Op: ironic.PatchAdd, Path: "/extra/" + switchportKey, Value: wanted.switchport})
	}
	return patches
}
