package registrar

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// portConflict is a MAC address of a host that Ironic knows as another node's.
type portConflict struct{ mac, host, other string }

func (e *portConflict) Error() string {
	return fmt.Sprintf("MAC address %s of host %s is that of %s already: delete the host whose spec.bootMACAddress is wrong and create it with the right one, or delete the other one's port in Ironic", e.mac, e.host, e.other)
}

// wantedPorts returns the MAC addresses that the node needs ports for, and whether the host
// boots from them: the one that the spec names, and those that an earlier inspection found,
// which Ironic does not know any more when it has lost the node.
func wantedPorts(host *metal3.BareMetalHost) map[string]bool {
	wanted := map[string]bool{}
	if hardware := host.Status.HardwareDetails; hardware != nil {
		for _, nic := range hardware.NIC {
			if nic.MAC != "" {
				wanted[strings.ToLower(nic.MAC)] = nic.PXE
			}
		}
	}
	if host.Spec.BootMACAddress != "" {
		wanted[strings.ToLower(host.Spec.BootMACAddress)] = true
	}
	return wanted
}

// ensurePorts creates those ports that the node needs and does not have yet. A MAC address that
// an inspection found may belong to another node: the USB network cards of some BMCs have the
// same one in every machine.
func (r *Registrar) ensurePorts(ctx context.Context, reg registration, nodeUUID string, existing []ironic.Port) error {
	wanted := wantedPorts(reg.host)
	for _, port := range existing {
		delete(wanted, port.Address)
	}
	for _, mac := range slices.Sorted(maps.Keys(wanted)) {
		err := r.createPort(ctx, reg, nodeUUID, mac, wanted[mac])
		conflict := new(portConflict)
		switch {
		case err == nil:
		case !errors.As(err, &conflict):
			return err
		case strings.EqualFold(mac, reg.host.Spec.BootMACAddress):
			return &problem{metal3.PortConflictReason, conflict.Error()}
		default:
			klog.FromContext(ctx).Info("A network card has the MAC address of another node's port, and gets none", "mac", mac, "other", conflict.other)
		}
	}
	return nil
}

func (r *Registrar) createPort(ctx context.Context, reg registration, nodeUUID, mac string, boots bool) error {
	_, err := r.Ironic.CreatePort(ctx, reg.fence, nodeUUID, mac, boots)
	if !ironic.IsDuplicate(err) {
		return err
	}
	ports, err := r.Ironic.ListPorts(ctx, ironic.PortFilter{Address: mac})
	if err != nil {
		return err
	}
	if len(ports) == 0 || ports[0].NodeUUID == nodeUUID {
		return nil
	}
	return &portConflict{mac: mac, host: reg.host.Namespace + "/" + reg.host.Name, other: r.Claims.describeOwner(ctx, reg.host, ports[0].NodeUUID)}
}
