// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
)

// A rebuild writes the image of a provisioned host again. Ironic keeps the deployment's
// instance_uuid, and the node is active before and after it, so these do not show whether it has
// begun. What does is provision_updated_at, which Ironic sets with each change of the state: while
// it is as it was at the request, the rebuild has to be asked for; after that, it has begun, and must not be
// asked for again.

// RequestRebuild records that the image of a provisioned host is to be written again. The host is
// provisioning from then on. It returns an error that says why the host does not permit it.
func RequestRebuild(host *metal3.BareMetalHost, node *ironic.Node, now time.Time) error {
	if err := rebuildObstacle(host, NodeFromIronic(node)); err != nil {
		return err
	}
	status := &host.Status
	endHold(&status.Record)
	if goneDeployment(status) != nil && NodeFromIronic(node).ProvisionState == ironic.Available {
		Enter(host, Step{Do: SetState, State: metal3.StateProvisioning}, now) // Ironic rebuilds active nodes only
		Render(host, now)
		return nil
	}
	status.Record.Deployment.Gone = nil
	status.Record.Deployment.Rebuild = &metal3.Rebuild{RequestedAt: WholeSeconds(now), StateChangedAt: NodeFromIronic(node).StateChangedAt}
	status.Provisioning.State = metal3.StateProvisioning
	status.OperationHistory.Provision = metal3.OperationMetric{Start: WholeSeconds(now)}
	status.LastAttemptedImage = imageOf(host)
	status.ProvisioningFailCount = 0
	resetErrorCount(status)
	status.Record.Failure = nil
	Render(host, now)
	return nil
}

// rebuildObstacle returns why the host's image cannot be written again; nil if it can.
func rebuildObstacle(host *metal3.BareMetalHost, node *Node) error {
	status := &host.Status
	held := status.Record.Hold
	contradiction := contradictionOf(Situation{Host: host, node: node, Cluster: node.MarkedCluster}, Step{Do: Rebuild})
	if gone := goneDeployment(status); gone != nil { // which is what a rebuild mends
		given := host.DeepCopy()
		given.Status.Record.Deployment.Gone = nil
		contradiction = contradictionOf(Situation{Host: given, node: node, Cluster: node.MarkedCluster}, Step{Do: Rebuild})
		if held != nil && held.Reason == metal3.DeploymentGoneReason {
			held = nil
		}
	}
	deployed, saved := status.Record.Deployment, &status.Provisioning
	switch {
	case metal3.IsPaused(host):
		return fmt.Errorf("it is paused: remove the annotation %s first", metal3.PausedAnnotation)
	case host.IsDetached(), hasAnnotation(host, metal3.DetachedAnnotation):
		return errors.New("it is detached")
	case saved.State == metal3.StateProvisioning && deployed != nil && deployed.Rebuild != nil:
		return errors.New("it is being rebuilt already")
	case saved.State != metal3.StateProvisioned || host.Spec.ExternallyProvisioned:
		return fmt.Errorf("it is %s, and only what this server has provisioned can be written again", cmp.Or(string(saved.State), "new"))
	case held != nil:
		return fmt.Errorf("its machine is left alone: %s", held.Message)
	case contradiction != nil:
		return fmt.Errorf("its machine is left alone: %s", contradiction.message)
	case deployed == nil || !deploy.Deployed(host):
		return errors.New("it is not recorded what was deployed on it")
	case !equality.Semantic.DeepEqual(&saved.Image, imageOf(host)), !equality.Semantic.DeepEqual(saved.CustomDeploy, host.Spec.CustomDeploy):
		return errors.New("spec.image or spec.customDeploy is not what was deployed (status.provisioning): put that back first. (To deploy something else, change the URL of the image)")
	case settingsDiffer(host):
		return errors.New("the boot mode, the root device hints or the RAID layout in the spec are not those that the host was provisioned with (status.provisioning)")
	case saved.Image.IsLiveISO() && saved.CustomDeploy == nil:
		return errors.New("it runs a live ISO, which is on no disk: reboot it")
	case !host.Spec.Online:
		return errors.New("it is to be off (spec.online is false), and a rebuild switches it on")
	case KeptOffBy(host) != "":
		return KeptOffError(host)
	case node.Maintenance:
		return fmt.Errorf("its node is in maintenance, in which Ironic does not deploy: %s", node.MaintenanceReason)
	case openService(host, node) != nil:
		return errors.New("its settings are being changed (status.record.servicing)")
	case goneDeployment(status) != nil && node.ProvisionState == ironic.Available:
	case goneDeployment(status) != nil && !node.ProvisionState.IsInTransit() && node.ProvisionState != ironic.Active:
		return fmt.Errorf("Ironic has its node in the state %q, and can deploy only one that is available without cleaning it first: bring it there with `openstack baremetal node provide`, which cleans it unless automated_clean is false, or remove the image from the spec and set it again", node.ProvisionState)
	case node.ProvisionState != ironic.Active:
		return fmt.Errorf("Ironic is still working on it (%s), or does not count it as deployed", node.ProvisionState)
	}
	return nil
}

// pendingRebuild returns the rebuild that was requested of the host and has not ended, or nil.
func pendingRebuild(host *metal3.BareMetalHost) *metal3.Rebuild {
	if host.Status.Record.Deployment == nil {
		return nil
	}
	return host.Status.Record.Deployment.Rebuild
}

// HasRebuildBegun reports whether Ironic has begun the rebuild of a node that is active.
func HasRebuildBegun(rebuild *metal3.Rebuild, node *ironic.Node) bool {
	return hasStateChanged(rebuild.StateChangedAt, NodeFromIronic(node))
}

// observePendingRebuild follows a node that is serviced or rescued before Ironic was asked for the rebuild, which would be taken for the
// rebuild when the node is active again. Any other change of the state is taken for it, also one that nobody has seen: somebody else
// may have written the image, and it is not written twice; and a rebuild that has ended is not pending again. It goes by what is recorded
// of a request, and so comes before observeAsked.
func observePendingRebuild(status *metal3.BareMetalHostStatus, before *metal3.IronicStatus) {
	d, asked, node := status.Record.Deployment, status.Record.Asked, NodeOf(status)
	if d == nil || d.Rebuild == nil || before == nil {
		return
	}
	if asked != nil && asked.Target == string(ironic.TargetRebuild) {
		if node.ProvisionState == ironic.Active && asked.Times <= 1 && ironic.SaysNoWorker(node.LastError) {
			d.Rebuild.StateChangedAt = node.StateChangedAt // it has not begun
		}
		return
	}
	isAside := func(state ironic.ProvisionState) bool { return state.IsDeployed() && state != ironic.Active }
	if (isAside(node.ProvisionState) || isAside(ironic.ProvisionState(before.ProvisionState))) && d.Rebuild.StateChangedAt.Equal(before.StateChangedAt) {
		d.Rebuild.StateChangedAt = node.StateChangedAt
	}
}

// hasStateChanged reports whether Ironic has changed the node's state since a moment when the last change
// was at recorded; nil if there had been none.
func hasStateChanged(recorded *metav1.MicroTime, node *Node) bool {
	switch {
	case node.StateChangedAt == nil:
		return false
	case recorded == nil:
		return true
	}
	return !sameMoment(recorded.Time, node.StateChangedAt.Time)
}

// isStateBefore reports whether a node came into its state before a recorded moment, as after a restore of Ironic's database.
func isStateBefore(node *Node, recorded *metav1.MicroTime) bool {
	return recorded != nil && hasStateChanged(recorded, node) && node.StateChangedAt.Before(&metav1.MicroTime{Time: recorded.Time})
}

// rebuildPause is how old the last change of the node's state must be before a rebuild is asked
// for. Some databases keep whole seconds, and the times before and after the rebuild must differ.
const rebuildPause = 2 * time.Second

// nextOfRebuild has Ironic write the image again. A rebuild that has failed is tried again: the
// machine runs nothing then, and undeploying it first would have it cleaned, which nobody has
// asked for.
func nextOfRebuild(s Situation, rebuild *metal3.Rebuild) Step {
	host, node := s.Host, s.node
	again := Step{Do: Rebuild, Error: metal3.ProvisioningError, Limited: true}
	cancelled := deploy.AttemptChanged(host)
	switch state := node.ProvisionState; {
	case state == ironic.Active && (hasStateChanged(rebuild.StateChangedAt, node) || cancelled):
		return setState(metal3.StateProvisioned) // it has ended, or is not wanted any more
	case cancelled && isDeploymentBegun(state):
		return setState(metal3.StateDeprovisioning)
	case KeptOffBy(host) != "" && (state == ironic.Active || state == ironic.DeployFail || state == ironic.Error):
		return nextOfPower(s) // Ironic would switch it on
	case state == ironic.Active && s.isSwitchedJustNow():
		return Step{Do: Wait, After: rebuildPause}
	case state == ironic.Active:
		if left, may := s.mayStillCome(ironic.TargetRebuild, ironic.TargetDeleted); may {
			return Step{Do: Wait, After: left} // a second one would write over what is written after the first
		}
		return s.retry(again, hasFailed(host))
	case state == ironic.DeployWait:
		return nextOfSilentRamdisk(s)
	case state == ironic.DeployFail, state == ironic.Error:
		if left, may := s.mayStillCome(ironic.TargetRebuild, ironic.TargetDeleted); may {
			return Step{Do: Wait, After: left} // as above: one that was sent twice has failed once
		}
		return s.retry(again, true)
	case state.IsInTransit(), state.IsDeployed(): // another user of Ironic services or rescues the machine
		return Step{Do: Wait}
	}
	// Ironic has lost the node, or somebody has undeployed it. Nothing is written to it as it is, and it is not adopted, because half
	// of the image may have been written: its deployment is gone.
	return setState(metal3.StateProvisioned)
}

// nextOfSilentRamdisk reboots the ramdisk of a rebuild, once for each request: undeploying the node would have it cleaned, and so the
// ramdisk gets another chance instead. It is never off, so that it was rebooted is recorded as for a machine that is never switched off.
func nextOfSilentRamdisk(s Situation) Step {
	host, record := s.Host, &s.Host.Status.Record
	left, mayReboot := s.powerOffMayStillCome()
	switch {
	case hasGoneReboots(host):
		return Step{Do: ForgetReboots}
	case !isForcedOnce(host), s.node.TargetPowerState != "":
		return Step{Do: Wait}
	case mayReboot:
		return Step{Do: Wait, After: left}
	case isRebooted(host, metal3.RebootAnnotation) && (record.AskedPower != nil || record.Reboot != nil):
		return Step{Do: Wait} // until it has ended
	case isRebooted(host, metal3.RebootAnnotation):
		return Step{Do: ClearRebootRequest}
	}
	reboot := Step{Do: SwitchPower, Power: ironic.TargetReboot, Error: metal3.PowerManagementError}
	if ErrorType(&host.Status) != metal3.PowerManagementError {
		return reboot
	}
	return s.retry(reboot, true)
}

func (s Situation) isSwitchedJustNow() bool { return s.changedWithin(rebuildPause) }

// changedWithin reports whether the node came into its state within the last d, by Ironic's clock. It is false if the clock of the
// conductor that has changed the state is ahead of that of the API by more than d: nobody waits until they agree.
func (s Situation) changedWithin(d time.Duration) bool {
	changed := s.node.StateChangedAt
	return changed != nil && !s.IronicNow.IsZero() && s.IronicNow.Sub(changed.Time).Abs() < d
}
