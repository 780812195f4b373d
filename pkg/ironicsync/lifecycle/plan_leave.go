package lifecycle

import (
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
)

// abandonAfter is how many errors in a row make a deletion give up undeploying
// or switching off: the host goes all the same.
const abandonAfter = 3

func IsDetached(host *metal3.BareMetalHost) bool {
	return host.Status.OperationalStatus == metal3.OperationalStatusDetached
}

// nextOfDetached takes a host out of Ironic whose annotation asks for that, and
// brings it back when the annotation goes. Its state stays as it is all the time.
func nextOfDetached(s Situation) (Step, bool) {
	host, node := s.Host, s.Node
	value, wanted := host.Annotations[metal3.DetachedAnnotation]
	if !wanted {
		calledOff := host.Status.ErrorType == metal3.DetachError && (node == nil || !wasLeaving(host, node))
		if IsDetached(host) || calledOff {
			return Step{Do: Attach}, true
		}
		return Step{}, false
	}
	args, _ := metal3.ParseDetachedAnnotation(value) // one that cannot be read is a plain detach
	switch state := host.Status.Provisioning.State; {
	case host.Status.Provisioning.ID == "" && node == nil && !IsDetached(host):
		// Created with the annotation, from the YAML of a detached host for instance:
		// nothing is asked of Ironic, or of the machine, before it is attached.
		return Step{Do: Detach}, true
	case state == metal3.StateProvisioned, state == metal3.StateExternallyProvisioned, state == metal3.StateAvailable, state == metal3.StateReady:
	case IsDetached(host):
		return Step{Do: Wait}, true
	default:
		if !args.Force {
			return Step{}, false // when it has come so far
		}
	}
	switch {
	case IsDetached(host):
		return Step{Do: Wait}, true
	case node == nil:
		return Step{Do: Detach}, true
	}
	return leaveIronic(s), true
}

// leaveIronic is the way of a node out of Ironic, from any state, as it is.
func leaveIronic(s Situation) Step {
	host, node := s.Host, s.Node
	deleteNode := s.retryDetach(Step{Do: DeleteNode, Error: metal3.DetachError})
	if node.Reservation != "" {
		return Step{Do: Wait}
	}
	switch node.ProvisionState {
	case ironic.InspectWait, ironic.CleanWait, ironic.CleanHold, ironic.DeployHold, ironic.ServiceWait, ironic.ServiceHold:
		return provision(ironic.TargetAbort, metal3.DetachError)
	case ironic.DeployWait, ironic.RescueWait:
		return deleteNode // abort does not exist or is too new
	}
	if node.ProvisionState.IsInTransit() && !isForgotten(host, node) {
		return Step{Do: Wait}
	}
	return deleteNode
}

// retryDetach is step, or the wait for it where it is what failed before.
func (s Situation) retryDetach(step Step) Step {
	if s.Host.Status.ErrorType != metal3.DetachError {
		return step
	}
	return s.retry(step, true)
}

// LeavingReason is the reason of the maintenance in which a node of the host leaves
// Ironic.
func LeavingReason(host *metal3.BareMetalHost) string {
	return "BareMetalHost " + host.Namespace + "/" + host.Name + " leaves Ironic"
}

// wasLeaving tells whether the node is in that maintenance still. If the host stays,
// it has to end: Ironic does nothing for such a node, and its ramdisks wait in vain.
func wasLeaving(host *metal3.BareMetalHost, node *ironic.Node) bool {
	return node.Maintenance && node.Fault == "" && node.MaintenanceReason == LeavingReason(host)
}

// nextOfDeleted deprovisions what we have provisioned, switches the machine off,
// takes the node out of Ironic and then lets the host go.
func nextOfDeleted(s Situation) Step {
	host, node := s.Host, s.Node
	if !hasFinalizer(host) {
		return Step{Do: Wait} // somebody else's finalizer holds it
	}
	if value, wanted := host.Annotations[metal3.DetachedAnnotation]; wanted {
		args, _ := metal3.ParseDetachedAnnotation(value)
		switch {
		case args.DeleteAction == metal3.DetachedDeleteActionDelay:
			return Step{Do: Wait} // until it is attached again
		case node == nil:
			return Step{Do: Release}
		}
		return leaveIronic(s)
	}
	if IsDetached(host) {
		return Step{Do: Attach} // to be deprovisioned
	}
	if node != nil && isForgotten(host, node) {
		return leaveIronic(s)
	}
	state := host.Status.Provisioning.State
	history := &host.Status.OperationHistory
	ours := state == metal3.StateProvisioned && deploy.Deployed(host) || // what was taken over with nothing in the spec is nobody's to wipe
		state == metal3.StateProvisioning && isUnderWay(history.Provision) && !isBeforeDeployment(node) ||
		state == metal3.StateDeprovisioning && isUnderWay(history.Deprovision)
	giveUp := host.Status.ErrorCount >= abandonAfter
	if giveUp && ours && !isDeletionBegun(host) {
		return setState(metal3.StateDeprovisioning) // the errors are older than the deletion
	}
	if host.Status.Provisioning.ID == "" || node == nil {
		if ours && !giveUp {
			// Ironic has lost it. It comes back to be cleaned, if its BMC can be had.
			if _, failed := registrable(s); !failed {
				step, _ := nextToRegister(s)
				return step
			}
		}
		return Step{Do: Release}
	}
	if node.Reservation != "" {
		return Step{Do: Wait}
	}
	if state == metal3.StateDeleting {
		return leaveIronic(s)
	}
	if wasLeaving(host, node) {
		return s.retryDetach(Step{Do: ClearMaintenance, Error: metal3.DetachError})
	}
	switch state {
	case metal3.StatePoweringOffBeforeDelete:
		return powerOffBeforeDelete(s, giveUp)
	case metal3.StateNone, metal3.StateUnmanaged, metal3.StateRegistering:
		return setState(metal3.StateDeleting)
	}
	switch {
	case node.ProvisionState == ironic.Verifying:
		return Step{Do: Wait}
	case node.ProvisionState == ironic.Enroll && (giveUp || s.SecretVersion == "" || hasFailed(host) && !ours):
		return setState(metal3.StateDeleting) // its BMC is out of reach
	case node.ProvisionState == ironic.Enroll:
		return s.retry(Step{Do: Register}, hasFailed(host))
	}
	switch {
	case ours && state != metal3.StateDeprovisioning:
		return setState(metal3.StateDeprovisioning)
	case ours:
		switch {
		case node.ProvisionState == ironic.Available, giveUp && !isBeingCleaned(node):
			return setState(metal3.StatePoweringOffBeforeDelete)
		case isToRegister(s):
			return Step{Do: Register, Retry: isRefused(host)}
		case isStepFault(node):
			return s.retry(Step{Do: ClearMaintenance, Error: metal3.ProvisioningError}, true)
		}
		return nextOfDeprovisioning(s)
	}
	switch node.ProvisionState {
	case ironic.InspectWait, ironic.CleanWait, ironic.CleanHold, ironic.DeployHold, ironic.ServiceWait, ironic.ServiceHold:
		return provision(ironic.TargetAbort, metal3.PreparationError)
	}
	if node.ProvisionState.IsInTransit() {
		return Step{Do: Wait}
	}
	if isDeployed(node.ProvisionState) && state != metal3.StateExternallyProvisioned {
		return setState(metal3.StateDeleting) // somebody else has deployed it, and it goes on running
	}
	return setState(metal3.StatePoweringOffBeforeDelete)
}

// isBeforeDeployment tells whether the node of a host that is being provisioned is still
// being cleaned, or has just been, so that nothing was written that would have to go.
func isBeforeDeployment(node *ironic.Node) bool {
	if node == nil {
		return false
	}
	switch node.ProvisionState {
	case ironic.Available, ironic.Cleaning, ironic.CleanWait, ironic.CleanFail, ironic.CleanHold:
		return true
	}
	return false
}

// isDeletionBegun tells whether the host was in deprovisioning for the sake of its
// deletion before, so that its errors are those of the deletion.
func isDeletionBegun(host *metal3.BareMetalHost) bool {
	return host.Status.Provisioning.State == metal3.StateDeprovisioning && !host.Status.OperationHistory.Deprovision.Start.Before(host.DeletionTimestamp)
}

// isBeingCleaned tells whether undeploying goes on, whatever has failed before.
func isBeingCleaned(node *ironic.Node) bool {
	switch node.ProvisionState {
	case ironic.Deleting, ironic.Cleaning, ironic.CleanWait:
		return true
	}
	return false
}

// isToRegister tells whether Ironic is told what it needs for the rest of a deletion:
// a password that was mended, or that nothing is to be cleaned. No deletion waits for
// that: it goes on without a Secret, and while a refusal is left alone.
func isToRegister(s Situation) bool {
	if _, failed := registrable(s); failed || isRefused(s.Host) && s.Hold > 0 {
		return false
	}
	return !isRegistered(s) && isUpdatable(s.Node)
}

func powerOffBeforeDelete(s Situation, giveUp bool) Step {
	host, node := s.Host, s.Node
	toTell := s
	toTell.Node = &ironic.Node{UUID: node.UUID, ParentNode: node.ParentNode, ProvisionState: ironic.Active} // what an idle node is due to be told is for its ramdisk, and none will boot
	switch {
	case node.TargetPowerState != "":
		return Step{Do: Wait}
	case node.PowerState != ironic.PowerOn, giveUp, host.Spec.DisablePowerOff, node.ProvisionState.IsInTransit(), node.Maintenance && !isStepFault(node):
		return setState(metal3.StateDeleting)
	case isToRegister(toTell):
		return Step{Do: Register, Retry: isRefused(host)}
	}
	// There is nothing left on it that would have to shut down.
	return Step{Do: SwitchPower, Power: ironic.TargetPowerOff, Error: metal3.PowerManagementError, Retry: hasFailed(host)}
}
