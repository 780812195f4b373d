// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// A power-on that has got no answer may be carried out minutes later, as any request (see asked.go), and would then switch on a machine
// that somebody has fenced meanwhile. It is switched off again, but what ran on it may have been started elsewhere by then, because the
// host was seen to be off. So the request is recorded before it is sent, and until it is answered or counts as lost, a host that is to be
// off is shown as on.

const (
	// maxPowerOns is how many requests are recorded. With more, the oldest ones are the first to count as lost anyway.
	maxPowerOns = 8
	// powerOnLimit is after how long a request counts as lost that no leader has forgotten, because it does not drive the host. It is long
	// because the clocks of two replicas may differ.
	powerOnLimit = 10 * time.Minute
)

// MaySwitchOn reports whether a power action leads to a machine that is on, whatever it was before.
func MaySwitchOn(target ironic.PowerTarget) bool {
	return target == ironic.TargetPowerOn || target == ironic.TargetReboot || target == ironic.TargetSoftReboot
}

// BeginPowerOn records that a request for a power action of the node that MaySwitchOn is about to be sent. id tells it from others.
func BeginPowerOn(host *metal3.BareMetalHost, id, nodeUUID string, now time.Time) {
	powerOns := append(slices.Clone(host.Status.Record.PowerOns), metal3.PowerOn{ID: id, NodeUUID: nodeUUID, At: WholeSeconds(now)})
	host.Status.Record.PowerOns = powerOns[max(0, len(powerOns)-maxPowerOns):]
	ShowPower(host, &host.Status, now)
}

// IsPowerOnBegun reports whether a request is recorded with BeginPowerOn.
func IsPowerOnBegun(host *metal3.BareMetalHost, id string) bool {
	return slices.ContainsFunc(host.Status.Record.PowerOns, func(p metal3.PowerOn) bool { return p.ID == id })
}

// EndPowerOn records that a request is not carried out later: it was answered, or not sent. accepted is what Ironic has accepted to do; empty if
// it has refused.
func EndPowerOn(host *metal3.BareMetalHost, id string, accepted ironic.PowerTarget, now time.Time) {
	status := &host.Status
	others := slices.DeleteFunc(slices.Clone(status.Record.PowerOns), func(p metal3.PowerOn) bool { return p.ID == id })
	status.Record.PowerOns = slices.Clip(others)
	if len(others) == 0 {
		status.Record.PowerOns = nil
	}
	if node := status.Ironic; accepted != "" && node != nil && node.PowerState != string(ironic.PowerOn) {
		// Ironic has set it before it has answered. What is recorded of the node is older.
		node = node.DeepCopy()
		node.TargetPowerState = string(accepted)
		status.Ironic = node
	}
	ShowPower(host, status, now)
}

// lastPowerOn returns the last request for a node that is recorded; nil if there is none.
func lastPowerOn(status *metal3.BareMetalHostStatus, nodeUUID string) *metal3.PowerOn {
	for i := range slices.Backward(status.Record.PowerOns) {
		if p := &status.Record.PowerOns[i]; p.NodeUUID == nodeUUID {
			return p
		}
	}
	return nil
}

// ShowPower sets in a status of the host what is shown of its machine's power. It is to be called when what Ironic says changes, and
// when the host begins or ceases to be kept off.
func ShowPower(host *metal3.BareMetalHost, status *metal3.BareMetalHostStatus, now time.Time) {
	node := NodeOf(status)
	if node == nil {
		return
	}
	switch on, off := powerOf(node); {
	case on, off:
		// Ironic says off until the machine is on. Who fences it must not take that for the end.
		status.PoweredOn = on || mayComeOn(status, node, now) && !isWantedOn(host)
	case mayComeOn(status, node, now), node.isSwitchForgotten() && !isWantedOn(host):
		status.PoweredOn = true
	default: // Ironic does not know (empty, or "error" after the BMC has not answered several times), and fencing relies on off
	}
}

// mayComeOn reports whether Ironic is about to switch a machine on that is off, or may be. A service and a rebuild end with a machine that
// is on, and have it off for moments.
func mayComeOn(status *metal3.BareMetalHostStatus, node *Node, now time.Time) bool {
	if asked := status.Record.Asked; asked != nil && asked.NodeUUID == node.UUID && now.Sub(asked.At.Time) < powerOnLimit &&
		(asked.Target == string(ironic.TargetService) || asked.Target == string(ironic.TargetRebuild)) {
		return true
	}
	if d := status.Record.Deployment; d != nil && d.Rebuild != nil && (node.ProvisionState == ironic.Deploying || node.ProvisionState == ironic.DeployWait) {
		return true
	}
	asked := lastPowerOn(status, node.UUID)
	return MaySwitchOn(node.TargetPowerState) || node.ProvisionState == ironic.Servicing || node.ProvisionState == ironic.ServiceWait ||
		asked != nil && now.Sub(asked.At.Time) < powerOnLimit
}
