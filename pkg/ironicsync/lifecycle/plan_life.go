package lifecycle

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
)

// Here is one function for each provisioning state that a registered host can be
// in. What they share: a node on which Ironic works is left alone, and a node that
// Ironic says is deployed is never cleaned or deployed over unless the host is
// known to be ours to deprovision.

func setState(state metal3.ProvisioningState) Step { return Step{Do: SetState, State: state} }

func provision(target ironic.ProvisionTarget, kind metal3.ErrorType) Step {
	return Step{Do: Provision, Target: target, Error: kind}
}

// nextOfRegistering decides what a host whose BMC has been verified becomes.
func nextOfRegistering(s Situation) Step {
	host, node := s.Host, s.Node
	switch {
	case isDeployed(node.ProvisionState):
		return takeOver(host)
	case node.ProvisionState == ironic.DeployFail, node.ProvisionState == ironic.Error:
		return nextOfForeignWork(s)
	case node.ProvisionState.IsInTransit():
		return Step{Do: Wait}
	case host.Spec.ExternallyProvisioned:
		return setState(metal3.StateExternallyProvisioned)
	case host.InspectionDisabled(), host.Status.HardwareDetails != nil && !wantsInspection(host):
		return setState(metal3.StatePreparing)
	}
	return Step{Do: SetState, State: metal3.StateInspecting, Limited: true}
}

// isDeployed tells whether the node runs something, by the word of Ironic.
func isDeployed(state ironic.ProvisionState) bool {
	switch state {
	case ironic.Active, ironic.Servicing, ironic.ServiceWait, ironic.ServiceFail, ironic.ServiceHold,
		ironic.Rescue, ironic.Rescuing, ironic.RescueWait, ironic.RescueFail, ironic.Unrescuing, ironic.UnrescueFail:
		return true
	}
	return false
}

// takeOver is for a node that was deployed without us, or whose host lost its
// status: it runs what the spec says, as far as anybody knows.
func takeOver(host *metal3.BareMetalHost) Step {
	if host.Spec.ExternallyProvisioned {
		return setState(metal3.StateExternallyProvisioned)
	}
	return setState(metal3.StateProvisioned)
}

// inventoryPause is when to look again for the inventory of a finished inspection:
// Ironic stores it a moment after the node has become manageable.
const inventoryPause = time.Second

func nextOfInspecting(s Situation) Step {
	host, node := s.Host, s.Node
	inspect := provision(ironic.TargetInspect, metal3.InspectionError)
	switch {
	case isDeployed(node.ProvisionState):
		return takeOver(host)
	case node.ProvisionState == ironic.InspectWait && (isForced(host) || isSilent(&host.Status)):
		return provision(ironic.TargetAbort, metal3.InspectionError)
	case node.ProvisionState.IsInTransit():
		return Step{Do: Wait}
	case host.Spec.ExternallyProvisioned:
		return setState(metal3.StateExternallyProvisioned) // marked while /inspect began: what comes next would clean it
	case host.InspectionDisabled():
		return setState(metal3.StatePreparing)
	}
	switch node.ProvisionState {
	case ironic.Manageable:
		switch {
		case !host.Status.OperationHistory.Inspect.End.IsZero():
			return setState(metal3.StatePreparing)
		case NeedsInventory(host, node):
			return Step{Do: Wait, After: inventoryPause}
		case isHeld(host):
			return Step{Do: Wait}
		}
		return s.retry(inspect, hasFailed(host))
	case ironic.InspectFail:
		switch {
		case isDue(host):
			return toManageable(s) // where Ironic takes another inspect_interface
		case asksToReboot(host):
			return Step{Do: DropReboot}
		case isHeld(host):
			return Step{Do: Wait}
		}
		return s.retry(inspect, true)
	}
	return toManageable(s)
}

// toManageable leads out of the states that only the verb manage leads out of.
func toManageable(s Situation) Step {
	switch s.Node.ProvisionState {
	case ironic.Available, ironic.InspectFail, ironic.AdoptFail:
		return provision(ironic.TargetManage, metal3.PreparationError)
	case ironic.CleanFail:
		return s.retry(provision(ironic.TargetManage, cleaningErrorType(&s.Host.Status)), true)
	}
	return Step{Do: Wait}
}

// nextOfPreparing leads to available. (RAID, BIOS settings and firmware belong here.)
// The node stays manageable: the verb provide, which makes it available, has Ironic
// clean its disks, and nobody has asked for an image yet. Where it is being cleaned
// here, somebody else has begun that.
func nextOfPreparing(s Situation) Step {
	host, node := s.Host, s.Node
	switch {
	case isDeployed(node.ProvisionState):
		return takeOver(host)
	case node.ProvisionState == ironic.CleanWait && (isForced(host) || isSilent(&host.Status)):
		return provision(ironic.TargetAbort, metal3.PreparationError)
	case node.ProvisionState.IsInTransit():
		return Step{Do: Wait}
	case host.Spec.ExternallyProvisioned:
		return setState(metal3.StateExternallyProvisioned)
	}
	switch node.ProvisionState {
	case ironic.Manageable:
		if wantsInspection(host) {
			return Step{Do: SetState, State: metal3.StateInspecting, Limited: true}
		}
		return setState(metal3.StateAvailable)
	case ironic.CleanFail:
		if asksToReboot(host) {
			return Step{Do: DropReboot}
		}
	case ironic.Available:
		return setState(metal3.StateAvailable)
	}
	return toManageable(s)
}

// nextOfAvailable is for a host whose node is manageable, or available where Ironic
// has cleaned it: after a deprovisioning, mostly.
func nextOfAvailable(s Situation) Step {
	host, node := s.Host, s.Node
	switch {
	case isDeployed(node.ProvisionState):
		return takeOver(host)
	case node.ProvisionState == ironic.AdoptFail:
		return toManageable(s) // somebody else has tried to adopt it
	case node.ProvisionState != ironic.Available && node.ProvisionState != ironic.Manageable:
		return Step{Do: Wait} // an observation makes another state of it
	case host.Spec.ExternallyProvisioned:
		return setState(metal3.StateExternallyProvisioned)
	case isHeld(host):
		return nextOfPower(s)
	case wantsInspection(host):
		return Step{Do: SetState, State: metal3.StateInspecting, Limited: true}
	case (host.Status.ProvisioningFailCount > 0 || host.Status.ErrorType == metal3.ProvisioningError) && deploy.AttemptChanged(host):
		return Step{Do: ForgetFailures} // also where /retry has cleared the count, and left what is shown
	case settingsDiffer(host):
		return setState(metal3.StatePreparing)
	case deploy.WantsImage(&host.Spec) && host.Spec.Online && host.Status.ProvisioningFailCount < s.MaxRetries:
		if s.Hold > 0 && host.Status.ErrorType == metal3.ProvisioningError {
			break
		}
		return Step{Do: SetState, State: metal3.StateProvisioning, Limited: true, Retry: host.Status.ProvisioningFailCount > 0}
	}
	step := nextOfPower(s)
	if step.Do == Wait && step.After == 0 {
		step.After = s.Hold
	}
	return step
}

// settingsDiffer tells whether the host has to be prepared anew.
func settingsDiffer(host *metal3.BareMetalHost) bool {
	saved := &host.Status.Provisioning
	// An empty boot mode stands for UEFI, which is what the Bare Metal Operator saved.
	return cmp.Or(saved.BootMode, metal3.UEFI) != host.BootMode() ||
		!equality.Semantic.DeepEqual(saved.RootDeviceHints, deploy.RootDeviceHints(host)) ||
		!equality.Semantic.DeepEqual(saved.RAID, host.Spec.RAID)
}

// nextOfProvisioning has Ironic clean the node, unless it did so when the node was
// deprovisioned, and deploy what the spec wants.
func nextOfProvisioning(s Situation) Step {
	host, node := s.Host, s.Node
	if !isUnderWay(host.Status.OperationHistory.Provision) {
		return nextOfForeignWork(s)
	}
	cancelled := deploy.AttemptChanged(host)
	switch {
	case isDeployed(node.ProvisionState):
		return setState(metal3.StateProvisioned)
	case cancelled && isDeploymentBegun(node.ProvisionState), node.ProvisionState == ironic.DeployWait && isForced(host):
		return setState(metal3.StateDeprovisioning)
	case node.ProvisionState == ironic.DeployWait && isSilent(&host.Status):
		return Step{Do: SetState, State: metal3.StateDeprovisioning, Failed: true}
	case node.ProvisionState == ironic.CleanWait && (isForced(host) || isSilent(&host.Status)):
		return provision(ironic.TargetAbort, metal3.ProvisioningError)
	case node.ProvisionState.IsInTransit():
		return Step{Do: Wait}
	}
	switch node.ProvisionState {
	case ironic.Manageable, ironic.Available:
		switch {
		case host.Spec.ExternallyProvisioned:
			return setState(metal3.StateExternallyProvisioned)
		case cancelled: // nothing was deployed, so there is nothing to undeploy
			return setState(metal3.StateAvailable)
		case isHeld(host):
			return Step{Do: Wait}
		case node.ProvisionState == ironic.Manageable:
			return s.retry(provision(ironic.TargetProvide, metal3.ProvisioningError), hasFailed(host))
		}
		return s.retry(Step{Do: Deploy, Error: metal3.ProvisioningError}, hasFailed(host))
	case ironic.CleanFail:
		if asksToReboot(host) {
			return Step{Do: DropReboot}
		}
	case ironic.DeployFail, ironic.Error:
		return Step{Do: SetState, State: metal3.StateDeprovisioning, Failed: true}
	}
	return toManageable(s)
}

// isUnderWay tells whether we have begun an operation that has not ended. (A state
// alone does not tell: an observation follows what an operator has Ironic do.)
func isUnderWay(operation metal3.OperationMetric) bool {
	return !operation.Start.IsZero() && operation.End.IsZero()
}

// nextOfForeignWork is for a node that somebody has deployed or undeployed past us, or
// before its host was there. What comes of that is followed; a deployment that failed is
// undone only where the spec of a new host wants the machine for something.
func nextOfForeignWork(s Situation) Step {
	host, node := s.Host, s.Node
	switch {
	case isDeployed(node.ProvisionState):
		return takeOver(host)
	case node.ProvisionState == ironic.CleanWait && isSilent(&host.Status):
		return provision(ironic.TargetAbort, metal3.ProvisioningError)
	case node.ProvisionState.IsInTransit():
		return Step{Do: Wait}
	}
	switch node.ProvisionState {
	case ironic.DeployFail, ironic.Error:
		if isNew(host) && !host.Spec.ExternallyProvisioned && deploy.WantsImage(&host.Spec) {
			return setState(metal3.StateDeprovisioning)
		}
		return Step{Do: Wait}
	case ironic.Manageable, ironic.Available:
		if isNew(host) {
			return setState(metal3.StateRegistering)
		}
		return setState(metal3.StateAvailable)
	}
	return toManageable(s)
}

// isDeploymentBegun tells whether Ironic deploys the node, has failed to, or undoes it.
func isDeploymentBegun(state ironic.ProvisionState) bool {
	switch state {
	case ironic.Deploying, ironic.DeployWait, ironic.DeployFail, ironic.DeployHold, ironic.Deleting, ironic.Error:
		return true
	}
	return false
}

// isNew tells whether the host was never prepared: what is on its node is from before.
// (A host that has been available may be in use by an operator, past us.)
func isNew(host *metal3.BareMetalHost) bool { return host.Status.HardwareProfile == "" }

func nextOfProvisioned(s Situation) Step {
	// A host that was taken over as it is, with nothing in its spec, is nobody's to wipe.
	if deploy.Deployed(s.Host) && deploy.MustDeprovision(s.Host) {
		return Step{Do: SetState, State: metal3.StateDeprovisioning, Limited: true}
	}
	return keepDeployed(s)
}

func nextOfExternallyProvisioned(s Situation) Step {
	host := s.Host
	switch {
	case host.Spec.ExternallyProvisioned:
		return keepDeployed(s)
	case deploy.WantsImage(&host.Spec):
		return setState(metal3.StateProvisioned)
	}
	return Step{Do: SetState, State: metal3.StateDeprovisioning, Limited: true}
}

// keepDeployed has Ironic take a machine for deployed that is: by adoption, which
// touches neither its disks nor its power.
func keepDeployed(s Situation) Step {
	adopt := provision(ironic.TargetAdopt, metal3.ProvisionedRegistrationError)
	switch s.Node.ProvisionState {
	case ironic.Active:
		return nextOfPower(s)
	case ironic.Manageable:
		return s.retry(adopt, hasFailed(s.Host))
	case ironic.AdoptFail:
		return s.retry(adopt, true)
	case ironic.Available, ironic.InspectFail, ironic.CleanFail:
		return toManageable(s)
	}
	return Step{Do: Wait}
}

// nextOfDeprovisioning undeploys the node. Ironic cleans it by itself then, and
// makes it available.
func nextOfDeprovisioning(s Situation) Step {
	host, node := s.Host, s.Node
	if !isUnderWay(host.Status.OperationHistory.Deprovision) {
		return nextOfForeignWork(s)
	}
	if node.ProvisionState == ironic.Active && host.DeletionTimestamp.IsZero() && deploy.Deployed(host) && !deploy.MustDeprovision(host) {
		return setState(metal3.StateProvisioned) // the spec was changed back before Ironic began
	}
	undeploy := provision(ironic.TargetDeleted, metal3.ProvisioningError)
	switch node.ProvisionState {
	case ironic.Active, ironic.DeployWait, ironic.DeployFail, ironic.Rescue, ironic.RescueWait, ironic.RescueFail,
		ironic.UnrescueFail, ironic.ServiceFail, ironic.ServiceWait:
		// The failure that led here is no reason to wait; one of undeploying itself
		// leads to Error.
		return undeploy
	case ironic.Error:
		return s.retry(undeploy, true)
	case ironic.DeployHold, ironic.CleanHold, ironic.ServiceHold:
		return provision(ironic.TargetAbort, metal3.ProvisioningError)
	case ironic.CleanWait:
		if isSilent(&host.Status) {
			return provision(ironic.TargetAbort, metal3.ProvisioningError)
		}
	case ironic.Manageable:
		return s.retry(provision(ironic.TargetProvide, metal3.ProvisioningError), hasFailed(host))
	case ironic.Available:
		return setState(metal3.StateAvailable)
	}
	return toManageable(s)
}

// hasFailed tells whether the host's last step failed.
func hasFailed(host *metal3.BareMetalHost) bool { return host.Status.ErrorType != "" }
