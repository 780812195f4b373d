// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/settings"
)

// This file has one function for each provisioning state of a registered host. All of them
// leave a node alone while Ironic is working on it, and never clean or redeploy a node that is
// deployed according to Ironic, unless it is known that this server has to deprovision it.

func setState(state metal3.ProvisioningState) Step { return Step{Do: SetState, State: state} }

func provision(target ironic.ProvisionTarget, kind metal3.ErrorType) Step {
	return Step{Do: Provision, Target: target, Error: kind}
}

// nextOfRegistering returns the step that follows when the host's BMC has been verified.
func nextOfRegistering(s Situation) Step {
	host, node := s.Host, s.node
	switch {
	case node.ProvisionState.IsDeployed():
		return adoptAsFound(host)
	case node.ProvisionState == ironic.DeployFail, node.ProvisionState == ironic.Error:
		return nextOfOthersDeployment(s)
	case node.ProvisionState.IsInTransit():
		return Step{Do: Wait}
	case host.Spec.ExternallyProvisioned:
		return setState(metal3.StateExternallyProvisioned)
	case host.InspectionDisabled(), host.Status.HardwareDetails != nil && !wantsInspection(host):
		return setState(metal3.StatePreparing)
	}
	return Step{Do: SetState, State: metal3.StateInspecting, Limited: true}
}

// adoptAsFound returns the step for a node that was deployed by another user of Ironic, or whose host has lost
// its status. If the spec asks for an image, a person has to confirm that it is what the machine runs.
func adoptAsFound(host *metal3.BareMetalHost) Step {
	if host.Spec.ExternallyProvisioned {
		return setState(metal3.StateExternallyProvisioned)
	}
	return setState(metal3.StateProvisioned)
}

// inventoryPause is how long to wait before the inventory of a finished inspection is read
// again: Ironic stores it a moment after the node has become manageable.
const inventoryPause = time.Second

// nextOfInspecting has Ironic inspect the node, and waits for the inventory.
func nextOfInspecting(s Situation) Step {
	host, node := s.Host, s.node
	inspect := provision(ironic.TargetInspect, metal3.InspectionError)
	switch {
	case node.ProvisionState.IsDeployed():
		return adoptAsFound(host)
	case node.ProvisionState == ironic.InspectWait && (isForced(host) || isTimedOut(&host.Status)):
		return provision(ironic.TargetAbort, metal3.InspectionError)
	case node.ProvisionState.IsInTransit():
		return Step{Do: Wait}
	case host.Spec.ExternallyProvisioned:
		return setState(metal3.StateExternallyProvisioned) // spec.externallyProvisioned was set while the inspection began
	case host.InspectionDisabled():
		return setState(metal3.StatePreparing)
	}
	switch node.ProvisionState {
	case ironic.Manageable:
		switch {
		case !host.Status.OperationHistory.Inspect.End.IsZero():
			return setState(metal3.StatePreparing)
		case node.InventoryPending:
			return Step{Do: Wait, After: inventoryPause}
		case isHeldOff(host):
			return Step{Do: Wait}
		}
		return s.retry(inspect, hasFailed(host))
	case ironic.InspectFail:
		switch {
		case isDueWhenIdle(host):
			return toManageable(s) // Ironic does not accept another inspect_interface in a failed state
		case isForcedOnce(host):
			return Step{Do: ClearRebootRequest}
		case isHeldOff(host):
			return Step{Do: Wait}
		}
		return s.retry(inspect, true)
	}
	return toManageable(s)
}

// toManageable asks for the verb manage in those states that only this verb leads out of, and
// waits in all others.
func toManageable(s Situation) Step {
	switch s.node.ProvisionState {
	case ironic.Available, ironic.InspectFail, ironic.AdoptFail:
		return provision(ironic.TargetManage, metal3.PreparationError)
	case ironic.CleanFail:
		return s.retry(provision(ironic.TargetManage, cleaningErrorType(&s.Host.Status)), true)
	}
	return Step{Do: Wait}
}

// nextOfPreparing has Ironic apply settings to the machine, and then leads to the state available.
// The node remains manageable: the verb provide, which makes a node available, would have Ironic
// clean its disks, and the spec has not asked for an image yet.
func nextOfPreparing(s Situation) Step {
	host, node := s.Host, s.node
	switch {
	case node.ProvisionState.IsDeployed():
		return adoptAsFound(host)
	case node.ProvisionState == ironic.CleanWait && (isForced(host) || isTimedOut(&host.Status)):
		return provision(ironic.TargetAbort, metal3.PreparationError)
	case node.ProvisionState.IsInTransit():
		return Step{Do: Wait}
	case host.Spec.ExternallyProvisioned:
		return setState(metal3.StateExternallyProvisioned)
	}
	switch node.ProvisionState {
	case ironic.Manageable:
		if wantsInspection(host) && host.Status.Record.RequestedClean == nil {
			return Step{Do: SetState, State: metal3.StateInspecting, Limited: true}
		}
		return nextOfSettings(s)
	case ironic.CleanFail:
		if isForcedOnce(host) {
			return Step{Do: ClearRebootRequest}
		}
	case ironic.Available:
		return nextOfSettings(s)
	}
	return toManageable(s)
}

// nextOfAvailable returns the next step for an available host. Its node is manageable, or
// available if Ironic has cleaned it, mostly in the course of an earlier deprovisioning.
func nextOfAvailable(s Situation) Step {
	host, node := s.Host, s.node
	switch {
	case isLateDeployment(host, node):
		return setState(metal3.StateDeprovisioning)
	case node.ProvisionState.IsDeployed():
		return adoptAsFound(host)
	case node.ProvisionState == ironic.AdoptFail:
		return toManageable(s) // another client of Ironic has tried to adopt it
	case node.ProvisionState != ironic.Available && node.ProvisionState != ironic.Manageable:
		return Step{Do: Wait} // an observation changes the host's state
	case host.Spec.ExternallyProvisioned:
		return setState(metal3.StateExternallyProvisioned)
	case isHeldOff(host):
		return nextOfPower(s)
	case wantsInspection(host):
		return Step{Do: SetState, State: metal3.StateInspecting, Limited: true}
	case (host.Status.ProvisioningFailCount > 0 || ErrorType(&host.Status) == metal3.ProvisioningError || host.Status.Provisioning.CustomDeploy != nil) && (deploy.AttemptChanged(host) || deploy.ImageCorrected(host)):
		return Step{Do: ForgetFailures} // the second condition holds after /retry, which resets the count only; the third after an inspection or a cleaning
	case settingsDiffer(host), s.SettingsUnread != "", settings.Differ(s.machine()):
		return setState(metal3.StatePreparing)
	case deploy.WantsImage(&host.Spec) && host.Spec.Online && (s.MaxRetries == 0 || host.Status.ProvisioningFailCount < s.MaxRetries):
		if left, may := s.deploymentMayStillCome(); may {
			return Step{Do: Wait, After: left} // it is undone, and does not give this attempt the config drive of the former one
		}
		if s.Hold > 0 && ErrorType(&host.Status) == metal3.ProvisioningError {
			return nextUntilProvisioning(s)
		}
		return Step{Do: SetState, State: metal3.StateProvisioning, Limited: true, Retry: host.Status.ProvisioningFailCount > 0}
	}
	step := nextOfPower(s)
	switch {
	case step.Do == SwitchPower && step.Power == ironic.TargetPowerOn && s.changedWithin(imageGrace):
		left := imageGrace - s.IronicNow.Sub(s.node.StateChangedAt.Time)
		return Step{Do: Wait, After: left + time.Second} // Ironic's clock tells whole seconds
	case step.Do == Wait && step.After == 0:
		step.After = s.Hold
	}
	return step
}

// imageGrace is how long a host that has become available is not switched on. Who has waited for it gives it an image within that time,
// and does not wait until Ironic, which has the node locked, has switched on a machine only to reset it for the deployment.
const imageGrace = 5 * time.Second

// nextUntilProvisioning is for an available host that is to be provisioned again, or when what is missing is there. It is not
// switched on for that: Ironic has the node locked for as long as that takes, and switches the machine itself to clean and deploy it.
func nextUntilProvisioning(s Situation) Step {
	if step := nextOfPower(s); step.Do != Wait && !(step.Do == SwitchPower && step.Power == ironic.TargetPowerOn) {
		return step
	}
	return Step{Do: Wait, After: s.Hold}
}

// settingsDiffer reports whether settings in the spec have changed that require the host to be
// prepared again.
func settingsDiffer(host *metal3.BareMetalHost) bool {
	saved := &host.Status.Provisioning
	// An empty boot mode means UEFI, and the Bare Metal Operator saved UEFI for it.
	return cmp.Or(saved.BootMode, metal3.UEFI) != host.BootMode() ||
		!equality.Semantic.DeepEqual(saved.RootDeviceHints, deploy.RootDeviceHints(host)) ||
		settings.Differ(settings.Machine{Host: host})
}

// nextOfProvisioning has Ironic clean the node, unless it did so when the node was
// deprovisioned, and deploy what the spec wants.
func nextOfProvisioning(s Situation) Step {
	host, node := s.Host, s.node
	if !isUnderWay(host.Status.OperationHistory.Provision) {
		return nextOfOthersDeployment(s)
	}
	if rebuild := pendingRebuild(host); rebuild != nil {
		return nextOfRebuild(s, rebuild)
	}
	cancelled := deploy.AttemptChanged(host)
	switch {
	case node.ProvisionState.IsDeployed():
		return setState(metal3.StateProvisioned)
	case cancelled && isDeploymentBegun(node.ProvisionState), node.ProvisionState == ironic.DeployWait && isForced(host):
		return setState(metal3.StateDeprovisioning)
	case node.ProvisionState == ironic.DeployWait && isTimedOut(&host.Status):
		return Step{Do: SetState, State: metal3.StateDeprovisioning, Failed: true}
	case node.ProvisionState == ironic.CleanWait && (isForced(host) || isTimedOut(&host.Status)):
		return provision(ironic.TargetAbort, metal3.ProvisioningError)
	case node.ProvisionState.IsInTransit():
		return Step{Do: Wait}
	}
	switch node.ProvisionState {
	case ironic.Manageable, ironic.Available:
		switch {
		case host.Spec.ExternallyProvisioned:
			return setState(metal3.StateExternallyProvisioned)
		case cancelled && !isBeforeDeployment(host, node):
			return setState(metal3.StateDeprovisioning)
		case cancelled: // nothing was deployed, so there is nothing to undeploy
			return setState(metal3.StateAvailable)
		case isHeldOff(host):
			return Step{Do: Wait}
		case node.ProvisionState == ironic.Manageable:
			return s.retry(provision(ironic.TargetProvide, metal3.ProvisioningError), hasFailed(host))
		}
		if left, may := s.mayStillCome(ironic.TargetDeleted, ironic.TargetRebuild); may {
			return Step{Do: Wait, After: left} // what is deployed now would be ended or written once more
		}
		return s.retry(Step{Do: Deploy, Error: metal3.ProvisioningError}, hasFailed(host))
	case ironic.CleanFail:
		if isForcedOnce(host) {
			return Step{Do: ClearRebootRequest}
		}
	case ironic.DeployFail, ironic.Error:
		return Step{Do: SetState, State: metal3.StateDeprovisioning, Failed: true}
	}
	return toManageable(s)
}

// isUnderWay reports whether the server has begun an operation that has not ended. (The
// provisioning state does not suffice for that, because an observation also sets it according
// to what an operator has Ironic do.)
func isUnderWay(operation metal3.OperationMetric) bool {
	return !operation.Start.IsZero() && operation.End.IsZero()
}

// nextOfOthersDeployment returns the next step for a node on which another user of Ironic has begun to deploy
// or undeploy, possibly before the host was created. The host follows the outcome. A failed
// deployment is undone only if the host is new and its spec asks for an image.
func nextOfOthersDeployment(s Situation) Step {
	host, node := s.Host, s.node
	switch {
	case isLateDeployment(host, node) && !node.ProvisionState.IsInTransit():
		return setState(metal3.StateDeprovisioning)
	case node.ProvisionState.IsDeployed():
		return adoptAsFound(host)
	case node.ProvisionState == ironic.CleanWait && isTimedOut(&host.Status):
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
		if isNew(host) || isUninspected(host) {
			return setState(metal3.StateRegistering)
		}
		return setState(metal3.StateAvailable)
	}
	return toManageable(s)
}

// isDeploymentBegun reports whether a deployment of a node in this state has begun: it is under
// way, has failed, or is being undone.
func isDeploymentBegun(state ironic.ProvisionState) bool {
	switch state {
	case ironic.Deploying, ironic.DeployWait, ironic.DeployFail, ironic.DeployHold, ironic.Deleting, ironic.Error:
		return true
	}
	return false
}

// isNew reports whether the host was never prepared, and nothing that it runs was taken over, so that anything on its machine dates
// from before. (The machine of a host that has been available may be in use by an operator.)
func isNew(host *metal3.BareMetalHost) bool { return host.Status.HardwareProfile == "" }

// isUninspected reports whether the host is to be inspected and never was, as a host whose running machine was taken over.
func isUninspected(host *metal3.BareMetalHost) bool {
	status := &host.Status
	return status.HardwareDetails == nil && status.OperationHistory.Inspect.End.IsZero() && !host.InspectionDisabled()
}

// nextOfDeployed returns the next step for a host that runs something.
func nextOfDeployed(s Situation) Step {
	if s.Host.Status.Provisioning.State == metal3.StateProvisioned {
		return nextOfProvisioned(s)
	}
	return nextOfExternallyProvisioned(s)
}

// nextOfProvisioned deprovisions the host if its spec has changed accordingly.
func nextOfProvisioned(s Situation) Step {
	if s.Host.Spec.ExternallyProvisioned && metal3.MayBeExternallyProvisioned(&s.Host.Status) {
		return setState(metal3.StateExternallyProvisioned)
	}
	if isUndeployed(s.Host) {
		return setState(metal3.StateDeprovisioning) // in which nothing is left to be done
	}
	// A host that was taken over without an image in its spec is not deprovisioned: nobody has
	// asked for its disks to be wiped, unless a person has confirmed what runs there since.
	if (deploy.Deployed(s.Host) || isDeploymentConfirmed(s.Host, s.node)) && deploy.MustDeprovision(s.Host) && !s.NoRoom {
		return Step{Do: SetState, State: metal3.StateDeprovisioning, Limited: true}
	}
	return keepDeployed(s)
}

// nextOfExternallyProvisioned leaves the host as it is until spec.externallyProvisioned is false. The machine is then said to run
// the image in the spec, or what nobody has named. It is not undeployed: this server has not deployed it, and one boolean that
// is left out of a manifest is no wish to have its disks erased.
func nextOfExternallyProvisioned(s Situation) Step {
	if s.Host.Spec.ExternallyProvisioned {
		return keepDeployed(s)
	}
	return setState(metal3.StateProvisioned)
}

// keepDeployed has Ironic adopt the node of a deployed machine if it is not active already, and
// then manages its power. Adoption touches neither the disks nor the power.
func keepDeployed(s Situation) Step {
	adopt := provision(ironic.TargetAdopt, metal3.ProvisionedRegistrationError)
	switch s.node.ProvisionState {
	case ironic.Active:
		return nextOfActive(s)
	case ironic.ServiceWait:
		return nextOfServiceWait(s)
	case ironic.ServiceFail:
		return nextOfFailedService(s)
	case ironic.Manageable:
		return s.retry(adopt, hasFailed(s.Host))
	case ironic.AdoptFail:
		return s.retry(adopt, true)
	case ironic.Available, ironic.InspectFail, ironic.CleanFail:
		return toManageable(s)
	}
	return Step{Do: Wait}
}

// nextOfDeprovisioning undeploys the node. After that, Ironic cleans it automatically and makes
// it available.
func nextOfDeprovisioning(s Situation) Step {
	host, node := s.Host, s.node
	if !isUnderWay(host.Status.OperationHistory.Deprovision) {
		return nextOfOthersDeployment(s)
	}
	if s.isTakenBack() {
		return setState(metal3.StateProvisioned)
	}
	if step, runsOn := s.nextOfUnended(); runsOn {
		return step
	}
	undeploy := provision(ironic.TargetDeleted, metal3.ProvisioningError)
	switch node.ProvisionState {
	case ironic.Active, ironic.DeployWait, ironic.DeployFail, ironic.Rescue, ironic.RescueWait, ironic.RescueFail,
		ironic.UnrescueFail, ironic.ServiceFail, ironic.ServiceWait:
		// There is no back-off: an earlier failure is not one of undeploying, which would
		// have left the node in the state Error.
		return undeploy
	case ironic.Error:
		return s.retry(undeploy, true)
	case ironic.DeployHold, ironic.CleanHold, ironic.ServiceHold:
		return provision(ironic.TargetAbort, metal3.ProvisioningError)
	case ironic.CleanWait:
		if isTimedOut(&host.Status) {
			return provision(ironic.TargetAbort, metal3.ProvisioningError)
		}
	case ironic.Manageable:
		return s.retry(provision(ironic.TargetProvide, metal3.ProvisioningError), hasFailed(host))
	case ironic.Available:
		return setState(metal3.StateAvailable)
	}
	return toManageable(s)
}

// hasFailed reports whether the host's last step failed.
func hasFailed(host *metal3.BareMetalHost) bool { return ErrorType(&host.Status) != "" }
