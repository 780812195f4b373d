package ironicsync

import (
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// abandonAfter is how many errors in a row make a deletion give up undeploying
// or switching off: the host goes all the same.
const abandonAfter = 3

func isDetached(host *metal3.BareMetalHost) bool {
	return host.Status.OperationalStatus == metal3.OperationalStatusDetached
}

// nextOfDetached takes a host out of Ironic whose annotation asks for that, and
// brings it back when the annotation goes. Its state stays as it is all the time.
func nextOfDetached(s Situation) (Step, bool) {
	host, node := s.Host, s.Node
	value, wanted := host.Annotations[metal3.DetachedAnnotation]
	if !wanted {
		if isDetached(host) {
			return Step{Do: Attach}, true
		}
		return Step{}, false
	}
	args, _ := metal3.ParseDetachedAnnotation(value) // one that cannot be read is a plain detach
	switch host.Status.Provisioning.State {
	case metal3.StateProvisioned, metal3.StateExternallyProvisioned, metal3.StateAvailable, metal3.StateReady:
	default:
		if !args.Force {
			return Step{}, false // when it has come so far
		}
	}
	switch {
	case isDetached(host):
		return Step{Do: Wait}, true
	case node == nil:
		return Step{Do: Detach}, true
	}
	return leaveIronic(host, node), true
}

// leaveIronic is the way of a node out of Ironic, from any state, as it is.
func leaveIronic(host *metal3.BareMetalHost, node *ironic.Node) Step {
	if node.Reservation != "" {
		return Step{Do: Wait}
	}
	switch node.ProvisionState {
	case ironic.InspectWait, ironic.CleanWait, ironic.CleanHold, ironic.DeployHold, ironic.ServiceWait, ironic.ServiceHold:
		return provision(ironic.TargetAbort, metal3.DetachError)
	case ironic.DeployWait, ironic.RescueWait:
		return Step{Do: DeleteNode, Error: metal3.DetachError} // abort does not exist or is too new
	}
	if isInTransit(node.ProvisionState) && !isForgotten(host, node) {
		return Step{Do: Wait}
	}
	return Step{Do: DeleteNode, Error: metal3.DetachError}
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
		return leaveIronic(host, node)
	}
	if isDetached(host) {
		return Step{Do: Attach} // to be deprovisioned
	}
	if node != nil && isForgotten(host, node) {
		return leaveIronic(host, node)
	}
	state := host.Status.Provisioning.State
	giveUp := host.Status.ErrorCount >= abandonAfter
	if host.Status.Provisioning.ID == "" || node == nil {
		if ours := state == metal3.StateProvisioned || state == metal3.StateProvisioning || state == metal3.StateDeprovisioning; ours && !giveUp {
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
	switch state {
	case metal3.StateDeleting:
		return leaveIronic(host, node)
	case metal3.StatePoweringOffBeforeDelete:
		return powerOffBeforeDelete(s, giveUp)
	case metal3.StateNone, metal3.StateUnmanaged, metal3.StateRegistering:
		return setState(metal3.StateDeleting)
	}
	switch {
	case node.ProvisionState == ironic.Verifying:
		return Step{Do: Wait}
	case node.ProvisionState == ironic.Enroll && (giveUp || s.SecretVersion == "" || hasFailed(host)):
		return setState(metal3.StateDeleting) // its BMC is out of reach
	case node.ProvisionState == ironic.Enroll:
		return Step{Do: Register}
	}
	switch state {
	case metal3.StateProvisioning, metal3.StateProvisioned:
		return setState(metal3.StateDeprovisioning)
	case metal3.StateDeprovisioning:
		switch {
		case node.ProvisionState == ironic.Available, giveUp:
			return setState(metal3.StatePoweringOffBeforeDelete)
		case isStepFault(node):
			return s.retry(Step{Do: ClearMaintenance, Error: metal3.ProvisioningError}, true)
		}
		return nextOfDeprovisioning(s)
	}
	switch node.ProvisionState {
	case ironic.InspectWait, ironic.CleanWait, ironic.CleanHold, ironic.DeployHold, ironic.ServiceWait, ironic.ServiceHold:
		return provision(ironic.TargetAbort, metal3.PreparationError)
	}
	if isInTransit(node.ProvisionState) {
		return Step{Do: Wait}
	}
	return setState(metal3.StatePoweringOffBeforeDelete)
}

func powerOffBeforeDelete(s Situation, giveUp bool) Step {
	host, node := s.Host, s.Node
	switch {
	case node.TargetPowerState != "":
		return Step{Do: Wait}
	case node.PowerState != ironic.PowerOn, giveUp, host.Spec.DisablePowerOff, isInTransit(node.ProvisionState), node.Maintenance && !isStepFault(node):
		return setState(metal3.StateDeleting)
	}
	// There is nothing left on it that would have to shut down.
	return Step{Do: SwitchPower, Power: ironic.TargetPowerOff, Error: metal3.PowerManagementError, Retry: hasFailed(host)}
}
