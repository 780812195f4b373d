// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
)

// abandonAfter is the number of errors of the machine's in a row after which a deletion gives up undeploying or
// switching off the machine, and continues without.
const abandonAfter = 3

// mayGiveUp reports whether the machine has failed so often that a deletion continues without undeploying it or switching it off. What
// has nothing to do with it, such as that Ironic does not answer, is waited for: the machine may run something. (Whoever may write
// a status can lower errorCount, to have the errors counted from 0, but not raise the other one.)
func mayGiveUp(status *metal3.BareMetalHostStatus) bool {
	return min(status.ErrorCount, status.Record.MachineErrors) >= abandonAfter
}

// nextOfDetached takes a host out of Ironic if its annotation asks for that, and back in when
// the annotation is removed. The host's provisioning state does not change. The second result
// is false if neither is to be done.
func nextOfDetached(s Situation) (Step, bool) {
	host, node := s.Host, s.node
	value, wanted := host.Annotations[metal3.DetachedAnnotation]
	if !wanted {
		calledOff := ErrorType(&host.Status) == metal3.DetachError && (node == nil || !isInLeavingMaintenance(host, node))
		if host.IsDetached() || calledOff {
			return Step{Do: Attach}, true
		}
		return Step{}, false
	}
	args, _ := metal3.ParseDetachedAnnotation(value) // a malformed value is treated like an empty one
	switch state := host.Status.Provisioning.State; {
	case host.Status.Provisioning.ID == "" && node == nil && !host.IsDetached():
		// The host was created with the annotation, for example from the YAML of a detached
		// host. Ironic is not asked for anything until the host is attached.
		return Step{Do: Detach}, true
	case state == metal3.StateProvisioned, state == metal3.StateExternallyProvisioned, state == metal3.StateAvailable, state == metal3.StateReady:
	case host.IsDetached():
		return Step{Do: Wait}, true
	default:
		if !args.Force {
			return Step{}, false // it is detached when it has reached one of the states above
		}
	}
	switch {
	case host.IsDetached():
		return Step{Do: Wait}, true
	case node == nil:
		return Step{Do: Detach}, true
	case !args.Force && isInServiceRamdisk(host, node):
		return Step{}, false // its machine would stay there, and be adopted later as running
	}
	return leaveIronic(s), true
}

// isInServiceRamdisk reports whether the machine of a host that runs something runs the ramdisk of a service, which Ironic, or the next step,
// ends. Whether one that another client of Ironic has asked for, and that has failed, ever ends is not known.
func isInServiceRamdisk(host *metal3.BareMetalHost, node *Node) bool {
	return !node.Forgotten && (isServicing(node.ProvisionState) || node.ProvisionState == ironic.ServiceFail && openService(host, node) != nil)
}

// leaveIronic removes a node from Ironic in any state, without undeploying, cleaning or switching
// off the machine.
func leaveIronic(s Situation) Step {
	host, node := s.Host, s.node
	deleteNode := s.retryDetach(Step{Do: DeleteNode, Error: metal3.DetachError})
	if node.IsLocked() {
		return Step{Do: Wait}
	}
	switch node.ProvisionState {
	case ironic.InspectWait, ironic.CleanWait, ironic.CleanHold, ironic.DeployHold, ironic.ServiceWait, ironic.ServiceHold:
		return provision(ironic.TargetAbort, metal3.DetachError)
	case ironic.DeployWait, ironic.RescueWait:
		return deleteNode // Ironic does not support abort in this state, or only since recently
	}
	if node.ProvisionState.IsInTransit() && (!node.Forgotten || isInMaintenance(node, LeavingReason(host))) {
		return Step{Do: Wait}
	}
	return deleteNode
}

// retryDetach returns step. If the last error is one of detaching, it returns a wait while the
// back-off lasts.
func (s Situation) retryDetach(step Step) Step {
	if ErrorType(&s.Host.Status) != metal3.DetachError {
		return step
	}
	return s.retry(step, true)
}

// LeavingReason is the maintenance_reason of the host's node while it is being removed from
// Ironic.
func LeavingReason(host *metal3.BareMetalHost) string {
	return "BareMetalHost " + host.Namespace + "/" + host.Name + " leaves Ironic"
}

// isInLeavingMaintenance reports whether the node is still in the maintenance that LeavingReason describes.
// If the host is not to leave Ironic any more, that maintenance must be ended, because Ironic
// neither works on such a node nor answers its ramdisk.
func isInLeavingMaintenance(host *metal3.BareMetalHost, node *Node) bool {
	return node.Maintenance && node.Fault == "" && node.MaintenanceReason == LeavingReason(host)
}

// nextOfDeleted returns the next step for a host that is being deleted: what the server has
// provisioned is deprovisioned, the machine is switched off, the node is removed from Ironic,
// and the finalizers are removed.
func nextOfDeleted(s Situation) Step {
	host, node := s.Host, s.node
	switch {
	case !hasFinalizer(host):
		return Step{Do: Wait} // only finalizers of others are left
	case hasAnnotation(host, metal3.DetachedAnnotation):
		return nextOfDeletedDetached(s)
	case host.IsDetached():
		return Step{Do: Attach} // so that it can be deprovisioned
	case node != nil && isStuck(host, node):
		return leaveIronic(s)
	}
	state, ours := host.Status.Provisioning.State, mustUndeploy(host, node)
	giveUp := mayGiveUp(&host.Status)
	switch {
	case giveUp && ours && !isDeletionBegun(host):
		return setState(metal3.StateDeprovisioning) // the errors occurred before the deletion and do not count
	case host.Status.Provisioning.ID == "" || node == nil:
		return nextOfDeletedWithoutNode(s, ours && !giveUp)
	case node.IsLocked():
		return Step{Do: Wait}
	}
	if left, may := s.deploymentMayStillCome(); may && node.ProvisionState == ironic.Available {
		return Step{Do: Wait, After: left} // it would run, with its user data, on a machine that nobody knows of
	}
	switch {
	case state == metal3.StateDeleting:
		return leaveIronic(s)
	case isInLeavingMaintenance(host, node):
		return s.retryDetach(Step{Do: ClearMaintenance, Error: metal3.DetachError})
	case state == metal3.StatePoweringOffBeforeDelete:
		return powerOffBeforeDelete(s, giveUp)
	case state == metal3.StateNone, state == metal3.StateUnmanaged, state == metal3.StateRegistering:
		return setState(metal3.StateDeleting)
	case node.ProvisionState == ironic.Verifying:
		return Step{Do: Wait}
	case node.ProvisionState == ironic.Enroll && (giveUp || hasFailed(host) && !ours):
		return setState(metal3.StateDeleting) // its BMC cannot be reached
	case node.ProvisionState == ironic.Enroll && s.SecretVersion == "":
		return Step{Do: SetState, State: metal3.StateDeleting, Secret: host.Spec.BMC.CredentialsName} // nor will it be
	case node.ProvisionState == ironic.Enroll:
		return s.retry(Step{Do: Register}, hasFailed(host))
	case ours && state != metal3.StateDeprovisioning:
		return setState(metal3.StateDeprovisioning)
	case ours:
		return nextOfDeletedDeprovisioning(s, giveUp)
	}
	return nextOfDeletedIdle(s)
}

// mustUndeploy reports whether the server has to undeploy the node of a host that is being deleted. It must not if a
// deployed node was taken over although the spec has asked for nothing.
func mustUndeploy(host *metal3.BareMetalHost, node *Node) bool {
	history := &host.Status.OperationHistory
	switch host.Status.Provisioning.State {
	case metal3.StateProvisioned:
		return deploy.Deployed(host)
	case metal3.StateProvisioning:
		return isUnderWay(history.Provision) && !isBeforeDeployment(host, node) || node != nil && isLateDeployment(host, node)
	case metal3.StateDeprovisioning:
		return isUnderWay(history.Deprovision)
	case metal3.StateAvailable, metal3.StateReady, metal3.StatePreparing:
		return node != nil && isLateDeployment(host, node)
	}
	return false
}

// nextOfDeletedDetached lets the machine run as it is, because the annotation detached says so.
func nextOfDeletedDetached(s Situation) Step {
	args, _ := metal3.ParseDetachedAnnotation(s.Host.Annotations[metal3.DetachedAnnotation])
	switch {
	case args.DeleteAction == metal3.DetachedDeleteActionDelay:
		return Step{Do: Wait} // until the host is attached again
	case s.node == nil:
		return Step{Do: Release}
	case !args.Force && isInServiceRamdisk(s.Host, s.node):
		if s.node.ProvisionState == ironic.ServiceFail {
			return nextOfFailedService(s)
		}
		return Step{Do: Wait, Message: servicedMeanwhile}
	}
	return leaveIronic(s)
}

// nextOfDeletedWithoutNode is for a host of which Ironic has no node. One that must be undeployed is registered again to be
// cleaned, if that is possible. If it is not because of a Secret that the watch does not show, the host goes only if there is
// none: the watch may lag, or not be permitted.
func nextOfDeletedWithoutNode(s Situation, mustUndeploy bool) Step {
	if !mustUndeploy {
		return Step{Do: Release}
	}
	if _, failed := registrationObstacle(s); failed {
		return Step{Do: Release, Secret: unseenSecret(s)}
	}
	step, _ := nextToRegister(s)
	return step
}

// unseenSecret returns the name of the Secret without which a host that has no node cannot be registered; empty if there is none.
func unseenSecret(s Situation) string {
	switch spec := &s.Host.Spec; {
	case s.SecretVersion == "":
		return spec.BMC.CredentialsName
	case s.NetworkVersion == "":
		return spec.PreprovisioningNetworkDataName
	}
	return ""
}

// nextOfDeletedDeprovisioning is for a host that is being undeployed because of its deletion.
func nextOfDeletedDeprovisioning(s Situation, giveUp bool) Step {
	switch node := s.node; {
	case node.ProvisionState == ironic.Available && !s.isToBeCleanedStill(), giveUp && !isBeingCleaned(node):
		return setState(metal3.StatePoweringOffBeforeDelete)
	case mustRegister(s):
		return Step{Do: Register, Retry: isRefused(s.Host)}
	case isStepFault(node):
		return s.clearMaintenance(metal3.ProvisioningError)
	}
	return nextOfDeprovisioning(s)
}

// nextOfDeletedIdle is for a host on whose node there is nothing to be undeployed.
func nextOfDeletedIdle(s Situation) Step {
	switch node := s.node; {
	case s.Host.Status.Provisioning.State == metal3.StateProvisioned && isServicing(node.ProvisionState) && !node.Forgotten:
		return Step{Do: Wait, Message: servicedMeanwhile} // its machine, which is left running, would stay in the ramdisk of the service
	case node.ProvisionState.IsHeld(), node.ProvisionState == ironic.InspectWait, node.ProvisionState == ironic.CleanWait, node.ProvisionState == ironic.ServiceWait:
		return provision(ironic.TargetAbort, metal3.PreparationError)
	case node.ProvisionState.IsInTransit():
		return Step{Do: Wait}
	case node.ProvisionState.IsDeployed() && s.Host.Status.Provisioning.State != metal3.StateExternallyProvisioned:
		return setState(metal3.StateDeleting) // another user of Ironic has deployed it, so it is left running
	case s.Host.Status.Provisioning.State == metal3.StateProvisioned && !isSeenUndeployed(s.Host):
		return setState(metal3.StateDeleting) // so is it if Ironic has lost the node, and has not adopted it yet
	}
	return setState(metal3.StatePoweringOffBeforeDelete)
}

// servicedMeanwhile is for the user who deletes a host whose machine is to run on.
const servicedMeanwhile = "Ironic services the machine, and the deletion waits until that has ended, because the machine would stay in the ramdisk. " +
	"To have the host go at once, detach it (" + metal3.DetachedAnnotation + `={"force":true})`

// isBeforeDeployment reports whether the deployment of a host that is being provisioned has not
// begun, because its node is to be cleaned, or was just cleaned, so that there is nothing to undeploy. A node that
// Ironic has lost meanwhile is manageable again, too, and then available, and what was written to its disks is not known.
func isBeforeDeployment(host *metal3.BareMetalHost, node *Node) bool {
	if node == nil {
		return false
	}
	switch d := host.Status.Record.Deployment; node.ProvisionState {
	case ironic.Manageable:
		return d != nil && !d.MayAdopt
	case ironic.Available:
		return d == nil || !d.MayAdopt
	case ironic.Cleaning, ironic.CleanWait, ironic.CleanFail, ironic.CleanHold:
		return true
	}
	return false
}

// isDeletionBegun reports whether the host is being deprovisioned because of its deletion, so that
// its errors are those of the deletion. Which of two times is the later one does not tell: they are by the clocks of two replicas.
func isDeletionBegun(host *metal3.BareMetalHost) bool {
	return host.Status.Provisioning.State == metal3.StateDeprovisioning && host.Status.OperationHistory.Deprovision.Start.Equal(host.DeletionTimestamp)
}

// isBeingCleaned reports whether undeploying, which includes cleaning, is under way.
func isBeingCleaned(node *Node) bool {
	switch node.ProvisionState {
	case ironic.Deleting, ironic.Cleaning, ironic.CleanWait:
		return true
	}
	return false
}

// mustRegister reports whether the changes of a spec or a Secret have to be registered for the
// rest of a deletion: for example, a corrected password, or that the node is not to be cleaned.
// It is false if the host cannot be registered, or a while after a refusal, because
// a deletion does not wait for that.
func mustRegister(s Situation) bool {
	if _, failed := registrationObstacle(s); failed || isRefused(s.Host) && (s.Hold > 0 || s.RegistrationTried) {
		return false
	}
	return !isRegistered(s) && isUpdatable(s.node)
}

func powerOffBeforeDelete(s Situation, giveUp bool) Step {
	host, node := s.Host, s.node
	// Settings that Ironic accepts only for an idle node are those of its ramdisk, which will not
	// boot any more. The state Active prevents that the node is registered because of them.
	withoutRamdisk := s
	deployed := *node
	deployed.ProvisionState = ironic.Active
	withoutRamdisk.node = &deployed
	_, off := powerOf(node)
	switch {
	case node.isBeingSwitched():
		return Step{Do: Wait}
	case off, giveUp, host.Spec.DisablePowerOff, node.ProvisionState.IsInTransit(), node.Maintenance && !isStepFault(node):
		return setState(metal3.StateDeleting)
	case mustRegister(withoutRamdisk):
		return Step{Do: Register, Retry: isRefused(host)}
	}
	// Nothing is left running on the machine that would need a soft power-off.
	return Step{Do: SwitchPower, Power: ironic.TargetPowerOff, Error: metal3.PowerManagementError, Retry: hasFailed(host)}
}
