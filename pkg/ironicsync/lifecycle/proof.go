package lifecycle

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
)

// What destroys or interrupts (undeploying, cleaning, inspecting, switching off) rests on
// what holds now and never on memory alone: the node is this host's, Ironic talks to this
// host's BMC, and what runs on the node is what the host's status is about. Where one of
// these does not hold, the step is not taken, and the condition Held says why.

// contradiction is why a step must not be taken.
type contradiction struct {
	reason, message string
	// anything is set where nothing at all may be asked of Ironic for the node, because it
	// may be somebody else's. Otherwise only what interrupts the machine must not.
	anything bool
	// foreign is set where the node is somebody else's, so that the host may go without it.
	foreign bool
	// other is the host that seems to be of the same machine.
	other types.UID
}

const (
	// maxNodesAge is how long before the host's own node all nodes may have been read. The poll reads them
	// each second, and takes longer where Ironic is slow.
	maxNodesAge = time.Minute
	// nodesPause is when to look whether all nodes are known by now.
	nodesPause = time.Second
	// sharedPause is when to look whether another node with the host's BMC is still there, or Ironic still has nodes of others
	// only: that this changes is no change of the host.
	sharedPause = 10 * time.Second
)

// isUnknown tells whether the step has to wait because it is not known well enough which other nodes there
// are. A server that has just started knows of none, and one that could not read the feed may not know of a
// new one.
func isUnknown(s Situation) bool {
	if s.node == nil || isSharedBMCConfirmed(s.Host, s.node) {
		return false // other nodes do not matter
	}
	asOf := s.OtherNodes.AsOf
	return asOf.IsZero() || !s.ObservedAt.IsZero() && s.ObservedAt.Sub(asOf) > maxNodesAge
}

// contradictionOf returns what keeps the server from acting on the host's node; nil if
// nothing does. step is the one that would be taken.
func contradictionOf(s Situation, step Step) *contradiction {
	if s.Restored != "" {
		return &contradiction{reason: metal3.RestoredReason, message: s.Restored + step.intention(), anything: true}
	}
	if s.OperatorRunning != "" {
		return &contradiction{reason: metal3.OperatorRunningReason, message: s.OperatorRunning, anything: true}
	}
	host, node := s.Host, s.node
	if c := unreadableStatus(host); c != nil {
		return c
	}
	if isLostSinceBackup(host, node) {
		return &contradiction{reason: metal3.AnotherDeploymentReason, message: "This host is of a backup, and Ironic does not have the deployment any more that is to be undone: it may be over, and the machine somebody else's. The machine is not undeployed, cleaned, inspected or switched off. To have it treated as this host's, confirm its node with the subresource takeover; to leave it alone, detach the host"}
	}
	if node == nil {
		return anotherIronic(s)
	}
	if s.NodeOfAnother {
		return nodeOfAnotherHost() // which no person can confirm to be this host's: that one has it
	}
	if c := unproven(host, node, s.Cluster); c != nil {
		return c
	}
	switch {
	case isInOthersMaintenance(host, node) && step.undeploys():
		return &contradiction{reason: metal3.NodeInMaintenanceReason, message: fmt.Sprintf(
			"The host is being deleted, and node %s is in maintenance, for which somebody has asked (%q). Undeploying it would cut the power, and Ironic does not answer the ramdisk of such a node, so that it would not be cleaned. End the maintenance; or detach the host, which is then deleted without touching the machine",
			node.UUID, node.MaintenanceReason)}
	case isGone(host):
		return &contradiction{reason: metal3.DeploymentGoneReason, anything: true, message: goneMessage(&host.Status, host.Status.Record.Deployment.Gone)}
	case isTakenOver(host, node):
		if isSharedBMCConfirmed(host, node) {
			return sameMachine(s)
		}
		return shared(s) // which nobody has seen who has confirmed the rest
	}
	switch {
	case shared(s) != nil:
		return shared(s)
	case isReserved(host, node):
		return &contradiction{reason: metal3.AnotherDeploymentReason, message: fmt.Sprintf(
			"Node %s is reserved with instance_uuid %q, which this server has not set: somebody else uses Ironic to deploy the node. It is not deployed, cleaned, inspected or switched off. Have its user release it, or remove its instance_uuid in Ironic; to have it treated as this host's, confirm it with the subresource takeover",
			node.UUID, node.InstanceUUID)}
	case !isDeploymentOf(host, node):
		return &contradiction{reason: metal3.AnotherDeploymentReason, message: fmt.Sprintf(
			"Node %s is %s with instance_uuid %q, and this host's status is about %s: somebody else has deployed the node, or a backup was restored. The machine is not undeployed, cleaned, inspected or switched off. To have it treated as this host's, confirm it with the subresource takeover; to leave it alone, detach the host",
			node.UUID, node.ProvisionState, node.InstanceUUID, describeDeployment(host))}
	case step.undeploys() && isWithoutIdentity(host, node):
		return &contradiction{reason: metal3.AnotherDeploymentReason, message: fmt.Sprintf(
			"Node %s is %s and has no instance_uuid, so it is not certain that it runs what this host's status is about. The machine is not undeployed or cleaned. To have it treated as this host's, confirm it with the subresource takeover; to leave it alone, detach the host",
			node.UUID, node.ProvisionState)}
	case isOthersDeployment(host):
		return &contradiction{reason: metal3.AnotherDeploymentReason, message: fmt.Sprintf(
			"Node %s is %s with instance_uuid %q, by somebody else, and the image in the spec was not written to it by this server. The machine is not undeployed, cleaned, inspected or switched off. If it runs what the spec says, confirm it with the subresource takeover; to have it provisioned, undeploy the node in Ironic; to leave it alone, remove the image from the spec",
			node.UUID, node.ProvisionState, node.InstanceUUID)}
	}
	return nil
}

// unreadableStatus is that a host brings along a status that cannot be read, so that it is not known what its machine runs. Without the
// status, the host would be new, and its machine would be deployed anew.
func unreadableStatus(host *metal3.BareMetalHost) *contradiction {
	if !hasStatusToRestore(host) || !host.DeletionTimestamp.IsZero() {
		return nil
	}
	_, err := metal3.ParseStatusAnnotation(host.Annotations[metal3.StatusAnnotation])
	if err == nil {
		return nil
	}
	return &contradiction{reason: metal3.StatusUnreadableReason, anything: true, message: fmt.Sprintf(
		"The annotation %s, with which the host was created, cannot be read, so it is not known what the machine runs: it %v. Correct the annotation; or remove it to have the host registered as a new one, whose machine runs nothing",
		metal3.StatusAnnotation, err)}
}

// anotherIronic is that the Ironic which has no node of the host is not the one in which the host was registered, or others were.
func anotherIronic(s Situation) *contradiction {
	host := s.Host
	switch {
	case !s.AnotherIronic || !hasBMC(host) || !host.DeletionTimestamp.IsZero() && !IsNodeExpected(host),
		hasAnnotation(host, metal3.DetachedAnnotation): // a person lets it go, and nothing is asked of Ironic for that
		return nil
	}
	return &contradiction{reason: metal3.AnotherIronicReason, anything: true, message: fmt.Sprintf(
		"Ironic has no node of this host, nor of any other host that was registered in it, and it has nodes of others: its address seems to lead to another Ironic, while the host's own still manages the machine. Nothing is registered in it. Put the address right (the server's flags, or spec.endpoint of the IronicInstance). If it is the right one, and has lost its database, create a node with the name %q and the address of the host's BMC in it: all hosts are registered again then. To let this host go without its machine being touched, detach it",
		NodeName(host))}
}

// shared is that somebody may use the machine through another node.
func shared(s Situation) *contradiction {
	switch {
	case s.OtherNodes.Exist:
		return &contradiction{reason: metal3.BMCInUseReason, message: fmt.Sprintf(
			"Ironic has another node with the BMC at %q, through which somebody may use the machine. It is not undeployed, cleaned, inspected or switched off. Delete the other node in Ironic or correct its driver_info, or confirm node %s with the subresource takeover",
			s.node.BMC, s.node.UUID)}
	}
	if c := sameMachine(s); c != nil {
		return c
	}
	elsewhere, unread := nodeElsewhere(s.node), maybeElsewhere(s.node)
	switch held := s.Host.Status.Record.Hold; {
	case s.OtherNodes.ExistElsewhere:
		return elsewhere
	case s.OtherNodes.MayExistElsewhere && !isUnknown(s) && (elsewhere.isOf(held) || unread.isOf(held)):
		return unread
	}
	return nil
}

// sameMachine is that somebody may use the machine as another host.
func sameMachine(s Situation) *contradiction {
	if s.SameMachine.Host == "" {
		return nil
	}
	return &contradiction{reason: metal3.BMCInUseReason, other: s.SameMachine.Host, message: s.SameMachine.Message +
		", so somebody may use the machine through another BMC address. It is not undeployed, deployed, cleaned, inspected or switched off. Delete the host that is wrong; or, if they are different machines, confirm that with the subresource takeover, once for both"}
}

// isOf tells whether a contradiction is what is recorded of a host.
func (c *contradiction) isOf(held *metal3.Hold) bool {
	return held != nil && held.Reason == c.reason && held.Message == CutMessage(c.message) && held.Other == c.other
}

// The words of these two are compared with what is recorded of a host: other words would let a host go that is held.

// nodeElsewhere is that another Ironic has a node with the BMC of node, and maybeElsewhere that it had one, and cannot be read.
func nodeElsewhere(node *Node) *contradiction {
	return &contradiction{reason: metal3.BMCInUseReason, message: fmt.Sprintf(
		"Another Ironic of this server has a node with the BMC at %q, through which somebody may use the machine. It is not undeployed, cleaned, inspected or switched off. Delete that node or correct its driver_info, or confirm node %s with the subresource takeover",
		node.BMC, node.UUID)}
}

func maybeElsewhere(node *Node) *contradiction {
	return &contradiction{reason: metal3.BMCInUseReason, message: fmt.Sprintf(
		"Another Ironic of this server had a node with the BMC at %q. Whether it still has it is not known, because not all Ironics have been read since the server started. The machine is not undeployed, cleaned, inspected or switched off. Have them answer (kubectl get ironicinstances), or confirm node %s with the subresource takeover",
		node.BMC, node.UUID)}
}

// isOthersDeployment tells whether the host is provisioned with what was found on its node, while its spec asks
// for an image.
func isOthersDeployment(host *metal3.BareMetalHost) bool {
	return host.Status.Provisioning.State == metal3.StateProvisioned && host.DeletionTimestamp.IsZero() && deploy.WantsImage(&host.Spec) && !deploy.Deployed(host) && !isUndeployed(host)
}

// isInOthersMaintenance tells whether a host that is to be deleted, and not only detached, has a node in a
// maintenance that somebody has asked for.
func isInOthersMaintenance(host *metal3.BareMetalHost, node *Node) bool {
	return !host.DeletionTimestamp.IsZero() && !hasAnnotation(host, metal3.DetachedAnnotation) &&
		node.Maintenance && node.Fault == "" && node.MaintenanceReason != LeavingReason(host)
}

// isDeploymentOf tells whether what is deployed on the node, if anything, is what the
// host's status is about. It is asked of hosts that are in a state of being deployed only:
// others take over what they find.
func isDeploymentOf(host *metal3.BareMetalHost, node *Node) bool {
	undeploying := false
	switch host.Status.Provisioning.State {
	case metal3.StateProvisioned, metal3.StateExternallyProvisioned:
	case metal3.StateProvisioning:
		if !isUnderWay(host.Status.OperationHistory.Provision) {
			return true // somebody else's deployment, which is followed and not touched
		}
	case metal3.StateDeprovisioning:
		if undeploying = isUnderWay(host.Status.OperationHistory.Deprovision); !undeploying {
			return true
		}
	case metal3.StatePoweringOffBeforeDelete, metal3.StateDeleting:
	default:
		return true // nothing on it is this host's, and nothing is done to what somebody deploys
	}
	switch state := node.ProvisionState; {
	case state == ironic.Deleting, state == ironic.Error && node.InstanceUUID == "":
		return true // Ironic forgets the instance on the way
	case !isDeployed(state) && !isDeploymentBegun(state):
		return true
	}
	recorded := host.Status.Record.Deployment
	if recorded == nil {
		// By the Bare Metal Operator, which gives the host's UID to the node; or begun on
		// a node that was left over from an earlier host of the name.
		return node.InstanceUUID == string(host.UID) || undeploying && !isDeployed(node.ProvisionState)
	}
	return recorded.NodeUUID == node.UUID && recorded.InstanceUUID == node.InstanceUUID
}

// isWithoutIdentity tells whether nothing tells what a node runs from another deployment, because whoever deployed it gave it no
// instance_uuid. That suffices for what ends nothing.
func isWithoutIdentity(host *metal3.BareMetalHost, node *Node) bool {
	return isDeployed(node.ProvisionState) && node.InstanceUUID == "" && isToBeUndeployed(host)
}

// isLostSinceBackup tells whether the host, which a backup was restored of, is to be
// undeployed, while Ironic has no deployment for it, nor is at work on its end. A node that
// Ironic has lost without a restore is cleaned: its host is of today.
func isLostSinceBackup(host *metal3.BareMetalHost, node *Node) bool {
	held := host.Status.Record.Hold
	if held == nil || held.Reason != metal3.RestoredReason && held.Reason != metal3.AnotherDeploymentReason || !isToBeUndeployed(host) {
		return false
	}
	if node == nil {
		return true
	}
	switch node.ProvisionState {
	case ironic.Enroll, ironic.Verifying, ironic.Manageable, ironic.InspectFail, ironic.CleanFail, ironic.AdoptFail:
		return !isTakenOver(host, node)
	}
	return false
}

// isToBeUndeployed tells whether the host's record and its spec ask for the end of what this
// server has deployed.
func isToBeUndeployed(host *metal3.BareMetalHost) bool {
	deleted := !host.DeletionTimestamp.IsZero()
	switch host.Status.Provisioning.State {
	case metal3.StateProvisioning:
		return deleted && isUnderWay(host.Status.OperationHistory.Provision)
	case metal3.StateProvisioned:
		return deploy.Deployed(host) && (deleted || deploy.MustDeprovision(host))
	case metal3.StateDeprovisioning:
		return isUnderWay(host.Status.OperationHistory.Deprovision)
	}
	return false
}

func recordedInstance(host *metal3.BareMetalHost) string {
	if d := host.Status.Record.Deployment; d != nil {
		return d.InstanceUUID
	}
	return string(host.UID)
}

// describeDeployment says what the host's status is about.
func describeDeployment(host *metal3.BareMetalHost) string {
	if d := host.Status.Record.Deployment; d != nil {
		return fmt.Sprintf("instance_uuid %q on node %s", d.InstanceUUID, d.NodeUUID)
	}
	return fmt.Sprintf("instance_uuid %q", host.UID)
}

// observeDeployment records what is deployed on the node of a host whose status is by the Bare Metal
// Operator, or was restored from an annotation. What is recorded already stays: that Ironic reports
// something else now is what Hold is about.
func observeDeployment(status *metal3.BareMetalHostStatus, host *metal3.BareMetalHost, node *ironic.Node) {
	if status.Record.Deployment != nil && host.Spec.Online {
		status.Record.Deployment.KeepPower = false // spec.online counts from now on
	}
	if status.Record.Deployment != nil || node.ProvisionState != ironic.Active {
		return
	}
	switch status.Provisioning.State {
	case metal3.StateProvisioned, metal3.StateExternallyProvisioned:
		// A name is given to a node of whatever runs. What an external host runs may have no identity; nothing of it is ended.
		isExternal := status.Provisioning.State == metal3.StateExternallyProvisioned && node.InstanceUUID == "" && node.Name == NodeName(host)
		if isExternal || node.InstanceUUID == string(host.UID) || string(node.Marks.Host) == string(host.UID) {
			status.Record.Deployment = deploymentOn(NodeOf(status))
		}
	}
}

// deploymentOn is what is deployed on a node.
func deploymentOn(node *Node) *metal3.Deployment {
	return &metal3.Deployment{NodeUUID: node.UUID, InstanceUUID: node.InstanceUUID}
}

// newInstanceUUID is the instance_uuid of an attempt to provision host. Another attempt
// begins at another time, and so has another one. Its first groups follow from the host, and the last one from that time, so that
// the server knows what it has set itself, whatever has become of the record of that attempt.
func newInstanceUUID(host *metal3.BareMetalHost, began metav1.Time) string {
	id := instanceUUIDsOf(host)
	seconds := binary.BigEndian.AppendUint64(nil, uint64(began.Unix()))
	copy(id[lastGroup:], seconds[len(seconds)-len(id[lastGroup:]):])
	return id.String()
}

// AdoptedInstanceUUID is the instance_uuid with which the node of a host is created that Ironic is to adopt although nothing is
// recorded of what it runs. It is another one after each registration.
func AdoptedInstanceUUID(host *metal3.BareMetalHost) string {
	return newInstanceUUID(host, host.Status.OperationHistory.Register.Start)
}

// IdentifyDeployment gives the deployment of a host an instance_uuid that has none, before Ironic adopts it.
func IdentifyDeployment(host *metal3.BareMetalHost, now time.Time) {
	if d := host.Status.Record.Deployment; d != nil && d.InstanceUUID == "" {
		d.InstanceUUID = newInstanceUUID(host, WholeSeconds(now))
	}
}

// lastGroup is where the last of the groups of a UUID begins.
const lastGroup = 10

// instanceUUIDsOf has the first groups of all instance_uuids of host.
func instanceUUIDsOf(host *metal3.BareMetalHost) uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("metal3-apiserver/"+string(host.UID)))
}

// IsOwnInstance reports whether instance, which is not empty, is an instance_uuid that this server has set for host, at some time, or
// that the Bare Metal Operator has: the host's UID; or that a person has confirmed to be the host's.
func IsOwnInstance(host *metal3.BareMetalHost, nodeUUID, instance string) bool {
	record := &host.Status.Record
	if instance == string(host.UID) || record.Deployment != nil && record.Deployment.InstanceUUID == instance ||
		record.Takeover != nil && record.Takeover.NodeUUID == nodeUUID && record.Takeover.InstanceUUID == instance {
		return true
	}
	given, err := uuid.Parse(instance)
	own := instanceUUIDsOf(host)
	return err == nil && bytes.Equal(given[:lastGroup], own[:lastGroup])
}

// isReserved reports whether somebody else has set the instance_uuid of a node on which nothing is deployed: that is how users of
// Ironic reserve a node before they deploy it.
func isReserved(host *metal3.BareMetalHost, node *Node) bool {
	switch node.ProvisionState {
	case ironic.Available, ironic.Manageable:
		return node.InstanceUUID != "" && !IsOwnInstance(host, node.UUID, node.InstanceUUID)
	}
	return false
}

// InstanceUUID is the instance_uuid that the node of a host has while it is deployed.
func InstanceUUID(host *metal3.BareMetalHost) string { return recordedInstance(host) }

// guarded is step, if nothing contradicts it. What does is recorded first.
func guarded(s Situation, step Step) Step {
	found := contradictionOf(s, step)
	held := s.Host.Status.Record.Hold
	if found == nil && isUnknown(s) {
		return untilKnown(s, step)
	}
	switch {
	case step.Do == Begin && (found == nil || found.reason != metal3.StatusUnreadableReason), metal3.IsPaused(s.Host) && !changesHoldOfPaused(found, held):
		return step
	case found == nil && held != nil:
		return Step{Do: Hold}
	case found == nil && step.cleans() && !isCleaningTold(s):
		if s.node.ProvisionState.IsInTransit() {
			return Step{Do: Wait} // Ironic does not let it be changed now, and would clean
		}
		tell := Step{Do: SetCleaning, Error: metal3.ProvisioningError}
		if s.Host.Status.Record.Failure == nil {
			return tell // an error of the registration is no reason to wait
		}
		return s.retry(tell, true)
	case found == nil && step.Do == Wait && s.Host.Status.Record.Resembles != CutMessage(s.SameMachine.Resembles):
		return Step{Do: NoteResemblance, Message: s.SameMachine.Resembles}
	case found == nil:
		return step
	case found.foreign && !s.Host.DeletionTimestamp.IsZero() && hasFinalizer(s.Host):
		return Step{Do: Release} // the node is not the host's to undeploy, or to remove
	case !found.isOf(held):
		return Step{Do: Hold, Reason: found.reason, Message: found.message, Other: found.other}
	case isFencedAllTheSame(s, found):
		return fence(s)
	case found.anything && step.asksIronic(), step.Interrupts(), step.Do == Begin:
		step = Step{Do: Wait}
	}
	if step.Do == Wait && step.After == 0 && (found.reason == metal3.BMCInUseReason || found.reason == metal3.AnotherIronicReason) {
		step.After = sharedPause
	}
	return step
}

// changesHoldOfPaused tells whether the hold of a paused host is to be changed: it ends with what it was about, and
// that the status is of a backup is recorded even then, because it is evidence after the pause, too.
func changesHoldOfPaused(found *contradiction, held *metal3.Hold) bool {
	if found == nil {
		return held != nil
	}
	return found.reason == metal3.RestoredReason
}

// untilKnown is what to do while it is not known whether another node has the host's BMC: the step, if it does not
// interrupt the machine. A hold that may rest on such a node stays.
func untilKnown(s Situation, step Step) Step {
	held := s.Host.Status.Record.Hold
	switch {
	case step.Do == Begin:
		return step
	case held != nil && held.Reason != metal3.BMCInUseReason && !metal3.IsPaused(s.Host):
		return Step{Do: Hold} // what it was about is over
	case step.Interrupts():
		return Step{Do: Wait, After: nodesPause, Message: nodesUnknown}
	}
	return step
}

// nodesUnknown is for the users of hosts whose machines are not interrupted meanwhile.
const nodesUnknown = "Ironic has not told for more than a minute which nodes it has, or never since this server leads. " +
	"Another of them may have the BMC of this host, so the machine is not deployed, cleaned, inspected or switched off before that is known"

// asksIronic tells whether the step is one towards Ironic, or would lead to one.
func (s Step) asksIronic() bool {
	switch s.Do {
	case Wait, Begin, Report, Hold, NoteResemblance, AwaitImage, ClearRebootRequest, EndServicing:
		return false
	}
	return true
}

// Interrupts tells whether the step ends what a machine runs, or writes to its disks; or lets its node go for one in another
// Ironic, which is to take over what holds now.
func (s Step) Interrupts() bool {
	switch s.Do {
	case Deploy, Rebuild, Prepare, Service, LeaveService, LeaveIronic:
		return true
	case SwitchPower:
		return s.Power != ironic.TargetPowerOn
	case Provision:
		switch s.Target {
		case ironic.TargetManage, ironic.TargetAdopt:
			return false
		}
		return true
	case SetState:
		// The state itself is a decision that is only to be made of what holds.
		switch s.State {
		case metal3.StateDeprovisioning, metal3.StateInspecting, metal3.StateProvisioning, metal3.StatePoweringOffBeforeDelete:
			return true
		}
	}
	return false
}

// cleans tells whether Ironic cleans the disks of the node as a part of the step, unless
// it is told not to.
func (s Step) cleans() bool {
	return s.Do == Provision && (s.Target == ironic.TargetDeleted || s.Target == ironic.TargetProvide)
}

// isCleaningTold tells whether Ironic knows of a host that its disks are not to be
// cleaned. The rest of a registration may have to wait for a Secret; this must not.
func isCleaningTold(s Situation) bool {
	return s.Host.Spec.AutomatedCleaningMode != metal3.CleaningModeDisabled || s.node.AutomatedClean == "false"
}

// undeploys tells whether the step begins or continues the end of a deployment.
func (s Step) undeploys() bool {
	return s.Do == SetState && s.State == metal3.StateDeprovisioning || s.Do == Provision && s.Interrupts()
}

// intention is what the step would do to the machine, for people who decide on that.
func (s Step) intention() string {
	if !s.asksIronic() {
		return ""
	}
	what := string(s.Do)
	switch {
	case s.Target != "":
		what += " " + string(s.Target)
	case s.Power != "":
		what += " " + string(s.Power)
	case s.State != "":
		what += " " + string(s.State)
	}
	return "; the next step would be: " + what
}
