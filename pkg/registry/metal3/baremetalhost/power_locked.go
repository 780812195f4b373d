// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"context"
	"fmt"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// hardOffMustWait says why a hard power-off is not possible while another power-off is under way.
// Ironic cannot cancel that one, and does not say whether it is a soft one, for which its
// target_power_state is "power off", too.
const hardOffMustWait = "a power-off is under way already, perhaps a soft one, which gives the operating system some minutes to shut down; " +
	"the power can be cut only after that, try again then"

// powerGoal returns the power state to which the action on or off leads.
func powerGoal(action metal3.PowerAction) ironic.PowerState {
	if action == metal3.PowerActionOff {
		return ironic.PowerOff
	}
	return ironic.PowerOn
}

// isUnderWay reports whether Ironic is already switching the node to the power state to which the
// action leads. It is always false for a reboot, because a reboot that is under way was requested
// earlier.
func isUnderWay(action metal3.PowerAction, node *ironic.Node) bool {
	if node.Reservation == "" || node.ProvisionState.IsInTransit() {
		return false // left over from a conductor that died, or a part of another operation
	}
	switch node.TargetPowerState {
	case ironic.TargetPowerOff, ironic.TargetSoftPowerOff:
		return action == metal3.PowerActionOff
	case ironic.TargetPowerOn, ironic.TargetReboot, ironic.TargetSoftReboot:
		return action == metal3.PowerActionOn
	}
	return false
}

// lockedMeanwhile returns the outcome of an action that Ironic has refused because the node is
// locked. The lock may belong to exactly the requested operation: as soon as spec.online is
// written, the leader switches the host as well. Even if another operation holds the lock, the leader
// may be about to do so. Therefore on and off do not restore spec.online when the node is locked:
// the leader would then undo what it has just begun.
func (*power) lockedMeanwhile(ctx context.Context, asked Ironic, host *metal3.BareMetalHost, before *ironic.Node, request *metal3.HostPower, refusal error) error {
	action := request.Spec.Action
	if action == metal3.PowerActionReboot {
		return refusalOf(host, refusal)
	}
	now, err := asked.GetNode(ctx, before.UUID)
	switch {
	case err != nil:
		// Only the refusal is known, and is returned below.
	case isUnderWay(action, now) && powerTarget(request.Spec) == ironic.TargetPowerOff:
		return tooMany(fmt.Sprintf("baremetalhost %q: %s; spec.online is false now", host.Name, hardOffMustWait))
	case isUnderWay(action, now):
		reportUnderWay(request)
		return nil
	case now.TargetPowerState == "" && now.PowerState != before.PowerState && now.PowerState == powerGoal(action):
		request.Status.Mode = ""
		request.Status.Message = fmt.Sprintf("the host was switched %s meanwhile", action)
		return nil
	}
	return tooMany(fmt.Sprintf("baremetalhost %q: %v; spec.online is %t now, try again when that is done",
		host.Name, refusal, action == metal3.PowerActionOn))
}

// reportUnderWay sets the status of a request for which Ironic did not have to be asked.
func reportUnderWay(request *metal3.HostPower) {
	request.Status.Mode = "" // Ironic does not say whether the power action under way is soft or hard
	request.Status.Message = fmt.Sprintf("Ironic was switching the host %s already", request.Spec.Action)
}
