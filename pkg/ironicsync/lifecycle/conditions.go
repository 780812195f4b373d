package lifecycle

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// verdict is a condition without its type.
type verdict struct {
	status metav1.ConditionStatus
	reason string
}

var (
	yes     = metav1.ConditionTrue
	no      = metav1.ConditionFalse
	unknown = metav1.ConditionUnknown
)

// SetConditions computes the conditions from the provisioning state and then
// corrects them by the operational status, as the Bare Metal Operator does, and
// adds what it leaves out: messages and the observed generation.
func SetConditions(status *metal3.BareMetalHostStatus, host *metal3.BareMetalHost, node *ironic.Node, now time.Time) {
	manageable := verdict{yes, metal3.ManageableReason}
	available := verdict{no, metal3.NotAvailableReason}
	provisioned := verdict{no, metal3.NotProvisionedReason}
	progressing := verdict{no, metal3.NotProgressingReason}

	switch status.Provisioning.State {
	case metal3.StateNone, metal3.StateUnmanaged:
		manageable = verdict{no, metal3.NotManagedReason}
	case metal3.StateRegistering:
		manageable = verdict{no, metal3.RegisteringReason}
		if status.OperationalStatus == metal3.OperationalStatusError {
			manageable.reason = metal3.RegistrationFailedReason
		}
		progressing = verdict{yes, metal3.RegisteringReason}
	case metal3.StateInspecting, metal3.StateMatchProfile:
		progressing = verdict{yes, metal3.InspectingReason}
	case metal3.StatePreparing:
		progressing = verdict{yes, metal3.PreparingReason}
	case metal3.StateAvailable, metal3.StateReady:
		available = verdict{yes, metal3.AvailableReason}
	case metal3.StateProvisioning:
		progressing = verdict{yes, metal3.ProvisioningReason}
	case metal3.StateProvisioned, metal3.StateExternallyProvisioned:
		provisioned = verdict{yes, metal3.ProvisionedReason}
	case metal3.StateDeprovisioning:
		progressing = verdict{yes, metal3.DeprovisioningReason}
	case metal3.StatePoweringOffBeforeDelete:
		progressing = verdict{yes, metal3.PoweringOffBeforeDeleteReason}
	case metal3.StateDeleting:
		progressing = verdict{yes, metal3.DeletingReason}
	}

	ready := provisioned
	switch status.OperationalStatus {
	case metal3.OperationalStatusError:
		ready = verdict{no, metal3.ErrorReason}
	case metal3.OperationalStatusServicing:
		ready = verdict{no, metal3.ServicingReason}
	case metal3.OperationalStatusDetached:
		ready = verdict{no, metal3.DetachedReason}
		progressing = verdict{no, metal3.DetachedReason}
	}
	if node != nil && node.Fault == ironic.FaultPowerFailure && manageable.status == yes &&
		status.Provisioning.State != metal3.StateDeleting && status.OperationalStatus != metal3.OperationalStatusDetached {
		manageable = verdict{no, metal3.PowerFailureReason}
	}

	set := func(conditionType string, v verdict, message string) {
		SetCondition(status, host, metav1.Condition{Type: conditionType, Status: v.status, Reason: v.reason, Message: message}, now)
	}
	trouble := status.ErrorMessage
	set(metal3.ManageableCondition, manageable, onlyIf(manageable.status != yes, trouble))
	set(metal3.AvailableForProvisioningCondition, available, "")
	set(metal3.ProvisionedCondition, provisioned, "")
	set(metal3.ReadyCondition, ready, onlyIf(ready.reason == metal3.ErrorReason, trouble))
	set(metal3.ProgressingCondition, progressing, onlyIf(progressing.status == yes, progressMessage(status)))
	set(metal3.HealthyCondition, healthOf(status, node), "")
	if node != nil {
		if node.IsOwnParent() {
			set(metal3.PowerSyncedCondition, verdict{no, metal3.OwnParentReason}, ownParentMessage)
		} else {
			meta.RemoveStatusCondition(&status.Conditions, metal3.PowerSyncedCondition)
		}
	}
}

const ownParentMessage = "A PATCH has made Ironic take the node for its own parent, a defect of Ironic 29.0.5, and Ironic no longer looks at its power: " +
	"poweredOn is what the last power action left. Upgrade Ironic and clear parent_node there."

// healthOf is the Healthy condition. An empty answer, which is also all that an
// Ironic before API 1.109 gives, keeps the earlier verdict if there is one.
func healthOf(status *metal3.BareMetalHostStatus, node *ironic.Node) verdict {
	if node != nil {
		switch node.Health {
		case "OK":
			return verdict{yes, metal3.HealthyReason}
		case "Warning":
			return verdict{no, metal3.WarningReason}
		case "Critical":
			return verdict{no, metal3.CriticalErrorReason}
		case "":
			if c := findCondition(status, metal3.HealthyCondition); c != nil {
				return verdict{c.Status, c.Reason}
			}
		}
	}
	return verdict{unknown, metal3.UnknownReason}
}

// progressMessage says what Ironic is doing, for people who ask why it takes so long.
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

func SetCondition(status *metal3.BareMetalHostStatus, host *metal3.BareMetalHost, c metav1.Condition, now time.Time) {
	c.Message = CutMessage(c.Message)
	c.ObservedGeneration = host.Generation
	c.LastTransitionTime = WholeSeconds(now) // kept by SetStatusCondition unless the status changes
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
