// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// A request that has got no answer may be carried out all the same, minutes later: it waits in a queue of a load
// balancer or of Ironic, or in the buffers of a socket whose process was killed. Requests that begin, repeat or end a
// deployment, or begin a manual clean or a service, are therefore recorded before they are sent, and what is recorded is
// taken back only when Ironic has refused the request or it was never sent. Until then,
//
//   - a host of which the end was asked for does not become provisioned again: it is undeployed, and deployed again;
//   - a rebuild is not asked for a second time, which would write the image over what has been written since;
//   - a clean or a service is not asked for a second time, and a machine that was to be serviced is not switched on, so that
//     the service does not interrupt it;
//   - nothing is deployed that a former request could end or overwrite;
//   - a deployment that nobody wants any more, and that begins late, is known as the host's and undone.
//
// A request counts as lost when the replica that leads has itself known of it for metal3.AskedLimit: the clocks of two replicas may
// differ, so no time is compared with one that another has recorded.
//
// Nothing waits for a clean that leads the node out of the state manageable: Ironic refuses a clean that comes after that.

// askedPrecision is how long before its last repetition a recorded request may count from, because not each repetition is written.
const askedPrecision = time.Minute

// targetOf returns the transition that a step asks for, if its request is to be recorded.
func targetOf(step Step) (ironic.ProvisionTarget, bool) {
	switch {
	case step.Do == Deploy:
		return ironic.TargetActive, true
	case step.Do == Rebuild:
		return ironic.TargetRebuild, true
	case step.Do == Provision && step.Target == ironic.TargetDeleted:
		return ironic.TargetDeleted, true
	case step.Do == Prepare && step.Clean != nil:
		return ironic.TargetClean, true
	case step.Do == Service && step.Clean != nil, step.Do == LeaveService && step.Target == ironic.TargetService:
		return ironic.TargetService, true
	}
	return "", false
}

// NeedsIntent reports whether the request of a step is to be recorded with Ask before it is sent.
func NeedsIntent(step Step) bool {
	_, must := targetOf(step)
	return must
}

// Ask records that the request of a step is about to be sent. It returns false if what is recorded says so already, and
// nothing is to be written. refused reports whether the recorded request was not carried out, as this process has seen, and knownFor for
// how long it has known of it.
func Ask(host *metal3.BareMetalHost, step Step, refused bool, knownFor time.Duration, now time.Time) (changed bool) {
	target, _ := targetOf(step)
	node := NodeOf(&host.Status)
	if node == nil {
		return false // it was lost meanwhile, and the request fails
	}
	before := host.Status.Record.Asked
	asked := metal3.AskedChange{
		NodeUUID: node.UUID, Target: string(target), InstanceUUID: InstanceUUID(host), ProvisionState: string(node.ProvisionState), StateChangedAt: node.StateChangedAt, At: WholeSeconds(now), Times: 1,
	}
	if before != nil && before.NodeUUID == node.UUID {
		asked.Times = min(before.Times+1, severalTimes) // the earlier ones may still be carried out
		if refused {
			asked.Times = before.Times
		}
		same := *before
		same.At = asked.At
		if equality.Semantic.DeepEqual(same, asked) && knownFor < askedPrecision {
			return false
		}
	}
	host.Status.Record.Asked = &asked
	return true
}

// IsAsked reports whether it is recorded that the request of a step was to be sent.
func IsAsked(host *metal3.BareMetalHost, step Step) bool {
	target, _ := targetOf(step)
	return host.Status.Record.Asked != nil && host.Status.Record.Asked.Target == string(target)
}

// severalTimes is the highest number that is recorded of how often something was asked for.
const severalTimes = 2

// OnlyAsked reports whether nothing has changed of a host but what is recorded of a request.
func OnlyAsked(before, host *metal3.BareMetalHost) bool {
	a, b := *before, *host
	if is, was := &host.Status.Record, &before.Status.Record; equality.Semantic.DeepEqual(was.Asked, is.Asked) && equality.Semantic.DeepEqual(was.AskedPower, is.AskedPower) &&
		equality.Semantic.DeepEqual(was.PowerOns, is.PowerOns) {
		return false
	}
	a.Status.Record.Asked, b.Status.Record.Asked = nil, nil
	a.Status.Record.AskedPower, b.Status.Record.AskedPower = nil, nil
	a.Status.Record.PowerOns, b.Status.Record.PowerOns = nil, nil
	a.ResourceVersion, b.ResourceVersion = "", ""
	a.ManagedFields, b.ManagedFields = nil, nil
	a.Status.LastUpdated, b.Status.LastUpdated = nil, nil
	return equality.Semantic.DeepEqual(a, b)
}

// observeAsked notes what has become of a request: once the node's state has changed, the only one was carried out. If
// it was sent several times, the others may still be.
func observeAsked(status *metal3.BareMetalHostStatus) {
	asked, node := status.Record.Asked, NodeOf(status)
	if asked == nil {
		return
	}
	carriedOut := string(node.ProvisionState) != asked.ProvisionState || hasStateChanged(asked.StateChangedAt, node)
	if asked.Target == string(ironic.TargetDeleted) {
		carriedOut = carriedOut && !goesOn(node.ProvisionState)
	}
	if asked.Target == string(ironic.TargetActive) {
		carriedOut = carriedOut && (node.ProvisionState.IsDeployed() || isDeploymentBegun(node.ProvisionState)) // else it was made manageable
		if carriedOut && status.Record.Deployment == nil && node.InstanceUUID == asked.InstanceUUID {
			status.Record.Deployment = deploymentOn(node) // it has begun late, and is this host's to be undone
		}
	}
	if asked.NodeUUID != node.UUID || carriedOut && asked.Times <= 1 {
		status.Record.Asked = nil
	}
}

// goesOn reports whether a node in this state shows nothing of a request to undeploy it: a deployment or a service that is not ended goes
// from one of these states to the other.
func goesOn(state ironic.ProvisionState) bool {
	switch state {
	case ironic.Deleting, ironic.Error:
		return false
	}
	return state.IsDeployed() || isDeploymentBegun(state)
}

// mayStillCome reports whether Ironic may still carry out one of the requests for the targets, and how long that is to be
// waited for.
func (s Situation) mayStillCome(targets ...ironic.ProvisionTarget) (left time.Duration, may bool) {
	asked := s.Host.Status.Record.Asked
	if asked == nil || asked.NodeUUID != s.node.UUID || s.AskedInVain && asked.Times <= 1 { // only the last of several was refused
		return 0, false
	}
	if !slices.Contains(targets, ironic.ProvisionTarget(asked.Target)) {
		return 0, false
	}
	left = metal3.AskedLimit - s.AskedKnownFor
	return max(left, time.Second), left > 0
}

// anyMayStillCome is mayStillCome for whatever was asked for. There is a record of one request: another kind, which what is recorded does not
// make unsafe, would take its place, and what waits for the former one later would not wait.
func (s Situation) anyMayStillCome() (left time.Duration, may bool) {
	return s.mayStillCome(ironic.TargetActive, ironic.TargetRebuild, ironic.TargetDeleted, ironic.TargetClean, ironic.TargetService)
}

// deploymentMayStillCome reports whether Ironic may still carry out a request for a deployment, and how long that is to be waited for.
// Such a request has the config drive of its attempt with it, but deploys the image that the node names when it is carried out.
func (s Situation) deploymentMayStillCome() (left time.Duration, may bool) {
	return s.mayStillCome(ironic.TargetActive)
}

// forgetting returns a step, or the one that forgets a request before it: one that counts as lost or, when there is nothing else to do
// or the node goes, one of which this process knows that it does not come later. A step that is taken while Ironic is away does not
// wait for that, because a request is only forgotten in view of the node.
func forgetting(s Situation, step Step) Step {
	record, mayForget := &s.Host.Status.Record, step.Do == Wait && step.After == 0 || step.Do == DeleteNode
	if step.Do == Hold || NeedsNoNode(step) {
		return step
	}
	if asked := record.Asked; asked != nil && (s.AskedKnownFor >= metal3.AskedLimit || mayForget && s.AskedInVain && asked.Times <= 1) {
		return Step{Do: ForgetLost, Target: ironic.ProvisionTarget(asked.Target)}
	}
	if power := record.AskedPower; power != nil && (s.AskedPowerKnownFor >= metal3.AskedLimit || mayForget && s.PowerAnswered && power.Times <= 1) &&
		!(isReboot(power) && s.node != nil && isSwitching(s.node)) { // whether a reboot has failed is known when it has ended
		return Step{Do: ForgetLost, Power: ironic.PowerTarget(power.Target)}
	}
	if record.PowerOns != nil && s.PowerOnsKnownFor >= metal3.AskedLimit {
		return Step{Do: ForgetLost, Power: ironic.TargetPowerOn}
	}
	if left := s.untilLost(); step.Do == Wait && left > 0 && (step.After == 0 || left < step.After) {
		step.After = left
	}
	return step
}

// untilLost returns after what time the next of the recorded requests counts as lost; 0 if there is none.
func (s Situation) untilLost() (left time.Duration) {
	record := &s.Host.Status.Record
	wait := func(isRecorded bool, knownFor time.Duration) {
		if until := metal3.AskedLimit - knownFor; isRecorded && (left == 0 || until < left) {
			left = until
		}
	}
	wait(record.Asked != nil, s.AskedKnownFor)
	wait(record.AskedPower != nil, s.AskedPowerKnownFor)
	wait(record.PowerOns != nil, s.PowerOnsKnownFor)
	return left
}

// ForgetLostRequest removes the request from a host's record that a step ForgetLost is about.
func ForgetLostRequest(host *metal3.BareMetalHost, step Step, now time.Time) {
	switch record := &host.Status.Record; {
	case step.Target != "":
		record.Asked = nil
	case step.Power == ironic.TargetPowerOn:
		record.PowerOns = nil
	default:
		record.AskedPower = nil
	}
	ShowPower(host, &host.Status, now)
}

// isLateDeployment reports whether a deployment of this host's has begun after the host had become available, because
// Ironic was slow to carry out the request. What a person has confirmed is none: it is what the host is to run.
func isLateDeployment(host *metal3.BareMetalHost, node *Node) bool {
	d := host.Status.Record.Deployment
	return d != nil && !isDeploymentConfirmed(host, node) && d.InstanceUUID != "" && d.NodeUUID == node.UUID && d.InstanceUUID == node.InstanceUUID && (node.ProvisionState.IsDeployed() || isDeploymentBegun(node.ProvisionState))
}
