// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/settings"
)

// Observation is what Ironic said about one host.
type Observation struct {
	// Node is the host's node; nil if Ironic has no node with the host's ID.
	Node *ironic.Node
	// Cluster is the UID of this cluster; empty if it is not known.
	Cluster string
	// Inspected is set if the inventory of the node's last inspection was read together with
	// the node (see NeedsInventory).
	Inspected *Inspected
	// CallbackTimeout is how long a ramdisk may be silent if Ironic does not time it out
	// itself; 0 means for ever.
	CallbackTimeout time.Duration
}

// IsConcealed reports whether nothing of the node is recorded but its UUID, because it is not proven that it is the host's.
func (o Observation) IsConcealed(host *metal3.BareMetalHost) bool {
	if o.Node == nil {
		return false
	}
	_, is := isConcealed(host, NodeFromIronic(o.Node), o.Cluster)
	return is
}

// NeedsInventory reports whether the observation has to read the inventory of the node, too.
func (o Observation) NeedsInventory(host *metal3.BareMetalHost) bool {
	return o.Node != nil && NeedsInventory(host, o.Node) && !o.IsConcealed(host)
}

// Inspected is the outcome of an inspection.
type Inspected struct {
	// Hardware is nil if the inspection has stored no inventory, as with the driver
	// fake-hardware, or if there is a Problem.
	Hardware *metal3.HardwareDetails
	// Unread names the parts of the inventory that cannot be read.
	Unread string
	// Problem says why the inventory cannot be used; empty if it can, or if there is none.
	Problem string
	// Pending is set if the problem may be temporary, so that the inventory is to be read
	// again.
	Pending bool
	// Overdue is set if the host no longer waits for that.
	Overdue bool
}

// IsSetBack reports whether the node is in a state that dates from before the one that is recorded of it: the answer comes from
// a reader of Ironic's database that lags behind, Ironic's database was restored, or its clock was set back.
func IsSetBack(host *metal3.BareMetalHost, node *ironic.Node) bool {
	recorded := NodeOf(&host.Status)
	return recorded != nil && recorded.UUID == node.UUID && recorded.StateChangedAt != nil && node.ProvisionUpdatedAt != nil &&
		node.ProvisionUpdatedAt.Truncate(time.Microsecond).Before(recorded.StateChangedAt.Time)
}

// NeedsInventory reports whether the node has been inspected since its inventory was last read,
// so that an observation has to read the inventory, too. What a user gives in place of inspections is not replaced.
func NeedsInventory(host *metal3.BareMetalHost, node *ironic.Node) bool {
	if host.InspectionDisabled() && host.Status.HardwareDetails != nil {
		return false
	}
	if node.InspectionFinishedAt == nil || node.ProvisionState == ironic.Inspecting || node.ProvisionState == ironic.InspectWait {
		return false
	}
	if isInspectionRefused(node) {
		return false
	}
	return !isInventoryRead(host.Status.Ironic, node)
}

// isInspectionRefused reports whether Ironic had no worker for the last inspection, whose end it shows all the same.
func isInspectionRefused(node *ironic.Node) bool {
	return node.InspectionFinishedAt != nil && node.ProvisionState == ironic.Manageable && ironic.SaysNoWorker(node.LastError)
}

// finishedAt returns when the node's last inspection ended, with the precision that is recorded.
func finishedAt(node *ironic.Node) *metav1.MicroTime {
	return new(metav1.NewMicroTime(node.InspectionFinishedAt.Truncate(time.Microsecond)))
}

// isInventoryRead reports whether the inventory of the node's last inspection was read, according to what is
// recorded of the node.
func isInventoryRead(recorded *metal3.IronicStatus, node *ironic.Node) bool {
	return recorded != nil && recorded.InspectionFinishedAt != nil && sameMoment(recorded.InspectionFinishedAt.Time, *node.InspectionFinishedAt)
}

// sameMoment compares a time that Ironic returned with a recorded one, which has no more than
// microseconds.
func sameMoment(a, b time.Time) bool {
	return a.Truncate(time.Microsecond).Equal(b.Truncate(time.Microsecond))
}

// Observe returns the status of host according to an observation. It computes the fields that
// come from Ironic and keeps the others as they are recorded. It ignores whatever changes
// continually, such as clocks and heartbeats, so the status of a host to which nothing happens
// remains the same, and changed is false. If anything has changed, LastUpdated is set to now.
func Observe(host *metal3.BareMetalHost, seen Observation, now time.Time) (status metal3.BareMetalHostStatus, changed bool) {
	status = copyStatus(&host.Status)
	again := false
	switch detached := host.IsDetached(); {
	case detached && status.Record.Silence == nil:
		return status, false // the host has no node on purpose, and its status is frozen
	case detached: // only the silence, which dates from an outage, ends
	case seen.Node == nil:
		observeMissing(&status, host, now)
	default:
		if reason, is := isConcealed(host, NodeFromIronic(seen.Node), seen.Cluster); is {
			concealNode(&status, reason)
			break
		}
		again = observeNode(&status, host, seen, now)
	}
	status.Record.Observed, status.Record.Silence = true, nil
	render(&status, host, again, now)
	if equalStatus(status, host.Status) {
		return status, false
	}
	status.LastUpdated = &metav1.Time{Time: now.Truncate(time.Second)}
	return status, true
}

// copyStatus returns a copy that shares the hardware details, which are most of a status and are
// only ever replaced as a whole.
func copyStatus(status *metal3.BareMetalHostStatus) metal3.BareMetalHostStatus {
	shallow := *status
	shallow.HardwareDetails = nil
	copied := *shallow.DeepCopy()
	copied.HardwareDetails = status.HardwareDetails
	return copied
}

// equalStatus compares two statuses, and their hardware details only if they do not share them.
func equalStatus(a, b metal3.BareMetalHostStatus) bool {
	if a.HardwareDetails == b.HardwareDetails {
		a.HardwareDetails, b.HardwareDetails = nil, nil
	}
	return equality.Semantic.DeepEqual(a, b)
}

// observeMissing updates the status of a host whose node Ironic does not have, because it was
// not created yet or Ironic has lost it. What was learned from the node earlier is kept.
func observeMissing(status *metal3.BareMetalHostStatus, host *metal3.BareMetalHost, now time.Time) {
	if status.Ironic != nil && host.DeletionTimestamp.IsZero() && status.Record.Transfer == nil { // else it is meant to be gone
		status.Record.Registration = newRegistration(host, metal3.NodeLostReason,
			"Ironic no longer has node "+status.Ironic.NodeUUID+"; the host is registered again")
	}
	noteLoss(status, lastSeen(status), now)
	forgetNode(status)
}

// forgetNode drops what was learned of a node that is gone, or that may not be the host's any more, and would look as if it still held.
func forgetNode(status *metal3.BareMetalHostStatus) {
	status.Ironic, status.Record.Health = nil, ""
	if network := status.Record.Network; network != nil {
		status.Record.Network = &metal3.NetworkVerdict{
			Generation: network.Generation, Reason: metal3.UnknownReason, Message: "Ironic has no node that is known to be the host's, and so none of its switch ports",
		}
	}
}

// concealNode records a node that may not be the host's: nothing of it is shown, nor concluded from it.
func concealNode(status *metal3.BareMetalHostStatus, reason string) {
	forgetNode(status)
	status.Ironic = &metal3.IronicStatus{NodeUUID: status.Provisioning.ID, Instance: status.Record.Ironic, Unproven: reason}
}

// observeNode updates the status of a host from its node. It reports whether an attempt has ended that may
// have failed as the last one did.
func observeNode(status *metal3.BareMetalHostStatus, host *metal3.BareMetalHost, seen Observation, now time.Time) (again bool) {
	node := seen.Node
	before := status.Ironic
	status.Ironic = ironicStatus(node)
	status.Ironic.Instance = status.Record.Ironic
	if before != nil {
		status.Ironic.InspectionFinishedAt, status.Ironic.UnreadInventory = before.InspectionFinishedAt, before.UnreadInventory
	}
	observeProgress(status.Ironic, before, node, now)
	observeForgotten(status.Ironic, before, node, now)
	recorded := NodeOf(status)
	status.Ironic.AbortRequested = isAbortRequested(host, recorded)
	settings.Observe(status, before, node, WholeSeconds(now))
	status.Provisioning.ID = node.UUID
	status.Provisioning.State = stateOf(host, recorded)
	observeUndeploying(status, before, node, now)
	observePendingRebuild(status, before)
	observeAsked(status)
	observeAskedPower(status)
	rebootFailed := observeReboot(status, host)
	observePowerCut(status, host, now)
	observeDeployment(status, host, node)
	observeGone(status, host, before, node, now)
	observeServicing(status, host, node, now)
	ShowPower(host, status, now)
	observeInspection(status, host, seen, now)
	status.Ironic.InventoryPending = NeedsInventory(host, node) && !isInventoryRead(status.Ironic, node)
	observeRegistration(status, recorded, now)
	observeRamdiskTimeout(status, seen, now)
	if node.Health != "" { // as it always is before Ironic API 1.109
		status.Record.Health = node.Health
	}
	if errorOf(status, host) == nil && isSettled(status, host, recorded) {
		resetErrorCount(status)
	}
	return before != nil && (rebootFailed || hasAttemptEnded(ErrorType(status), before, recorded))
}

// hasAttemptEnded reports whether an attempt has ended during which the error of the previous
// attempt was kept. If the node shows the same error now, it counts as another failure. (Other
// attempts remove the error when they begin. A change of the state alone does not suffice,
// because Ironic writes the error before the state.)
func hasAttemptEnded(failed metal3.ErrorType, before *metal3.IronicStatus, node *Node) bool {
	switch ironic.ProvisionState(before.ProvisionState) {
	case ironic.Verifying, ironic.Adopting:
		return string(node.ProvisionState) != before.ProvisionState
	}
	// If the node is in a failed state, the error has the type that belongs to that state, so
	// last_error shows whether the power action has failed.
	return before.TargetPowerState != "" && node.TargetPowerState == "" && (failed == metal3.PowerManagementError || powerActionFailed(node, node.LastError))
}

// isSettled reports whether the host and its node have reached the state and the power state that
// the spec asks for, so that earlier errors in a row no longer count.
func isSettled(status *metal3.BareMetalHostStatus, host *metal3.BareMetalHost, node *Node) bool {
	arrived := false
	switch status.Provisioning.State {
	case metal3.StateAvailable:
		arrived = node.ProvisionState == ironic.Manageable || node.ProvisionState == ironic.Available
	case metal3.StateProvisioned, metal3.StateExternallyProvisioned:
		arrived = node.ProvisionState == ironic.Active
	}
	kept := status.PoweredOn && status.Record.Deployment != nil && status.Record.Deployment.KeepPower
	return arrived && node.TargetPowerState == "" && (status.PoweredOn == host.Spec.Online || kept)
}

// observeInspection updates the history of inspections, and the hardware once the inventory of
// a finished inspection has been read.
func observeInspection(status *metal3.BareMetalHostStatus, host *metal3.BareMetalHost, seen Observation, now time.Time) {
	node, inspect := seen.Node, &status.OperationHistory.Inspect
	began := node.InspectionStartedAt
	if began != nil && (inspect.Start.IsZero() || !inspect.End.IsZero() && began.After(inspect.End.Time)) {
		// Another client of Ironic has begun this inspection. (inspection_started_at is null again when an
		// inspection has ended.)
		*inspect = metal3.OperationMetric{Start: WholeSeconds(*began)}
	}
	if isInspectionRefused(node) {
		status.Ironic.InspectionFinishedAt = finishedAt(node) // it has not begun, also when Ironic does not say any more why
	}
	if seen.Inspected == nil || !NeedsInventory(host, node) {
		return
	}
	if seen.Inspected.Pending {
		setUnusableInventory(status, seen)
		if seen.Inspected.Overdue {
			endInspection(status, node, now)
		}
		return
	}
	endInspection(status, node, now)
	status.Ironic.InspectionFinishedAt = finishedAt(node)
	status.Ironic.UnreadInventory = CutMessage(seen.Inspected.Unread)
	if seen.Inspected.Hardware != nil {
		status.HardwareDetails, status.Record.Inspected = seen.Inspected.Hardware, true
	}
	if seen.Inspected.Problem == "" {
		status.Record.UnusableInventory = nil
		return
	}
	setUnusableInventory(status, seen)
}

// endInspection records in the history that the node's last inspection has ended.
func endInspection(status *metal3.BareMetalHostStatus, node *ironic.Node, now time.Time) {
	inspect, finished := &status.OperationHistory.Inspect, *node.InspectionFinishedAt
	switch wasAnotherRead := status.Ironic.InspectionFinishedAt != nil; {
	case isUnderWay(*inspect):
		inspect.End = WholeSeconds(now)
	case !inspect.End.IsZero() && !inspect.End.Time.Before(finished.Truncate(time.Second)):
		// It is known: the host has gone on before its inventory could be read, or it was moved here.
	case wasAnotherRead || status.Provisioning.State == metal3.StateInspecting: // its beginning was missed
		*inspect = metal3.OperationMetric{Start: WholeSeconds(finished), End: WholeSeconds(now)}
	default: // it had ended before this server knew the node, and the history stays as it was brought along
	}
}

func setUnusableInventory(status *metal3.BareMetalHostStatus, seen Observation) {
	status.Record.UnusableInventory = &metal3.UnusableInventory{
		InspectionFinishedAt: *finishedAt(seen.Node),
		Problem:              CutMessage(seen.Inspected.Problem),
	}
}

// observeRamdiskTimeout times out a ramdisk for which Ironic waits without a timeout, because it
// does not poll the node (ironic.Node.IsNotPolled). Each heartbeat of a ramdisk renews provision_updated_at.
//
// The timeout remains the cause of the failure during the abort that follows from it, and
// until the next attempt. Otherwise the error would be that of Ironic, which only says that
// somebody has requested the abort.
func observeRamdiskTimeout(status *metal3.BareMetalHostStatus, seen Observation, now time.Time) {
	node := seen.Node
	message := silence(seen, now)
	switch {
	case node.ProvisionState == ironic.DeployWait && status.Provisioning.State == metal3.StateDeprovisioning:
		// It was given up already, and the failure of the deployment says why; the request that undoes it is on its way.
	case message != "":
		status.Record.Failure = &metal3.Failure{Cause: metal3.CallbackTimeout, Message: message}
	case node.ProvisionState == ironic.InspectFail, node.ProvisionState == ironic.CleanFail:
	case node.ProvisionState.IsWaiting() && node.Reservation != "":
	case isTimedOut(status):
		status.Record.Failure = nil
	}
}

// silence returns why a ramdisk will not call any more, or nothing.
func silence(seen Observation, now time.Time) string {
	node, limit := seen.Node, seen.CallbackTimeout
	if node.ProvisionUpdatedAt == nil || node.Reservation != "" || node.LockConcealed || !node.IsNotPolled() || !node.ProvisionState.IsWaiting() || limit == 0 {
		return ""
	}
	if !node.AnsweredAt.IsZero() {
		now = node.AnsweredAt // our clock may differ from Ironic's
	}
	if now.Sub(*node.ProvisionUpdatedAt) <= limit {
		return ""
	}
	return fmt.Sprintf("The ramdisk has not called Ironic for more than %s (%s)", limit, node.ProvisionState)
}

// observeRegistration notes that the BMC has accepted the credentials, which is known once the
// node has left the states enroll and verifying.
func observeRegistration(status *metal3.BareMetalHostStatus, node *Node, now time.Time) {
	if node.ProvisionState == ironic.Enroll || node.ProvisionState == ironic.Verifying || node.Fault == ironic.FaultPowerFailure {
		return
	}
	status.GoodCredentials = status.TriedCredentials
	register := &status.OperationHistory.Register
	if !register.Start.IsZero() && register.End.IsZero() {
		register.End = WholeSeconds(now)
	}
}

// WholeSeconds truncates a time to seconds, the precision of metav1.Time in JSON.
func WholeSeconds(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }
