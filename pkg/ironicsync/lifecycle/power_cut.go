package lifecycle

import (
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

const (
	// powerCutGrace is how long the leader leaves it to the replica that serves the subresource power to ask Ironic for a
	// hard power-off. That one is no longer at work then (actionTimeout of its package).
	powerCutGrace = 10 * time.Second
	// powerCutLimit is after what time a requested hard power-off no longer counts: the machine could not be switched off.
	powerCutLimit = 2 * time.Minute
)

// CutPower records that the power of the node is to be cut.
func CutPower(host *metal3.BareMetalHost, node *ironic.Node, now time.Time) {
	host.Status.Record.PowerCut = &metal3.PowerCut{NodeUUID: node.UUID, RequestedAt: WholeSeconds(now)}
}

// ForgetPowerCut records that the power of the host is not to be cut.
func ForgetPowerCut(host *metal3.BareMetalHost) { host.Status.Record.PowerCut = nil }

// observePowerCut removes the record of a power cut that has happened, or that nobody wants any more.
func observePowerCut(status *metal3.BareMetalHostStatus, host *metal3.BareMetalHost, now time.Time) {
	cut, node := status.Record.PowerCut, NodeOf(status)
	if cut == nil {
		return
	}
	age := now.Sub(cut.RequestedAt.Time)
	// spec.online is written a moment after the record.
	revoked := host.Spec.Online && age > powerCutGrace
	if cut.NodeUUID != node.UUID || node.PowerState == ironic.PowerOff || revoked || age > powerCutLimit {
		status.Record.PowerCut = nil
	}
}

// powerCut tells whether the host is to be switched off without asking its operating system, and for how long that is left to
// who asked for it. Ironic cannot cancel a soft power-off, which may take minutes: were the leader quicker, the power
// could not be cut before that.
func (s Situation) powerCut() (wait time.Duration, cut bool) {
	asked := s.Host.Status.Record.PowerCut
	if asked == nil || asked.NodeUUID != s.node.UUID {
		return 0, false
	}
	if s.ObservedAt.IsZero() {
		return powerCutGrace, true
	}
	left := asked.RequestedAt.Add(powerCutGrace).Sub(s.ObservedAt)
	return min(left, powerCutGrace), true // the clocks of replicas differ
}
