package hostnetwork

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// problem is why the interfaces of a host cannot be configured, for its user.
type problem struct{ reason, message string }

func (p *problem) Error() string { return p.message }

// port is how a port is to be configured in Ironic. What is nil is left as it is, or, of switchport, removed.
type port struct{ switchport, link map[string]any }

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
	var names []string
	for _, found := range hardware.NIC {
		if found.Name == nic.Name && found.MAC != "" {
			return strings.ToLower(found.MAC), nil
		}
		if found.Name != "" && !slices.Contains(names, found.Name) {
			names = append(names, found.Name)
		}
	}
	return "", &problem{metal3.InvalidInterfaceNamesReason, "The host has no interface " + nic.Name + "; it has " + strings.Join(names, ", ")}
}

// switchportOf returns an attachment in the form of a port's extra/switchport.
func switchportOf(spec *metal3.HostNetworkAttachmentSpec) map[string]any {
	switchport := map[string]any{"mode": string(spec.Mode), "native_vlan": spec.NativeVLAN}
	if vlans := expand(spec.AllowedVLANs); len(vlans) > 0 {
		switchport["allowed_vlans"] = vlans
	}
	if spec.MTU != nil {
		switchport["mtu"] = *spec.MTU
	}
	return switchport
}

// expand returns the VLANs of a list of numbers and ranges, which validation has checked, each once.
func expand(entries []string) []int {
	var vlans []int
	for _, entry := range entries {
		from, to, isRange := strings.Cut(entry, "-")
		first, err := strconv.Atoi(from)
		last := first
		if isRange && err == nil {
			last, err = strconv.Atoi(to)
		}
		if err != nil {
			continue // stored before there was validation
		}
		for vlan := first; vlan <= last && vlan <= 4094; vlan++ {
			vlans = append(vlans, vlan)
		}
	}
	slices.Sort(vlans)
	return slices.Compact(vlans)
}

// switchID is what Ironic accepts as the switch_id of a link: a MAC address, or the datapath ID of an OpenFlow switch.
var switchID = regexp.MustCompile(`^(([0-9a-f]{2}:){5}[0-9a-f]{2}|[0-9a-f]{16})$`)

// linkOf returns the switch port of an interface as a port's local_link_connection: the one that the spec
// names, or the one that the switch has announced by LLDP; nil if neither is known. A switch can announce any text as its ID: the
// error is then a *problem.
func linkOf(host *metal3.BareMetalHost, nic *metal3.NetworkInterface, mac string) (map[string]any, error) {
	if given := nic.SwitchPort; given != nil {
		// Ironic has it in lower case.
		return map[string]any{"switch_id": strings.ToLower(given.SwitchID), "port_id": given.PortID}, nil
	}
	if hardware := host.Status.HardwareDetails; hardware != nil {
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

// switchportKey in the extra of a port is what ironic-networking configures the switch port by.
const switchportKey = "switchport"

// patchesOf returns what differs of a port. The link comes first: Ironic accepts it for idle nodes only, and
// cannot configure a switch port that it does not know.
func patchesOf(present *ironic.SwitchPort, wanted port) []ironic.Patch {
	var patches []ironic.Patch
	if wanted.link != nil && !isSame(present.Link, wanted.link) {
		patches = append(patches, ironic.Patch{Op: ironic.PatchAdd, Path: "/local_link_connection", Value: wanted.link})
	}
	switch has := present.Extra[switchportKey]; {
	case wanted.switchport == nil && has != nil:
		patches = append(patches, ironic.Patch{Op: ironic.PatchRemove, Path: "/extra/" + switchportKey})
	case wanted.switchport != nil && !isSame(has, wanted.switchport):
		patches = append(patches, ironic.Patch{Op: ironic.PatchAdd, Path: "/extra/" + switchportKey, Value: wanted.switchport})
	}
	return patches
}

// isSame compares two values as JSON, which has one kind of numbers only.
func isSame(a, b any) bool {
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && string(x) == string(y)
}
