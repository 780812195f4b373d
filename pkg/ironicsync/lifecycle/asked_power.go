// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// A power-off or a reboot that has got no answer may be carried out minutes later, as any request (see asked.go), and
// would then cut the power of a machine that has been switched on since. It is recorded before it is sent. A power-off is
// repeated all the same, because the host of a machine that must be fenced cannot wait; but as long as one that is left
// over may still come, the machine is not switched on.

// interrupts reports whether a power action ends what the machine runs.
func interrupts(target ironic.PowerTarget) bool { return target != ironic.TargetPowerOn }

// MustAskPower reports whether the request of a step is to be recorded with AskPower before it is sent.
func MustAskPower(step Step) bool { return step.Do == SwitchPower && interrupts(step.Power) }

// AskPower records that the request of a step is about to be sent. It returns false if what is recorded says so already,
// and nothing is to be written. answered reports whether the recorded request got an answer, as this process has seen, and knownFor for
// how long it has known of it.
func AskPower(host *metal3.BareMetalHost, step Step, answered bool, knownFor time.Duration, now time.Time) (changed bool) {
	node := NodeOf(&host.Status)
	if node == nil {
		return false // it was lost meanwhile, and the request fails
	}
	noted := noteRebootOfKept(host, step.Power)
	return askPower(host, node.UUID, step.Power, answered, knownFor, now) || noted
}

func askPower(host *metal3.BareMetalHost, nodeUUID string, target ironic.PowerTarget, answered bool, knownFor time.Duration, now time.Time) (changed bool) {
	asked := metal3.AskedPower{NodeUUID: nodeUUID, Target: string(target), At: WholeSeconds(now), Times: 1}
	if before := host.Status.Record.AskedPower; before != nil && before.NodeUUID == nodeUUID {
		asked.Times = min(before.Times+1, severalTimes) // the earlier ones may still be carried out
		if answered {
			asked.Times = before.Times
		}
		same := *before
		same.At = asked.At
		if same == asked && knownFor < askedPrecision {
			return false
		}
	}
	host.Status.Record.AskedPower = &asked
	return true
}

// IsPowerAsked reports whether it is recorded that the request of a step was to be sent.
func IsPowerAsked(host *metal3.BareMetalHost, step Step) bool {
	asked := host.Status.Record.AskedPower
	return asked != nil && asked.Target == string(step.Power)
}

// isReboot reports whether what was asked for is a reboot, which leaves the machine on.
func isReboot(asked *metal3.AskedPower) bool {
	return asked.Target == string(ironic.TargetReboot) || asked.Target == string(ironic.TargetSoftReboot)
}

// isSwitching reports whether Ironic is at work on the power of a node, or is about to: it locks the node before it answers the request.
func isSwitching(node *Node) bool { return node.isBeingSwitched() || node.Reservation != "" }

// observeAskedPower notes what has become of a request: once the machine is off, the only one was carried out. If it
// was sent several times, the others may still be.
func observeAskedPower(status *metal3.BareMetalHostStatus) {
	asked, node := status.Record.AskedPower, NodeOf(status)
	if asked == nil {
		return
	}
	if _, off := powerOf(node); asked.NodeUUID != node.UUID || off && asked.Times <= 1 {
		status.Record.AskedPower = nil
	}
}

// powerOffMayStillCome reports whether Ironic may still carry out a power-off or a reboot that it was asked for, and how
// long that is to be waited for.
func (s Situation) powerOffMayStillCome() (left time.Duration, may bool) {
	asked := s.Host.Status.Record.AskedPower
	if asked == nil || asked.NodeUUID != s.node.UUID || s.PowerAnswered && asked.Times <= 1 { // only the last of several was
		return 0, false
	}
	left = metal3.AskedLimit - s.AskedPowerKnownFor
	return max(left, time.Second), left > 0
}
