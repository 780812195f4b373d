// SPDX-License-Identifier: Apache-2.0

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
	// powerCutLimit is after how long a hard power-off of a host that is to be on no longer counts: the replica that recorded it was
	// killed before it wrote spec.online. It is long because the clocks of two replicas may differ.
	powerCutLimit = 10 * time.Minute
)

// CutPower records that the power of the node is to be cut, and that Ironic is about to be asked for that. From then on, the machine
// is to be off as spec.online says, whoever has found it running.
func CutPower(host *metal3.BareMetalHost, node *ironic.Node, now time.Time) {
	CountOnline(host)
	host.Status.Record.PowerCut = &metal3.PowerCut{NodeUUID: node.UUID, RequestedAt: WholeSeconds(now)}
	askPower(host, node.UUID, ironic.TargetPowerOff, false, askedPrecision, now)
}

// PowerCutAnswered records that the request of CutPower does not come later: Ironic has answered it, or it was not sent. It returns
// false if nothing is to be written, because there were others, too: which of them comes later is not known, and that the
// machine is off then says nothing of it.
func PowerCutAnswered(host *metal3.BareMetalHost) (changed bool) {
	asked := host.Status.Record.AskedPower
	if asked == nil || asked.Target != string(ironic.TargetPowerOff) || asked.Times > 1 {
		return false
	}
	host.Status.Record.AskedPower = nil
	return true
}

// ForgetPowerCut records that the power of the host is not to be cut.
func ForgetPowerCut(host *metal3.BareMetalHost) { host.Status.Record.PowerCut = nil }

// KeepsPower reports whether the host's machine is left on although spec.online is false, which nobody may have meant.
func KeepsPower(host *metal3.BareMetalHost) bool {
	return host.Status.Record.Deployment != nil && host.Status.Record.Deployment.KeepPower
}

// CountOnline records that spec.online counts from now on, because a user has asked for the power that it says. It returns false if
// it counts already.
func CountOnline(host *metal3.BareMetalHost) (changed bool) {
	changed = KeepsPower(host)
	if changed {
		host.Status.Record.Deployment.KeepPower = false
	}
	return changed
}

// KeepPowerAs takes CountOnline back, because what was asked of the host, as it was before, was refused. It returns false if there is
// nothing to be taken back.
func KeepPowerAs(before, host *metal3.BareMetalHost) (changed bool) {
	is := host.Status.Record.Deployment
	if !KeepsPower(before) || is == nil || KeepsPower(host) || host.Spec.Online ||
		is.NodeUUID != before.Status.Record.Deployment.NodeUUID || is.InstanceUUID != before.Status.Record.Deployment.InstanceUUID {
		return false
	}
	is.KeepPower = true
	return true
}

// observePowerCut removes the record of a power cut that has happened, or that nobody wants any more.
func observePowerCut(status *metal3.BareMetalHostStatus, host *metal3.BareMetalHost, now time.Time) {
	cut, node := status.Record.PowerCut, NodeOf(status)
	if cut == nil {
		return
	}
	revoked := host.Spec.Online && now.Sub(cut.RequestedAt.Time) > powerCutLimit
	if _, off := powerOf(node); cut.NodeUUID != node.UUID || off || revoked {
		status.Record.PowerCut = nil
	}
}

// powerCut reports whether the host is to be switched off without asking its operating system, and for how long that is left to
// who asked for it, as long as the leader has seen the record for less. Ironic cannot cancel a soft power-off, which may take
// minutes: were the leader quicker, the power could not be cut before that.
func (s Situation) powerCut() (wait time.Duration, cut bool) {
	asked := s.Host.Status.Record.PowerCut
	if asked == nil || asked.NodeUUID != s.node.UUID || s.Host.Spec.Online { // a reboot by an annotation has a mode of its own
		return 0, false
	}
	return powerCutGrace - s.PowerCutKnownFor, true
}
