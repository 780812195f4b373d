package baremetalhost

import (
	"context"
	"fmt"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// cutWaits is why the power cannot be cut while a power-off is under way: Ironic cannot
// be told to stop, and its target_power_state is "power off" for a soft one too.
const cutWaits = "a power-off is under way already, perhaps a soft one, which gives the operating system some minutes to shut down; " +
	"the power can be cut only after that, try again then"

// powerGoal is the power state that on and off lead to.
func powerGoal(action metal3.PowerAction) ironic.PowerState {
	if action == metal3.PowerActionOff {
		return ironic.PowerOff
	}
	return ironic.PowerOn
}

// isUnderWay tells whether Ironic is switching the node to where the action leads. That
// of a reboot never is: the one that is under way was asked for earlier.
func isUnderWay(action metal3.PowerAction, node *ironic.Node) bool {
	if node.Reservation == "" || node.ProvisionState.IsInTransit() {
		return false // what a dead conductor has left, or a step of something longer
	}
	switch node.TargetPowerState {
	case ironic.TargetPowerOff, ironic.TargetSoftPowerOff:
		return action == metal3.PowerActionOff
	case ironic.TargetPowerOn, ironic.TargetReboot, ironic.TargetSoftReboot:
		return action == metal3.PowerActionOn
	}
	return false
}

// lockedMeanwhile is the outcome of an action for which the node was locked. Whoever
// holds the lock may be doing just what was asked for: as soon as spec.online is written,
// the leader switches the host too, and it may be about to when somebody else has the
// lock. So on and off never put spec.online back because of a lock: with that, the
// leader would undo what it has begun.
func (p *power) lockedMeanwhile(ctx context.Context, host *metal3.BareMetalHost, before *ironic.Node, request *metal3.HostPower, refusal error) error {
	action := request.Spec.Action
	if action == metal3.PowerActionReboot {
		return refusalOf(host, refusal)
	}
	now, err := p.nodes.GetNode(ctx, before.UUID)
	switch {
	case err != nil:
		// The refusal is all there is to tell.
	case isUnderWay(action, now) && powerTarget(request.Spec) == ironic.TargetPowerOff:
		return tooMany(fmt.Sprintf("baremetalhost %q: %s; spec.online is false now", host.Name, cutWaits))
	case isUnderWay(action, now):
		tellUnderWay(request)
		return nil
	case now.TargetPowerState == "" && now.PowerState != before.PowerState && now.PowerState == powerGoal(action):
		request.Status.Mode = ""
		request.Status.Message = fmt.Sprintf("the host was switched %s meanwhile", action)
		return nil
	}
	return tooMany(fmt.Sprintf("baremetalhost %q: %v; spec.online is %t now, try again when that is done",
		host.Name, refusal, action == metal3.PowerActionOn))
}

// tellUnderWay says that nothing had to be asked of Ironic.
func tellUnderWay(request *metal3.HostPower) {
	request.Status.Mode = "" // Ironic does not tell
	request.Status.Message = fmt.Sprintf("Ironic was switching the host %s already", request.Spec.Action)
}
