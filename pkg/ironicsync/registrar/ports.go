// SPDX-License-Identifier: Apache-2.0

package registrar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// portConflict is a MAC address of a host that Ironic knows as another node's.
type portConflict struct{ mac, host, other string }

func (e *portConflict) Error() string {
	return fmt.Sprintf("MAC address %s of host %s is that of %s already: delete the other one's port in Ironic if that is wrong, or replace the host whose spec.bootMACAddress is wrong: %s", e.mac, e.host, e.other, metal3.HowToReplaceAny)
}

// wantedPort is a port that a node needs.
type wantedPort struct {
	mac string
	// boots is set if the host boots from it.
	boots bool
}

// maxPorts is how many ports are created for what an inspection has found. Each takes Ironic a request, and no machine
// has as many network cards; virtual interfaces can be thousands.
const maxPorts = 64

// wantedPorts returns the ports that the node needs: that of the MAC address that the spec names, and those
// that an earlier inspection found, which Ironic does not know any more when it has lost the node. Those from which
// the host boots come first.
func wantedPorts(host *metal3.BareMetalHost) (ports []wantedPort) {
	boot := host.Spec.BootMAC()
	boots := map[string]bool{}
	if hardware := host.Status.HardwareDetails; hardware != nil {
		for _, nic := range hardware.NIC {
			if mac := portAddress(nic.MAC); mac != "" {
				boots[mac] = boots[mac] || nic.PXE // a VLAN or bond interface has the address of another one
			}
		}
	}
	delete(boots, boot)
	if hasOwn(boot, boots) {
		maps.DeleteFunc(boots, func(mac string, pxe bool) bool { return !pxe && !lifecycle.IsOwnMAC(mac) })
	}
	for mac, pxe := range boots {
		ports = append(ports, wantedPort{mac, pxe})
	}
	slices.SortFunc(ports, func(a, b wantedPort) int {
		if a.boots != b.boots {
			if a.boots {
				return -1
			}
			return 1
		}
		return strings.Compare(a.mac, b.mac)
	})
	if len(ports) > maxPorts {
		ports = ports[:maxPorts]
	}
	if boot != "" {
		ports = slices.Insert(ports, 0, wantedPort{boot, true})
	}
	return ports
}

// hasOwn reports whether the host boots from an interface that is known, or has one whose address is its own.
func hasOwn(boot string, boots map[string]bool) bool {
	if boot != "" {
		return true
	}
	for mac, pxe := range boots {
		if pxe || lifecycle.IsOwnMAC(mac) {
			return true
		}
	}
	return false
}

// portAddress returns a MAC address in the form that Ironic has for it; empty if Ironic has no ports with such addresses, as
// those of Fibre Channel and InfiniBand interfaces, or if no interface can have it.
func portAddress(mac string) string {
	address, err := net.ParseMAC(mac)
	isGroup := err == nil && address[0]&1 != 0
	if err != nil || len(address) != 6 || isGroup || address.String() == "00:00:00:00:00:00" {
		return ""
	}
	return address.String()
}

// ensurePorts creates those ports that the node needs and does not have yet. A MAC address that
// an inspection found may belong to another node, because the USB network cards of some BMCs have the
// same one in every machine, or Ironic may reject it or fail with it: such ports are missing, which the host can do without,
// unless the spec names the address, or there is no other one.
func (r *Registrar) ensurePorts(ctx context.Context, reg registration, nodeUUID string, existing []ironic.Port) (missing []string, err error) {
	hasPort := len(existing) > 0
	ports := wantedPorts(reg.host)
	sharedWith := map[string]string{}
	for _, port := range ports {
		if !port.boots {
			sharedWith[port.mac] = r.Claims.describeOther(reg.host, port.mac)
		}
	}
	slices.SortStableFunc(ports, func(a, b wantedPort) int { // so that these are left out only if there are others
		return cmp.Compare(min(len(sharedWith[a.mac]), 1), min(len(sharedWith[b.mac]), 1))
	})
	for _, port := range ports {
		if slices.ContainsFunc(existing, func(e ironic.Port) bool { return e.Address == port.mac }) {
			continue
		}
		isRequired := port.mac == reg.host.Spec.BootMAC()
		if other := sharedWith[port.mac]; other != "" && hasPort {
			missing = append(missing, fmt.Sprintf("%s is a network card of %s, too", port.mac, other))
			continue
		}
		err := r.createPort(ctx, reg, nodeUUID, port)
		conflict, answer := new(portConflict), new(ironic.APIError)
		switch {
		case err == nil:
			hasPort = true
		case errors.As(err, &conflict) && isRequired:
			return nil, &problem{metal3.PortConflictReason, conflict.Error()}
		case errors.As(err, &conflict):
			missing = append(missing, fmt.Sprintf("%s belongs to %s", port.mac, conflict.other))
		case errors.As(err, &answer) && ironic.IsInternal(answer) && hasPort && !isRequired: // it is not Ironic that is ill, but this port
			missing = append(missing, fmt.Sprintf("Ironic fails to create %s: %s", port.mac, answer.Message))
		case !errors.As(err, &answer) || !isRefusalOf(port, answer):
			return nil, err
		case isRequired:
			return nil, &problem{metal3.IronicRefusedReason, fmt.Sprintf("Ironic rejects spec.bootMACAddress %s as that of a port: %s", port.mac, answer.Message)}
		default:
			missing = append(missing, fmt.Sprintf("Ironic rejects %s: %s", port.mac, answer.Message))
		}
	}
	return missing, nil
}

// isRefusalOf reports whether Ironic rejects this port, and may accept others: its answer names the address. 400 also says that Ironic
// does not see the node, because the database that answers lags.
func isRefusalOf(port wantedPort, answer *ironic.APIError) bool {
	return !ironic.IsLocked(answer) && (ironic.IsBadRequest(answer) || ironic.IsConflict(answer)) && strings.Contains(answer.Message, port.mac)
}

// missingPorts is the message about network cards for which Ironic has no port.
func missingPorts(missing []string) string {
	if len(missing) == 0 {
		return ""
	}
	return "Network cards without a port in Ironic, by their MAC addresses: " + strings.Join(missing, "; ")
}

func (r *Registrar) createPort(ctx context.Context, reg registration, nodeUUID string, port wantedPort) error {
	_, err := r.Ironic.CreatePort(ctx, reg.fence, nodeUUID, port.mac, port.boots)
	if !ironic.IsDuplicate(err) {
		return err
	}
	ports, err := r.Ironic.ListPorts(ctx, ironic.PortFilter{Address: port.mac})
	if err != nil {
		return err
	}
	conflict := &portConflict{mac: port.mac, host: reg.host.Namespace + "/" + reg.host.Name}
	switch {
	case len(ports) == 0: // unless it was deleted a moment ago, which the next try shows
		conflict.other = "a node that Ironic conceals from this server, as those of other Keystone projects"
	case ports[0].NodeUUID == nodeUUID:
		return nil
	default:
		conflict.other = r.Claims.describeOwner(ctx, reg.host, ports[0].NodeUUID)
	}
	return conflict
}
