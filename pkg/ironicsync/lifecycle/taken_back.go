// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
)

// A deprovisioning can be taken back, by having the spec ask again for what the machine runs, until Ironic has begun to undeploy the
// node, or may have. A node that Ironic has lost meanwhile, or that was detached, is created again as manageable, and so is one that was
// undeployed and could not be cleaned. Cleaning the former would erase what the spec asks for; adopting the latter would show as running
// what was erased. So what happens to the node is noted in the record's deployment, as for hosts that run something (see gone.go).

// isTakenBack reports whether a host that was to be undeployed is to run what it ran, and nobody has begun to end that. What may
// have been ended, while Ironic lost the node, is taken back, too: the host is then held, because nobody knows what its disks have.
func (s Situation) isTakenBack() bool {
	host, d := s.Host, s.Host.Status.Record.Deployment
	switch {
	case !host.DeletionTimestamp.IsZero(), !deploy.Deployed(host), deploy.MustDeprovision(host), s.isLostSinceBackup():
		return false
	case s.node.ProvisionState == ironic.Active:
		_, begun := s.mayStillCome(ironic.TargetDeleted)
		hasRun := d == nil || d.Gone == nil || d.ActiveSince != nil
		return !begun && hasRun
	case s.node.ProvisionState == ironic.Manageable:
		return d != nil && d.NodeUUID == s.node.UUID && d.MayAdopt && (d.Gone == nil || isUnknownEnd(d.Gone))
	}
	return false
}

// nextOfUnended returns the next step for a host that is to be undeployed, and whose machine may run on although Ironic has the node as one
// that runs nothing: it has lost the node since, or its database was restored. The verb provide ends what runs only where Ironic cleans;
// where it does not, the power is cut, as Ironic does when it undeploys. The second result is false if that is not so, or has been done.
func (s Situation) nextOfUnended() (Step, bool) {
	host, node, d := s.Host, s.node, s.Host.Status.Record.Deployment
	switch {
	case d == nil || !d.MayAdopt || node.ProvisionState != ironic.Manageable && node.ProvisionState != ironic.Available:
		return Step{}, false
	case host.Spec.AutomatedCleaningMode != metal3.CleaningModeDisabled:
		return toManageable(s), s.isToBeCleanedStill()
	}
	if _, off := powerOf(node); off || host.Spec.DisablePowerOff {
		return Step{}, false
	}
	if node.isBeingSwitched() {
		return Step{Do: Wait}, true
	}
	return s.retry(Step{Do: SwitchPower, Power: ironic.TargetPowerOff, Error: metal3.PowerManagementError}, hasFailed(host)), true
}

// isToBeCleanedStill reports whether the node of a host that is to be undeployed is available although it was neither undeployed nor
// cleaned: Ironic's database was restored. One that is made available now is cleaned before.
func (s Situation) isToBeCleanedStill() bool {
	d := s.Host.Status.Record.Deployment
	return s.node.ProvisionState == ironic.Available && s.Host.Spec.AutomatedCleaningMode != metal3.CleaningModeDisabled &&
		d != nil && d.MayAdopt && (d.Gone == nil || isUnknownEnd(d.Gone))
}

// isUnknownEnd reports whether a deployment may have ended while its node was lost.
func isUnknownEnd(gone *metal3.GoneDeployment) bool { return gone != nil && gone.ProvisionState == "" }

// neverRan marks what a host is undeployed of that it has never run: an attempt that has failed, or that nobody wants any more. Its
// record has what the attempt was for, and that is no reason to keep what has become of it. A rebuild is of what the host has run.
func (t transition) neverRan() {
	if d := t.status.Record.Deployment; d != nil && d.Gone == nil && !t.left.RunsSomething() && !t.rebuilding && t.node != nil {
		d.Gone = &metal3.GoneDeployment{Since: t.now, ProvisionState: string(t.node.ProvisionState)}
	}
}

// observeUndeploying notes that Ironic has begun to undeploy the node of a host that is deprovisioning, or has lost it before that. It
// goes by what is recorded of a request, and so comes before observeAsked. A state that is older than the one in which the node was active
// tells nothing, as in observeGone: Ironic has the node as it was before the deployment.
func observeUndeploying(status *metal3.BareMetalHostStatus, before *metal3.IronicStatus, seen *ironic.Node, now time.Time) {
	d, state := status.Record.Deployment, NodeOf(status).ProvisionState
	switch {
	case d == nil || status.Provisioning.State != metal3.StateDeprovisioning:
	case state == ironic.Active:
		d.MayAdopt = false
		if d.Gone != nil && isRescue(ironic.ProvisionState(d.Gone.ProvisionState)) {
			d.Gone = nil
		}
	case state == ironic.Enroll, state == ironic.Verifying: // no other state leads back to these
		noteLoss(status, "", now)
	case isOlder(seen, d.ActiveSince) && !isSeenToEnd(before, state) && (d.Gone == nil || isUnknownEnd(d.Gone)):
		if !state.IsInTransit() {
			noteLoss(status, "", now)
		}
	default:
		noteUndeploying(d, state, now)
	}
}

// noteUndeploying notes that the node of a deployment that is to end was seen in a state. One that is manageable and was not made again
// has been cleaned before, which nobody has seen.
func noteUndeploying(d *metal3.Deployment, state ironic.ProvisionState, now time.Time) {
	isWiped := isUndeployedState(state) || state == ironic.Error || state == ironic.Manageable && !d.MayAdopt
	if isWiped && (d.Gone == nil || isUnknownEnd(d.Gone)) {
		d.Gone = &metal3.GoneDeployment{Since: WholeSeconds(now), ProvisionState: string(state)}
	}
}

// noteLoss notes that Ironic no longer has the host's node, which was last seen in the state seen. The node is created again with the same
// UUID, and its state then says nothing of a request that was on its way. One that ends the deployment may have been carried out
// before the loss.
func noteLoss(status *metal3.BareMetalHostStatus, seen ironic.ProvisionState, now time.Time) {
	d, asked := status.Record.Deployment, status.Record.Asked
	if asked != nil {
		asked.Times = severalTimes
	}
	if d == nil {
		return
	}
	if status.Provisioning.State == metal3.StateDeprovisioning {
		noteUndeploying(d, seen, now)
		if d.Gone == nil && asked != nil && asked.Target == string(ironic.TargetDeleted) {
			d.Gone = &metal3.GoneDeployment{Since: WholeSeconds(now)}
		}
	}
	d.MayAdopt = true
}

// lastSeen is the state in which the host's node was seen last; empty if it was not.
func lastSeen(status *metal3.BareMetalHostStatus) ironic.ProvisionState {
	if status.Ironic == nil {
		return ""
	}
	return ironic.ProvisionState(status.Ironic.ProvisionState)
}
