// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
)

// A host that runs something has an active node, except while Ironic serves it for this server. Any other state
// tells that somebody has undeployed, rebuilt, rescued or redeployed the node past this server, so that the
// machine may not run any more what the host's status says. Adopting the node again would make it look as if
// it did. Only where Ironic has lost the node is it known that nobody meant to undo the deployment: the node
// is missing, or has just been created.

// observeGone notes that the deployment of a host may be gone, and since when. A state that is older than the one in
// which the node was active is no deed of anybody: Ironic's database was restored, or the reader of it that has
// answered lags behind.
func observeGone(status *metal3.BareMetalHostStatus, host *metal3.BareMetalHost, before *metal3.IronicStatus, seen *ironic.Node, now time.Time) {
	node := NodeOf(status)
	d, state := status.Record.Deployment, node.ProvisionState
	switch {
	case !status.Provisioning.State.RunsSomething():
	case d == nil && isUndeployedState(state): // the host has come with its status, and this server has not seen the node active
		d = deploymentFound(host, node)
		d.InstanceUUID = "" // if there is still one, it is of what has ended
		status.Record.Deployment = d
		d.Gone = &metal3.GoneDeployment{Since: WholeSeconds(now), ProvisionState: string(state)}
	case d == nil:
	case state == ironic.Active:
		d.MayAdopt = false
		if d.InstanceUUID != "" || d.ActiveSince == nil { // which is all that tells one without an instance_uuid from a later one
			d.ActiveSince = node.StateChangedAt
		}
		if d.Gone != nil && isRescue(ironic.ProvisionState(d.Gone.ProvisionState)) {
			d.Gone = nil
		}
	case isServicing(state), state == ironic.ServiceFail:
	case state == ironic.Enroll, state == ironic.Verifying:
		d.MayAdopt = true // Ironic had lost it: no other state leads back to these
	case d.Gone == nil && isOlder(seen, d.ActiveSince) && !isSeenToEnd(before, state):
		// The clock of a conductor that has just begun to undeploy the node may lag.
		d.MayAdopt = !state.IsInTransit()
	case d.MayAdopt && !(isOnWayToAdoption(before) && isTakenFromIt(state)):
	case d.Gone == nil, isRescue(ironic.ProvisionState(d.Gone.ProvisionState)) && !isRescue(state):
		d.MayAdopt, d.Gone = false, &metal3.GoneDeployment{Since: WholeSeconds(now), ProvisionState: string(state)}
	}
}

// isUndeployedState reports whether a node in this state has been undeployed, or is being undeployed. A node that was only just created
// is in none of these states.
func isUndeployedState(state ironic.ProvisionState) bool {
	switch state {
	case ironic.Deleting, ironic.Cleaning, ironic.CleanWait, ironic.CleanHold, ironic.CleanFail, ironic.Available:
		return true
	}
	return false
}

// clockSetBack is by how much Ironic's clock is behind a time that it has told before, if it was set back. Those of its conductors and
// of its API differ by less.
const clockSetBack = time.Minute

// isOlder reports whether the state of a node is older than the time since which it was active. If Ironic's clock has been set back,
// that does not tell.
func isOlder(seen *ironic.Node, activeSince *metav1.MicroTime) bool {
	if activeSince == nil || seen.ProvisionUpdatedAt == nil || !seen.ProvisionUpdatedAt.Before(activeSince.Time) {
		return false
	}
	return seen.AnsweredAt.IsZero() || seen.AnsweredAt.After(activeSince.Add(-clockSetBack))
}

// isSeenToEnd reports whether a node has come into a state out of one in which Ironic was undeploying it, whatever the times say.
func isSeenToEnd(before *metal3.IronicStatus, state ironic.ProvisionState) bool {
	if before == nil || state.IsInTransit() {
		return false
	}
	was := ironic.ProvisionState(before.ProvisionState)
	return was.IsInTransit() && isUndeployedState(was)
}

// isOnWayToAdoption reports whether a node, as it was seen before, is one that Ironic had lost and that is to be adopted. So is one that
// was missing until now.
func isOnWayToAdoption(before *metal3.IronicStatus) bool {
	if before == nil {
		return true
	}
	switch ironic.ProvisionState(before.ProvisionState) {
	case ironic.Enroll, ironic.Verifying, ironic.Manageable, ironic.Adopting, ironic.AdoptFail:
		return true
	}
	return false
}

// isTakenFromIt reports whether another user of Ironic has brought a node that was on its way to adoption into this state, perhaps from active,
// which was not seen: this server asks only for the adoption. An inspection changes nothing.
func isTakenFromIt(state ironic.ProvisionState) bool {
	switch state {
	case ironic.Manageable, ironic.Adopting, ironic.AdoptFail, ironic.Inspecting, ironic.InspectWait, ironic.InspectFail:
		return false
	}
	return true
}

func isRescue(state ironic.ProvisionState) bool {
	switch state {
	case ironic.Rescue, ironic.Rescuing, ironic.RescueWait, ironic.RescueFail, ironic.Unrescuing, ironic.UnrescueFail:
		return true
	}
	return false
}

// goneDeployment returns what was noticed of a host that is to run something; nil if nothing was.
func goneDeployment(status *metal3.BareMetalHostStatus) *metal3.GoneDeployment {
	if status.Record.Deployment == nil || !status.Provisioning.State.RunsSomething() {
		return nil
	}
	return status.Record.Deployment.Gone
}

// isGone reports whether the host's deployment is gone and its spec still asks for it. If the spec asks for its end,
// or the host is deleted, a person has decided.
func isGone(host *metal3.BareMetalHost) bool {
	if goneDeployment(&host.Status) == nil || !host.DeletionTimestamp.IsZero() {
		return false
	}
	switch {
	case host.Status.Provisioning.State == metal3.StateExternallyProvisioned:
		return host.Spec.ExternallyProvisioned || deploy.WantsImage(&host.Spec)
	case !deploy.Deployed(host) && host.Status.Record.Takeover == nil:
		return !isUndeployed(host) // that the spec asks for nothing is not a decision about what nobody has named
	}
	return !deploy.MustDeprovision(host)
}

// isUndeployed reports whether somebody has undeployed the node of a provisioned host of which nobody has named what it runs. Nothing
// is left of that, and the host becomes available.
func isUndeployed(host *metal3.BareMetalHost) bool {
	status := &host.Status
	return status.Provisioning.State == metal3.StateProvisioned && goneDeployment(status) != nil && !deploy.Deployed(host) &&
		status.Ironic != nil && status.Ironic.ProvisionState == string(ironic.Available)
}

// isSeenUndeployed reports whether the node of a host that runs something was seen while it was being undeployed, or after that.
func isSeenUndeployed(host *metal3.BareMetalHost) bool {
	gone := goneDeployment(&host.Status)
	return gone != nil && isUndeployedState(ironic.ProvisionState(gone.ProvisionState))
}

// isFencedAllTheSame reports whether the machine of a host whose deployment may be gone is to be off, because a client that watches the
// cluster's nodes wants to be sure that nothing of theirs runs on it any more: whatever runs, the machine is this host's, and power
// that is cut erases nothing. What another user of Ironic has deployed is left alone, and so is a rescue, and whatever Ironic is at work on.
func isFencedAllTheSame(s Situation, found *contradiction) bool {
	host, node := s.Host, s.node
	return found.reason == metal3.DeploymentGoneReason && !metal3.IsPaused(host) && rebootRequestOf(host).stayOff && !isUnknown(s) && shared(s) == nil &&
		isDeploymentOf(host, node) && !isReserved(host, node) && !node.IsLocked() && !node.Maintenance &&
		!node.ProvisionState.IsInTransit() && !isRescue(node.ProvisionState)
}

// fence switches the machine off. That it is switched on again waits for what it is held for.
func fence(s Situation) Step {
	step := nextOfPower(s)
	if step.Do == SwitchPower && (step.Power == ironic.TargetPowerOff || step.Power == ironic.TargetSoftPowerOff) {
		return step
	}
	return Step{Do: Wait, After: step.After}
}

// goneMessage says what was noticed, and what a person can do.
func goneMessage(status *metal3.BareMetalHostStatus, gone *metal3.GoneDeployment) string {
	what := "undeployed, and may have been cleaned"
	switch state := ironic.ProvisionState(gone.ProvisionState); {
	case isRescue(state):
		what = "rescued, and does not run what was deployed until it is unrescued"
	case state == ironic.Deploying, state == ironic.DeployWait, state == ironic.DeployHold, state == ironic.DeployFail:
		what = "deployed or rebuilt by another user of Ironic"
	}
	since := gone.Since.UTC().Format(time.RFC3339)
	found := fmt.Sprintf("Node %s was found in the state %q at %s, which this server has not requested: it was %s", status.Provisioning.ID, gone.ProvisionState, since, what)
	if gone.ProvisionState == "" {
		found = fmt.Sprintf("By %s, while the image was being written again or the node was to be undeployed, Ironic had lost node %s or somebody had undeployed it: what is on its disks is not known", since, status.Provisioning.ID)
	}
	message := found + ". It is not adopted, cleaned or deployed. If it runs this host's deployment all the same, confirm the node with the subresource takeover"
	switch saved := &status.Provisioning; {
	case saved.State == metal3.StateExternallyProvisioned:
		return message
	case saved.Image.URL == "" && saved.CustomDeploy == nil:
		return message + "; to give it up, undeploy and clean the node in Ironic, which erases its disks"
	}
	return message + "; to have the image written over what is on the disk, use the subresource rebuild; to have it undeployed and its disks cleaned, remove the image from the spec"
}
