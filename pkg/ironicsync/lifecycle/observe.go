package lifecycle

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// Observation is what Ironic said about one host.
type Observation struct {
	// Node is nil when Ironic has no node with the host's ID.
	Node *ironic.Node
	// Inspected is set when the inventory of the node's last inspection was
	// read along with the node (see NeedsInventory).
	Inspected *Inspected
	// CallbackTimeout is how long a ramdisk may be silent where Ironic does not
	// watch over it; 0 is for ever.
	CallbackTimeout time.Duration
}

// Inspected is the outcome of an inspection.
type Inspected struct {
	// Hardware is nil when the inspection left no inventory, as that of
	// fake-hardware does.
	Hardware *metal3.HardwareDetails
	// Problem says why the inventory cannot be used; empty when it can, or when
	// there is none.
	Problem string
	// Pending is set when the problem may pass: the inventory is read again.
	Pending bool
}

// NeedsInventory tells whether the node was inspected since its inventory was
// last read, so that an observation has to read it too.
func NeedsInventory(host *metal3.BareMetalHost, node *ironic.Node) bool {
	if node.InspectionFinishedAt == nil || node.ProvisionState == ironic.Inspecting || node.ProvisionState == ironic.InspectWait {
		return false
	}
	read := host.Status.Ironic
	return read == nil || read.InspectionFinishedAt == nil || !sameMoment(read.InspectionFinishedAt.Time, *node.InspectionFinishedAt)
}

// sameMoment compares what Ironic said with what was recorded of it, which keeps
// no more than microseconds.
func sameMoment(a, b time.Time) bool {
	return a.Truncate(time.Microsecond).Equal(b.Truncate(time.Microsecond))
}

// Observe returns the status of host as Ironic describes it. What only we know
// stays as it is stored; what Ironic owns is computed anew. It leaves out what
// changes by itself (clocks, heartbeats), so that a quiet host gives back the
// very status that it has, and changed is false. LastUpdated is set to now when
// anything else differs.
func Observe(host *metal3.BareMetalHost, seen Observation, now time.Time) (status metal3.BareMetalHostStatus, changed bool) {
	status = *host.Status.DeepCopy()
	switch detached := IsDetached(host); {
	case detached && !meta.IsStatusConditionFalse(status.Conditions, metal3.IronicReachableCondition):
		return status, false // out of Ironic on purpose: frozen as it is
	case detached: // the condition is from before
	case seen.Node == nil:
		observeMissing(&status, host, now)
		SetConditions(&status, host, seen.Node, now)
	default:
		observeNode(&status, host, seen, now)
		SetConditions(&status, host, seen.Node, now)
	}
	SetCondition(&status, host, metav1.Condition{
		Type: metal3.IronicReachableCondition, Status: metav1.ConditionTrue, Reason: metal3.ReachableReason,
	}, now)
	if equality.Semantic.DeepEqual(status, host.Status) {
		return status, false
	}
	status.LastUpdated = &metav1.Time{Time: now.Truncate(time.Second)}
	return status, true
}

// observeMissing describes a host whose node Ironic does not have: it was not
// made yet, or Ironic lost it. Everything learned earlier stays.
func observeMissing(status *metal3.BareMetalHostStatus, host *metal3.BareMetalHost, now time.Time) {
	if status.Ironic != nil && host.DeletionTimestamp.IsZero() {
		SetCondition(status, host, metav1.Condition{
			Type: metal3.RegisteredCondition, Status: metav1.ConditionFalse, Reason: metal3.NodeLostReason,
			Message: "Ironic no longer has node " + status.Ironic.NodeUUID + "; the host is registered again",
		}, now)
	}
	status.Ironic = nil
	SetError(status, ErrorOf(status, host, nil), false)
}

func observeNode(status *metal3.BareMetalHostStatus, host *metal3.BareMetalHost, seen Observation, now time.Time) {
	node := seen.Node
	before := status.Ironic
	status.RegisteredWith = registeredWith(status)
	status.Ironic = ironicStatus(node)
	if before != nil {
		status.Ironic.InspectionFinishedAt = before.InspectionFinishedAt
	}
	status.Ironic.AbortRequested = isAbortRequested(host, node)
	status.Provisioning.ID = node.UUID
	status.Provisioning.State = stateOf(host, node)
	observeDeployment(status, host, node)
	if node.PowerState != "" { // null: Ironic does not know, and what was known last is the better guess
		status.PoweredOn = node.PowerState == ironic.PowerOn
	}
	observeInspection(status, host, seen, now)
	observeRegistration(status, node, now)
	observeSilence(status, host, seen, now)

	failure := ErrorOf(status, host, node)
	SetError(status, failure, before != nil && wasTried(status.ErrorType, before, node))
	if failure == nil && isServicing(node.ProvisionState) {
		status.OperationalStatus = metal3.OperationalStatusServicing
	}
	if failure == nil && isSettled(status, host, node) {
		status.ErrorCount = 0
	}
}

// wasTried tells whether a try has ended during which the error of the one before
// was kept: if it is there again, it is another one. (The other tries begin with the
// error gone. That the state changes is not enough: Ironic writes the error first.)
func wasTried(failed metal3.ErrorType, before *metal3.IronicStatus, node *ironic.Node) bool {
	switch ironic.ProvisionState(before.ProvisionState) {
	case ironic.Verifying, ironic.Adopting:
		return string(node.ProvisionState) != before.ProvisionState
	}
	// (On a node in a failed state the error keeps the type of that.)
	return before.TargetPowerState != "" && node.TargetPowerState == "" && (failed == metal3.PowerManagementError || powerActionFailed(node))
}

// isSettled tells whether the host has arrived where it is to be, so that earlier
// errors in a row count no more.
func isSettled(status *metal3.BareMetalHostStatus, host *metal3.BareMetalHost, node *ironic.Node) bool {
	arrived := false
	switch status.Provisioning.State {
	case metal3.StateAvailable:
		arrived = node.ProvisionState == ironic.Manageable || node.ProvisionState == ironic.Available
	case metal3.StateProvisioned, metal3.StateExternallyProvisioned:
		arrived = node.ProvisionState == ironic.Active
	}
	return arrived && node.TargetPowerState == "" && status.PoweredOn == host.Spec.Online
}

func ironicStatus(node *ironic.Node) *metal3.IronicStatus {
	return &metal3.IronicStatus{
		NodeUUID:             node.UUID,
		ProvisionState:       string(node.ProvisionState),
		TargetProvisionState: node.TargetProvisionState,
		PowerState:           string(node.PowerState),
		TargetPowerState:     string(node.TargetPowerState),
		Step:                 CutMessage(stepOf(node)),
		Maintenance:          node.Maintenance,
		MaintenanceReason:    CutMessage(node.MaintenanceReason),
		Fault:                node.Fault,
		Reservation:          node.Reservation,
		LastError:            CutMessage(node.LastError),
		InstanceUUID:         node.InstanceUUID,
		BMC:                  KeyOfNode(node).String(),
		MarkedHost:           string(node.Marks.Host),
		MarkedCluster:        string(node.Marks.Cluster),
	}
}

func stepOf(node *ironic.Node) string {
	for _, s := range []ironic.Step{node.CleanStep, node.DeployStep, node.ServiceStep} {
		if s.Step != "" {
			return s.Interface + "." + s.Step
		}
	}
	return ""
}

// observeInspection keeps the history of inspections and takes over the
// hardware once the inventory of a finished one was read.
func observeInspection(status *metal3.BareMetalHostStatus, host *metal3.BareMetalHost, seen Observation, now time.Time) {
	node, inspect := seen.Node, &status.OperationHistory.Inspect
	began := node.InspectionStartedAt
	if began != nil && (inspect.Start.IsZero() || !inspect.End.IsZero() && began.After(inspect.End.Time)) {
		// One that we did not begin. Ironic sets it back to null when the inspection ends.
		*inspect = metal3.OperationMetric{Start: WholeSeconds(*began)}
	}
	if seen.Inspected == nil || !NeedsInventory(host, node) {
		return
	}
	if seen.Inspected.Pending {
		setInventoryProblem(status, host, seen, now)
		return
	}
	finished := metav1.NewMicroTime(node.InspectionFinishedAt.Truncate(time.Microsecond))
	status.Ironic.InspectionFinishedAt = &finished
	if inspect.Start.IsZero() {
		inspect.Start = WholeSeconds(*node.InspectionFinishedAt)
	}
	if inspect.End.IsZero() || inspect.End.Time.Before(node.InspectionFinishedAt.Truncate(time.Second)) {
		inspect.End = WholeSeconds(now) // else it is known, of a host that was moved here with its status
	}
	if seen.Inspected.Hardware != nil {
		status.HardwareDetails = seen.Inspected.Hardware
	}
	if seen.Inspected.Problem == "" {
		meta.RemoveStatusCondition(&status.Conditions, metal3.InventoryReadCondition)
		return
	}
	setInventoryProblem(status, host, seen, now)
}

func setInventoryProblem(status *metal3.BareMetalHostStatus, host *metal3.BareMetalHost, seen Observation, now time.Time) {
	SetCondition(status, host, metav1.Condition{
		Type: metal3.InventoryReadCondition, Status: metav1.ConditionFalse, Reason: metal3.InventoryUnusableReason,
		Message: fmt.Sprintf("The inventory of the inspection that ended at %s cannot be used, so status.hardware is not what it found: %s",
			seen.Node.InspectionFinishedAt.UTC().Format(time.RFC3339), seen.Inspected.Problem),
	}, now)
}

// observeSilence times a ramdisk out that Ironic has forgotten to wait for: a node
// that is its own parent (Ironic 29.0.5) is left out of all of its periodic checks,
// and of what a conductor mends when it starts: one that it worked on is then in
// the same state for ever, and not reserved. Each heartbeat of a ramdisk renews
// provision_updated_at.
//
// It stays the reason while the abort that it leads to goes on, and until the next
// try: Ironic's own words would be that somebody has asked for the abort.
func observeSilence(status *metal3.BareMetalHostStatus, host *metal3.BareMetalHost, seen Observation, now time.Time) {
	node := seen.Node
	since := node.ProvisionUpdatedAt
	ironicNow := node.AnsweredAt // our clock may differ from Ironic's
	if ironicNow.IsZero() {
		ironicNow = now
	}
	late := seen.CallbackTimeout > 0 && node.IsOwnParent() && since != nil && ironicNow.Sub(*since) > seen.CallbackTimeout
	switch {
	case node.ProvisionState.IsInTransit() && node.Reservation == "" && late:
		SetCondition(status, host, metav1.Condition{
			Type: metal3.StepFailedCondition, Status: metav1.ConditionTrue, Reason: metal3.CallbackTimeoutReason,
			Message: fmt.Sprintf("The ramdisk has not called Ironic for more than %s, or Ironic has forgotten the node (%s)", seen.CallbackTimeout, node.ProvisionState),
		}, now)
	case node.ProvisionState == ironic.InspectFail, node.ProvisionState == ironic.CleanFail:
	case isWaitState(node.ProvisionState) && node.Reservation != "":
	case isSilent(status):
		meta.RemoveStatusCondition(&status.Conditions, metal3.StepFailedCondition)
	}
}

// isWaitState tells whether Ironic waits for a ramdisk.
func isWaitState(state ironic.ProvisionState) bool {
	switch state {
	case ironic.InspectWait, ironic.CleanWait, ironic.DeployWait, ironic.ServiceWait, ironic.RescueWait:
		return true
	}
	return false
}

// isForgotten tells whether Ironic will never go on with the node: it is timed out,
// and in a state in which no ramdisk is waited for.
func isForgotten(host *metal3.BareMetalHost, node *ironic.Node) bool {
	return node.ProvisionState.IsInTransit() && !isWaitState(node.ProvisionState) && node.Reservation == "" && isSilent(&host.Status)
}

// isSilent tells whether the host's ramdisk was timed out.
func isSilent(status *metal3.BareMetalHostStatus) bool {
	c := findCondition(status, metal3.StepFailedCondition)
	return c != nil && c.Reason == metal3.CallbackTimeoutReason
}

// observeRegistration notes that the BMC accepted the credentials: a node that
// left enroll and verifying has been verified.
func observeRegistration(status *metal3.BareMetalHostStatus, node *ironic.Node, now time.Time) {
	if node.ProvisionState == ironic.Enroll || node.ProvisionState == ironic.Verifying || node.Fault == ironic.FaultPowerFailure {
		return
	}
	status.GoodCredentials = status.TriedCredentials
	register := &status.OperationHistory.Register
	if !register.Start.IsZero() && register.End.IsZero() {
		register.End = WholeSeconds(now)
	}
}

func WholeSeconds(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// RecordedNode is the node as the host's status describes it, as far as Next
// looks at it.
func RecordedNode(host *metal3.BareMetalHost) *ironic.Node {
	s := host.Status.Ironic
	if s == nil {
		return nil
	}
	parent := ""
	if c := findCondition(&host.Status, metal3.PowerSyncedCondition); c != nil && c.Reason == metal3.OwnParentReason {
		parent = s.NodeUUID
	}
	return &ironic.Node{
		ParentNode:           parent,
		UUID:                 s.NodeUUID,
		ProvisionState:       ironic.ProvisionState(s.ProvisionState),
		TargetProvisionState: s.TargetProvisionState,
		PowerState:           ironic.PowerState(s.PowerState),
		TargetPowerState:     ironic.PowerTarget(s.TargetPowerState),
		Maintenance:          s.Maintenance,
		MaintenanceReason:    s.MaintenanceReason,
		Fault:                s.Fault,
		Reservation:          s.Reservation,
		LastError:            s.LastError,
		InstanceUUID:         s.InstanceUUID,
		Address:              addressOfKey(s.BMC),
		Marks:                ironic.Marks{Host: ironic.Text(s.MarkedHost), Cluster: ironic.Text(s.MarkedCluster)},
	}
}
