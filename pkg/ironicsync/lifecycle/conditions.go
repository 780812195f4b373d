// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// Render computes from a host's record, its spec and what Ironic reports what others see of it: its
// error, its operational status and its conditions. It is called at the end of each change of a status, and
// nothing reads back what it has computed.
func Render(host *metal3.BareMetalHost, now time.Time) {
	render(&host.Status, host, false, now)
	host.Status.LastUpdated = StatusTime(now)
}

// render is Render for a status that is not yet that of host, and without the time of the change. again
// reports whether an attempt has ended that may have failed as the last one did.
func render(status *metal3.BareMetalHostStatus, host *metal3.BareMetalHost, again bool, now time.Time) {
	record := &status.Record
	record.Epoch = metal3.RecordEpoch
	if status.OperationalStatus != metal3.OperationalStatusDetached {
		setError(status, errorOf(status, host), again)
	}
	renderError(status)
	if record.State == nil || record.State.Name != status.Provisioning.State {
		record.State = &metal3.TimeInState{Name: status.Provisioning.State, Since: WholeSeconds(now)}
	}
	switch status.Provisioning.State {
	case metal3.StateAvailable, metal3.StateProvisioned, metal3.StateExternallyProvisioned:
		if record.FirstAvailableAt == nil {
			record.FirstAvailableAt = StatusTime(now)
		}
	}
	c := conditions{status: status, generation: host.Generation, leaving: LeavingReason(host), now: WholeSeconds(now)}
	c.setState()
	c.setRecorded()
}

// renderError sets the error that users see, and the operational status that belongs to it. Without an error,
// operational statuses other than OK, error and servicing remain.
func renderError(status *metal3.BareMetalHostStatus) {
	status.ErrorType, status.ErrorMessage = "", ""
	if failed := status.Record.Error; failed != nil {
		status.ErrorType, status.ErrorMessage = failed.Type, errorMessage(status)
		status.OperationalStatus = metal3.OperationalStatusError
		return
	}
	switch status.OperationalStatus {
	case metal3.OperationalStatusDiscovered, metal3.OperationalStatusDelayed, metal3.OperationalStatusDetached:
		return
	}
	status.OperationalStatus = metal3.OperationalStatusOK
	if node := NodeOf(status); isBeingServiced(status) || node != nil && isServicing(node.ProvisionState) {
		status.OperationalStatus = metal3.OperationalStatusServicing
	}
}

// conditions renders the conditions of a status.
type conditions struct {
	status     *metal3.BareMetalHostStatus
	generation int64
	// leaving is the reason of the maintenance in which this server removes the host's node.
	leaving string
	now     metav1.Time
}

// conditionValue is the status and the reason of a condition.
type conditionValue struct {
	status metav1.ConditionStatus
	reason string
}

const (
	conditionTrue    = metav1.ConditionTrue
	conditionFalse   = metav1.ConditionFalse
	conditionUnknown = metav1.ConditionUnknown
)

// set sets a condition, whose message is shortened if necessary. The transition time remains unless the
// condition's status changes.
func (c conditions) set(conditionType string, value conditionValue, message string) {
	c.setOf(c.generation, conditionType, value, message)
}

func (c conditions) setOf(generation int64, conditionType string, value conditionValue, message string) {
	meta.SetStatusCondition(&c.status.Conditions, metav1.Condition{
		Type: conditionType, Status: value.status, Reason: value.reason, Message: CutMessage(message),
		ObservedGeneration: generation, LastTransitionTime: c.now,
	})
}

// setIf sets a condition that is absent unless something is so.
func (c conditions) setIf(isSo bool, conditionType string, value conditionValue, message string) {
	if !isSo {
		meta.RemoveStatusCondition(&c.status.Conditions, conditionType)
		return
	}
	c.set(conditionType, value, message)
}

// setRecorded sets the conditions that this server has and the Bare Metal Operator does not.
func (c conditions) setRecorded() {
	record := &c.status.Record
	if r := record.Registration; r != nil {
		c.setRegistered(r)
	}
	hold := valueOf(record.Hold)
	c.setIf(record.Hold != nil, metal3.HeldCondition, conditionValue{conditionTrue, hold.Reason}, hold.Message)

	c.setIf(record.Resembles != "", metal3.MachineUniqueCondition, conditionValue{conditionFalse, metal3.SharedIdentityReason}, record.Resembles)

	failure := valueOf(record.Failure)
	c.setIf(record.Failure != nil, metal3.StepFailedCondition, conditionValue{conditionTrue, failureReason(failure)}, failure.Message)

	c.setIf(record.AwaitedImage != "", metal3.ImageBuiltCondition, conditionValue{conditionFalse, metal3.WaitingForImageReason}, record.AwaitedImage)

	c.setInventoryRead(record.UnusableInventory, valueOf(c.status.Ironic))

	network := valueOf(record.Network)
	value := conditionValue{conditionFalse, network.Reason}
	switch network.Reason {
	case metal3.AllInterfacesValidReason:
		value.status = conditionTrue
	case metal3.UnknownReason:
		value.status = conditionUnknown
	}
	if record.Network == nil {
		meta.RemoveStatusCondition(&c.status.Conditions, metal3.NetworkInterfacesValidCondition)
	} else {
		c.setOf(network.Generation, metal3.NetworkInterfacesValidCondition, value, network.Message)
	}

	node := valueOf(c.status.Ironic)
	known := NodeOf(c.status)
	c.setIf(known != nil && isInMaintenance(known, c.leaving), metal3.InMaintenanceCondition, conditionValue{conditionTrue, metal3.NodeInMaintenanceReason}, maintenanceMessage(node))

	isOwnParent := c.status.Ironic != nil && c.status.Ironic.OwnParent
	c.setIf(isOwnParent, metal3.PowerSyncedCondition, conditionValue{conditionFalse, metal3.OwnParentReason}, ownParentMessage)

	switch silence := record.Silence; {
	case silence != nil:
		reason := silence.ConditionReason()
		c.set(metal3.IronicReachableCondition, conditionValue{conditionFalse, reason},
			silenceLead(reason)+" since "+silence.Since.UTC().Format(time.RFC3339)+": "+silence.Reason)
	case record.Observed:
		c.set(metal3.IronicReachableCondition, conditionValue{conditionTrue, metal3.ReachableReason}, "")
	}
}

// silenceLead says for what reason nothing of a host is live.
func silenceLead(reason string) string {
	switch reason {
	case metal3.RefusedReason:
		return "Ironic has refused the server"
	case metal3.NodeUnreadableReason:
		return "Ironic answers, but has failed to show the node of this host"
	case metal3.NoIronicReason:
		return "Ironic has not been asked"
	}
	return "Ironic has not answered"
}

// setInventoryRead sets the condition InventoryRead, if the inventory of the last inspection, or a part of it, is not used.
func (c conditions) setInventoryRead(unusable *metal3.UnusableInventory, node metal3.IronicStatus) {
	switch finished := valueOf(node.InspectionFinishedAt); {
	case unusable != nil:
		c.set(metal3.InventoryReadCondition, conditionValue{conditionFalse, metal3.InventoryUnusableReason},
			fmt.Sprintf("The inventory of the inspection that ended at %s cannot be used, so status.hardware is not what it found: %s",
				unusable.InspectionFinishedAt.UTC().Format(time.RFC3339), unusable.Problem))
	case node.UnreadInventory != "":
		c.set(metal3.InventoryReadCondition, conditionValue{conditionTrue, metal3.InventoryIncompleteReason},
			fmt.Sprintf("Parts of the inventory of the inspection that ended at %s cannot be read, and status.hardware keeps what was known of them: %s",
				finished.UTC().Format(time.RFC3339), node.UnreadInventory))
	default:
		meta.RemoveStatusCondition(&c.status.Conditions, metal3.InventoryReadCondition)
	}
}

// setRegistered sets the condition Registered, which is about the generation that was registered.
func (c conditions) setRegistered(r *metal3.Registration) {
	value, message := conditionValue{conditionFalse, r.Reason}, r.Message
	if r.Reason == metal3.RegisteredReason {
		value.status = conditionTrue
		switch with := valueOf(c.status.Record.RegisteredWith); {
		case with.NodeRemoved:
			value, message = conditionValue{conditionUnknown, metal3.UnknownReason}, "The server has removed the host's node from Ironic, or is about to"
		case with.DueWhenIdle:
			message = strings.TrimPrefix(message+". What Ironic accepts only for an idle node is registered when the node is idle", ". ")
		}
	}
	c.setOf(r.Generation, metal3.RegisteredCondition, value, message)
}

// failureReason returns the reason of the condition StepFailed.
func failureReason(failure metal3.Failure) string {
	switch failure.Cause {
	case metal3.CallbackTimeout:
		return metal3.CallbackTimeoutReason
	case metal3.RequestFailed:
		return metal3.RequestFailedReason
	}
	switch failure.Type {
	case metal3.InspectionError:
		return metal3.InspectionErrorReason
	case metal3.PreparationError:
		return metal3.PreparationErrorReason
	case metal3.PowerManagementError:
		return metal3.PowerManagementErrorReason
	case metal3.ProvisionedRegistrationError:
		return metal3.ProvisionedRegistrationErrorReason
	case metal3.ServicingError:
		return metal3.ServicingErrorReason
	case metal3.DetachError:
		return metal3.DetachErrorReason
	}
	return metal3.ProvisioningErrorReason
}

// valueOf returns what a pointer points to, or a zero value.
func valueOf[T any](p *T) (value T) {
	if p != nil {
		value = *p
	}
	return value
}

// progressingReasons are the reasons of Progressing in the states in which it is true.
var progressingReasons = map[metal3.ProvisioningState]string{
	metal3.StateRegistering:             metal3.RegisteringReason,
	metal3.StateInspecting:              metal3.InspectingReason,
	metal3.StateMatchProfile:            metal3.InspectingReason,
	metal3.StatePreparing:               metal3.PreparingReason,
	metal3.StateProvisioning:            metal3.ProvisioningReason,
	metal3.StateDeprovisioning:          metal3.DeprovisioningReason,
	metal3.StatePoweringOffBeforeDelete: metal3.PoweringOffBeforeDeleteReason,
	metal3.StateDeleting:                metal3.DeletingReason,
}

// setState sets the conditions that the Bare Metal Operator has, too. Like the operator, it computes them from the
// provisioning state and then corrects them according to the operational status. Unlike the operator, it
// also sets messages and the observed generation.
func (c conditions) setState() {
	status := c.status
	manageable := conditionValue{conditionTrue, metal3.ManageableReason}
	available := conditionValue{conditionFalse, metal3.NotAvailableReason}
	provisioned := conditionValue{conditionFalse, metal3.NotProvisionedReason}
	progressing := conditionValue{conditionFalse, metal3.NotProgressingReason}
	if reason, is := progressingReasons[status.Provisioning.State]; is {
		progressing = conditionValue{conditionTrue, reason}
	}
	provisionedMessage := ""

	switch status.Provisioning.State {
	case metal3.StateNone, metal3.StateUnmanaged:
		manageable = conditionValue{conditionFalse, metal3.NotManagedReason}
	case metal3.StateRegistering:
		manageable = conditionValue{conditionFalse, metal3.RegisteringReason}
		if status.OperationalStatus == metal3.OperationalStatusError {
			manageable.reason = metal3.RegistrationFailedReason
		}
	case metal3.StateAvailable, metal3.StateReady:
		available = conditionValue{conditionTrue, metal3.AvailableReason}
	case metal3.StateProvisioned, metal3.StateExternallyProvisioned:
		provisioned = conditionValue{conditionTrue, metal3.ProvisionedReason}
		if gone := goneDeployment(status); gone != nil {
			provisioned, provisionedMessage = conditionValue{conditionFalse, metal3.DeploymentGoneReason}, goneMessage(status, gone)
		}
	}

	ready := provisioned
	switch status.OperationalStatus {
	case metal3.OperationalStatusError:
		ready = conditionValue{conditionFalse, metal3.ErrorReason}
	case metal3.OperationalStatusServicing:
		ready = conditionValue{conditionFalse, metal3.ServicingReason}
	case metal3.OperationalStatusDetached:
		ready = conditionValue{conditionFalse, metal3.DetachedReason}
		progressing = conditionValue{conditionFalse, metal3.DetachedReason}
	}
	if status.Ironic != nil && status.Ironic.Fault == ironic.FaultPowerFailure && manageable.status == conditionTrue &&
		status.Provisioning.State != metal3.StateDeleting && status.OperationalStatus != metal3.OperationalStatusDetached {
		manageable = conditionValue{conditionFalse, metal3.PowerFailureReason}
	}

	wrong := errorMessage(status)
	c.set(metal3.ManageableCondition, manageable, onlyIf(manageable.status != conditionTrue, wrong))
	c.set(metal3.AvailableForProvisioningCondition, available, "")
	c.set(metal3.ProvisionedCondition, provisioned, provisionedMessage)
	c.set(metal3.ReadyCondition, ready, onlyIf(ready.reason == metal3.ErrorReason, wrong))
	c.set(metal3.ProgressingCondition, progressing, cmp.Or(awaitedRequest(status), onlyIf(progressing.status == conditionTrue || isLocked(status), progressMessage(status))))
	c.set(metal3.HealthyCondition, healthyValue(status.Record.Health), "")
}

func maintenanceMessage(node metal3.IronicStatus) string {
	return fmt.Sprintf("Somebody has set the node to maintenance in Ironic (%s). Until that ends, nothing is done with the host: neither spec.online nor a reboot annotation takes effect",
		cmp.Or(node.MaintenanceReason, "no reason was given"))
}

const ownParentMessage = "A PATCH has made the node its own parent, which is a defect of Ironic 29.0.5. Ironic no longer reads its power state, " +
	"so poweredOn shows what the last power action has set. Upgrade Ironic, and clear the node's parent_node there."

// healthyValue returns the value of the condition Healthy for the health that Ironic last reported.
func healthyValue(health string) conditionValue {
	switch health {
	case "OK":
		return conditionValue{conditionTrue, metal3.HealthyReason}
	case "Warning":
		return conditionValue{conditionFalse, metal3.WarningReason}
	case "Critical":
		return conditionValue{conditionFalse, metal3.CriticalErrorReason}
	}
	return conditionValue{conditionUnknown, metal3.UnknownReason}
}

// isLocked reports whether everything waits for a conductor, a deletion, too.
func isLocked(status *metal3.BareMetalHostStatus) bool {
	node := NodeOf(status)
	return node != nil && node.IsLocked()
}

// progressMessage says what Ironic is doing, or what is waited for, for users who wonder why it takes so long.
func progressMessage(status *metal3.BareMetalHostStatus) string {
	if status.Ironic == nil {
		return ""
	}
	message := "Ironic: " + status.Ironic.ProvisionState
	if status.Ironic.Step != "" {
		message += ", step " + status.Ironic.Step
	}
	if isLocked(status) {
		message += ", locked by conductor " + status.Ironic.Reservation
	}
	return message
}

// awaitedRequest says that it is waited for a request to Ironic that may still be carried out, and how long that may take. It is said
// from the moment at which the request is sent, because nothing happens to the host that would have it said later.
func awaitedRequest(status *metal3.BareMetalHostStatus) string {
	node, asked, power := NodeOf(status), status.Record.Asked, status.Record.AskedPower
	switch {
	case node == nil:
	case asked != nil && asked.NodeUUID == node.UUID && awaits(status.Provisioning.State, node.ProvisionState, ironic.ProvisionTarget(asked.Target)) != "":
		return fmt.Sprintf("Ironic may still carry out an earlier request for the state %q, whose outcome is not known: %s before %s, when it counts as lost",
			asked.Target, awaits(status.Provisioning.State, node.ProvisionState, ironic.ProvisionTarget(asked.Target)), endOf(asked.At))
	case node.PowerState == ironic.PowerOff && status.PoweredOn && lastPowerOn(status, node.UUID) != nil:
		return fmt.Sprintf("Ironic may still carry out an earlier request to switch the machine on, whose outcome is not known: it is not shown as off before %s, when that counts as lost",
			endOf(lastPowerOn(status, node.UUID).At))
	case power != nil && power.NodeUUID == node.UUID && power.Times > 1:
		return fmt.Sprintf("Ironic may still carry out an earlier request for %q, whose outcome is not known: the machine is not switched on before %s, when it counts as lost", power.Target, endOf(power.At))
	}
	return ""
}

// awaits says what is not begun in a state because of a request; empty if nothing waits for it.
func awaits(state metal3.ProvisioningState, nodeState ironic.ProvisionState, asked ironic.ProvisionTarget) string {
	switch {
	case state == metal3.StateProvisioning && nodeState == ironic.Available && (asked == ironic.TargetDeleted || asked == ironic.TargetRebuild):
		return "nothing is deployed"
	case state == metal3.StateProvisioning && (nodeState == ironic.Active || nodeState == ironic.DeployFail) && (asked == ironic.TargetDeleted || asked == ironic.TargetRebuild):
		return "the image is not written again"
	case state == metal3.StateAvailable && nodeState == ironic.Available && asked == ironic.TargetActive:
		return "nothing else is deployed, nor is the host let go,"
	case state == metal3.StatePreparing && nodeState == ironic.Manageable:
		return "no clean is asked for"
	case state.RunsSomething() && nodeState == ironic.Active && asked == ironic.TargetService:
		return "the machine is not switched on, and no service is asked for again"
	case state.RunsSomething() && nodeState == ironic.Active:
		return "no service is asked for"
	case state.RunsSomething() && nodeState == ironic.ServiceFail && asked == ironic.TargetService:
		return "the failed service is not left by another one"
	}
	return ""
}

func endOf(asked metav1.Time) string {
	return asked.Add(metal3.AskedLimit).UTC().Format(time.RFC3339)
}

func onlyIf(ok bool, message string) string {
	if ok {
		return message
	}
	return ""
}
