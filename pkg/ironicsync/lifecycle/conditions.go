package lifecycle

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

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

// SetConditions computes the conditions from the provisioning state and then corrects them
// according to the operational status, as the Bare Metal Operator does. Unlike the operator, it
// also sets messages and the observed generation. The node is nil if Ironic has none.
func SetConditions(status *metal3.BareMetalHostStatus, host *metal3.BareMetalHost, node *ironic.Node, now time.Time) {
	manageable := conditionValue{conditionTrue, metal3.ManageableReason}
	available := conditionValue{conditionFalse, metal3.NotAvailableReason}
	provisioned := conditionValue{conditionFalse, metal3.NotProvisionedReason}
	progressing := conditionValue{conditionFalse, metal3.NotProgressingReason}

	switch status.Provisioning.State {
	case metal3.StateNone, metal3.StateUnmanaged:
		manageable = conditionValue{conditionFalse, metal3.NotManagedReason}
	case metal3.StateRegistering:
		manageable = conditionValue{conditionFalse, metal3.RegisteringReason}
		if status.OperationalStatus == metal3.OperationalStatusError {
			manageable.reason = metal3.RegistrationFailedReason
		}
		progressing = conditionValue{conditionTrue, metal3.RegisteringReason}
	case metal3.StateInspecting, metal3.StateMatchProfile:
		progressing = conditionValue{conditionTrue, metal3.InspectingReason}
	case metal3.StatePreparing:
		progressing = conditionValue{conditionTrue, metal3.PreparingReason}
	case metal3.StateAvailable, metal3.StateReady:
		available = conditionValue{conditionTrue, metal3.AvailableReason}
	case metal3.StateProvisioning:
		progressing = conditionValue{conditionTrue, metal3.ProvisioningReason}
	case metal3.StateProvisioned, metal3.StateExternallyProvisioned:
		provisioned = conditionValue{conditionTrue, metal3.ProvisionedReason}
	case metal3.StateDeprovisioning:
		progressing = conditionValue{conditionTrue, metal3.DeprovisioningReason}
	case metal3.StatePoweringOffBeforeDelete:
		progressing = conditionValue{conditionTrue, metal3.PoweringOffBeforeDeleteReason}
	case metal3.StateDeleting:
		progressing = conditionValue{conditionTrue, metal3.DeletingReason}
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
	if node != nil && node.Fault == ironic.FaultPowerFailure && manageable.status == conditionTrue &&
		status.Provisioning.State != metal3.StateDeleting && status.OperationalStatus != metal3.OperationalStatusDetached {
		manageable = conditionValue{conditionFalse, metal3.PowerFailureReason}
	}

	set := func(conditionType string, value conditionValue, message string) {
		SetCondition(status, host, metav1.Condition{Type: conditionType, Status: value.status, Reason: value.reason, Message: message}, now)
	}
	errorMessage := status.ErrorMessage
	set(metal3.ManageableCondition, manageable, onlyIf(manageable.status != conditionTrue, errorMessage))
	set(metal3.AvailableForProvisioningCondition, available, "")
	set(metal3.ProvisionedCondition, provisioned, "")
	set(metal3.ReadyCondition, ready, onlyIf(ready.reason == metal3.ErrorReason, errorMessage))
	set(metal3.ProgressingCondition, progressing, onlyIf(progressing.status == conditionTrue, progressMessage(status)))
	set(metal3.HealthyCondition, healthyCondition(status, node), "")
	if node != nil {
		if node.IsOwnParent() {
			set(metal3.PowerSyncedCondition, conditionValue{conditionFalse, metal3.OwnParentReason}, ownParentMessage)
		} else {
			meta.RemoveStatusCondition(&status.Conditions, metal3.PowerSyncedCondition)
		}
	}
}

const ownParentMessage = "A PATCH has made Ironic take the node for its own parent, a defect of Ironic 29.0.5, and Ironic no longer looks at its power: " +
	"poweredOn is what the last power action left. Upgrade Ironic and clear parent_node there."

// healthyCondition returns the value of the condition Healthy. If the node's health is empty,
// as it always is before Ironic API 1.109, the condition keeps its earlier value, if any.
func healthyCondition(status *metal3.BareMetalHostStatus, node *ironic.Node) conditionValue {
	if node != nil {
		switch node.Health {
		case "OK":
			return conditionValue{conditionTrue, metal3.HealthyReason}
		case "Warning":
			return conditionValue{conditionFalse, metal3.WarningReason}
		case "Critical":
			return conditionValue{conditionFalse, metal3.CriticalErrorReason}
		case "":
			if c := findCondition(status, metal3.HealthyCondition); c != nil {
				return conditionValue{c.Status, c.Reason}
			}
		}
	}
	return conditionValue{conditionUnknown, metal3.UnknownReason}
}

// progressMessage says what Ironic is doing, for users who wonder why it takes so long.
func progressMessage(status *metal3.BareMetalHostStatus) string {
	if status.Ironic == nil {
		return ""
	}
	message := "Ironic: " + status.Ironic.ProvisionState
	if status.Ironic.Step != "" {
		message += ", step " + status.Ironic.Step
	}
	return message
}

// SetCondition sets a condition in status, with the generation of host. Its message is
// shortened if necessary. The transition time is now if the condition's status changes.
func SetCondition(status *metal3.BareMetalHostStatus, host *metal3.BareMetalHost, c metav1.Condition, now time.Time) {
	c.Message = CutMessage(c.Message)
	c.ObservedGeneration = host.Generation
	c.LastTransitionTime = WholeSeconds(now) // SetStatusCondition keeps the earlier one unless the status changes
	meta.SetStatusCondition(&status.Conditions, c)
}

func findCondition(status *metal3.BareMetalHostStatus, conditionType string) *metav1.Condition {
	return meta.FindStatusCondition(status.Conditions, conditionType)
}

func onlyIf(ok bool, message string) string {
	if ok {
		return message
	}
	return ""
}
