package lifecycle

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// hostError is the error of a host, as it is shown in status.errorType and
// status.errorMessage.
type hostError struct {
	Kind    metal3.ErrorType
	message string
	// kept is set if the host has the error already, so that observing it again is not
	// another failure.
	kept bool
	// isHeld is set if the error comes from the condition Held.
	isHeld bool
}

// SetError sets the host's error to failure, or removes it if failure is nil. The error is
// counted if it is new, or if the same error occurs again after another attempt, which is what
// again tells. Without a failure, operational statuses other than OK and error mostly remain.
func SetError(status *metal3.BareMetalHostStatus, failure *hostError, again bool) {
	if failure != nil {
		message := CutMessage(failure.message)
		isNew := status.ErrorType != failure.Kind || status.ErrorMessage != message
		if isNew && !failure.isHeld || again && !failure.kept {
			status.ErrorCount++
		}
		status.OperationalStatus = metal3.OperationalStatusError
		status.ErrorType, status.ErrorMessage = failure.Kind, message
		return
	}
	switch status.OperationalStatus {
	case metal3.OperationalStatusDiscovered, metal3.OperationalStatusDelayed, metal3.OperationalStatusDetached:
	default:
		status.OperationalStatus = metal3.OperationalStatusOK
		if isBeingServiced(status) {
			status.OperationalStatus = metal3.OperationalStatusServicing
		}
	}
	switch status.ErrorType {
	case metal3.InspectionError, metal3.PreparationError, metal3.ProvisioningError:
		// The error has disappeared because of another attempt. The count remains until the
		// host has reached its goal, so that another failure before that counts as the next
		// one in a row.
	case "":
	default:
		status.ErrorCount = 0
	}
	status.ErrorType, status.ErrorMessage = "", ""
}

// ErrorOf returns the error of a host that is not detached, or nil if it has none. The node is
// nil if Ironic has none.
func ErrorOf(status *metal3.BareMetalHostStatus, host *metal3.BareMetalHost, node *ironic.Node) *hostError {
	var ofNode *hostError
	if node != nil {
		ofNode = ironicError(status, host, node)
	}
	if isTimedOut(status) {
		return firstError(heldError(status), registrationError(status), StepError(status), ofNode)
	}
	return firstError(heldError(status), registrationError(status), ofNode, StepError(status))
}

// heldError returns the error that the condition Held stands for. It is not counted, because it
// is not a failed attempt: a deletion gives up after several failed attempts, and must not do
// so because of this error.
func heldError(status *metal3.BareMetalHostStatus) *hostError {
	c := findCondition(status, metal3.HeldCondition)
	if c == nil {
		return nil
	}
	return &hostError{Kind: registrationErrorType(status), message: c.Message, kept: true, isHeld: true}
}

func firstError(errs ...*hostError) *hostError {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// stepErrors are the error types of failed steps, by the reason of the condition StepFailed.
var stepErrors = map[string]metal3.ErrorType{
	metal3.InspectionErrorReason:              metal3.InspectionError,
	metal3.PreparationErrorReason:             metal3.PreparationError,
	metal3.ProvisioningErrorReason:            metal3.ProvisioningError,
	metal3.PowerManagementErrorReason:         metal3.PowerManagementError,
	metal3.ProvisionedRegistrationErrorReason: metal3.ProvisionedRegistrationError,
	metal3.ServicingErrorReason:               metal3.ServicingError,
	metal3.DetachErrorReason:                  metal3.DetachError,
}

// StepError returns the error of the controller's last step, or nil. The controller records it
// in the condition StepFailed if it does not show in the node: a request that Ironic refused, a
// missing Secret with user data, a deployment that failed and was undone.
func StepError(status *metal3.BareMetalHostStatus) *hostError {
	c := findCondition(status, metal3.StepFailedCondition)
	if c == nil || c.Status != metav1.ConditionTrue {
		return nil
	}
	kind, known := stepErrors[c.Reason]
	if !known { // the ramdisk timed out, or a request keeps failing
		kind = errorTypeInState(status.Provisioning.State)
	}
	return &hostError{Kind: kind, message: c.Message, kept: true} // it was counted when it happened
}

// errorTypeInState returns the type of an error of which only the host's state is known.
func errorTypeInState(state metal3.ProvisioningState) metal3.ErrorType {
	switch state {
	case metal3.StateInspecting:
		return metal3.InspectionError
	case metal3.StatePreparing:
		return metal3.PreparationError
	case metal3.StateAvailable, metal3.StateReady, metal3.StateProvisioned, metal3.StateExternallyProvisioned, metal3.StatePoweringOffBeforeDelete:
		return metal3.PowerManagementError
	case metal3.StateDeleting:
		return metal3.DetachError
	}
	return metal3.ProvisioningError
}

// SetRequestFailing records that a request of a step keeps failing for reasons that have
// nothing to do with the host (see RequestFailedReason): in the condition Registered for the
// steps of the registration, and in StepFailed for all others. It returns whether the host was
// changed.
func SetRequestFailing(host *metal3.BareMetalHost, step Step, message string, now time.Time) (changed bool) {
	c := metav1.Condition{Type: metal3.StepFailedCondition, Status: metav1.ConditionTrue, Reason: metal3.RequestFailedReason, Message: CutMessage(message)}
	switch step.Do {
	case "", Begin, Report, RecordGivenHardware, FindNode, CreateNode, Register: // "": the host's Secrets could not be read to plan one
		c.Type, c.Status = metal3.RegisteredCondition, metav1.ConditionFalse
	default:
		if isTimedOut(&host.Status) {
			return false // the step follows from the timeout, which remains the error until then
		}
	}
	if known := findCondition(&host.Status, c.Type); known != nil && known.Status == c.Status && known.Reason == c.Reason && known.Message == c.Message {
		return false
	}
	SetCondition(&host.Status, host, c, now)
	return true
}

// IsRequestFailing tells whether the request of a step, other than those of the registration,
// keeps failing for reasons that have nothing to do with the host.
func IsRequestFailing(status *metal3.BareMetalHostStatus) bool {
	c := findCondition(status, metal3.StepFailedCondition)
	return c != nil && c.Status == metav1.ConditionTrue && c.Reason == metal3.RequestFailedReason
}

// IsAnyRequestFailing does what IsRequestFailing does, and includes the registration.
func IsAnyRequestFailing(status *metal3.BareMetalHostStatus) bool {
	c := findCondition(status, metal3.RegisteredCondition)
	return IsRequestFailing(status) || c != nil && c.Reason == metal3.RequestFailedReason
}

// SetStepError sets the condition StepFailed according to kind and message, or removes it if
// kind is empty.
func SetStepError(host *metal3.BareMetalHost, kind metal3.ErrorType, message string, now time.Time) {
	if kind == "" {
		meta.RemoveStatusCondition(&host.Status.Conditions, metal3.StepFailedCondition)
		return
	}
	for reason, k := range stepErrors {
		if k == kind {
			SetCondition(&host.Status, host, metav1.Condition{Type: metal3.StepFailedCondition, Status: metav1.ConditionTrue, Reason: reason, Message: message}, now)
		}
	}
}

// registrationError returns the error of the registration that the controller has recorded in
// the condition Registered, such as a missing Secret or a MAC address that another node has; nil
// if there is none. The reason NodeLost is not an error: the host is being registered again.
func registrationError(status *metal3.BareMetalHostStatus) *hostError {
	c := findCondition(status, metal3.RegisteredCondition)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason == metal3.NodeLostReason {
		return nil
	}
	return &hostError{Kind: registrationErrorType(status), message: c.Message}
}

// registrationErrorType returns the error type of a failed registration. It differs for hosts
// that are provisioned, which keep their state.
func registrationErrorType(status *metal3.BareMetalHostStatus) metal3.ErrorType {
	switch status.Provisioning.State {
	case metal3.StateProvisioned, metal3.StateExternallyProvisioned:
		return metal3.ProvisionedRegistrationError
	}
	return metal3.RegistrationError
}

// ironicError returns the error that the node shows now, or nil.
func ironicError(status *metal3.BareMetalHostStatus, host *metal3.BareMetalHost, node *ironic.Node) *hostError {
	if isStepFault(node) && node.Reservation != "" {
		return nil // Ironic sets the fault first, and is about to set the failed state
	}
	if failed := StepError(status); node.ProvisionState == ironic.ServiceFail && failed != nil && failed.Kind == metal3.ServicingError {
		return failed // what Ironic says now may be about how the service is left
	}
	if node.Fault != "" {
		return failureOf(status, faultType(status, node), node, firstOf(node.MaintenanceReason, "Ironic reports the fault "+node.Fault))
	}
	if isFailedState(node.ProvisionState) && status.Ironic != nil && status.Ironic.AbortRequested {
		return nil
	}
	switch node.ProvisionState {
	case ironic.Verifying, ironic.Adopting:
		// A new attempt clears last_error, and its outcome is not known yet.
		if status.ErrorType == metal3.RegistrationError || status.ErrorType == metal3.ProvisionedRegistrationError {
			return &hostError{Kind: status.ErrorType, message: status.ErrorMessage, kept: true}
		}
		return nil
	case ironic.Enroll:
		// A node whose verification has failed returns to enroll. One that was never verified
		// is in enroll, too, but has no last_error.
		return failureOf(status, registrationErrorType(status), node, "")
	case ironic.InspectFail:
		return failureOf(status, metal3.InspectionError, node, "inspection failed")
	case ironic.CleanFail:
		return failureOf(status, cleaningErrorType(status), node, "cleaning failed")
	case ironic.DeployFail, ironic.Error:
		return failureOf(status, metal3.ProvisioningError, node, "deployment failed")
	case ironic.AdoptFail:
		return failureOf(status, metal3.ProvisionedRegistrationError, node, "adoption failed")
	case ironic.ServiceFail:
		return failureOf(status, metal3.ServicingError, node, "servicing failed")
	}
	switch {
	case powerActionFailed(node) && !isPoweredAsWanted(host, node):
		return &hostError{Kind: metal3.PowerManagementError, message: node.LastError}
	case node.TargetPowerState != "" && status.ErrorType == metal3.PowerManagementError:
		return &hostError{Kind: status.ErrorType, message: status.ErrorMessage, kept: true}
	}
	return nil
}

// failureOf returns the error of a node in a failed state, or nil if the text is still missing.
// Ironic sets the state before it sets last_error and releases the lock, so while the node is
// reserved and has no last_error, the text is about to follow. Later, any power action clears
// last_error, and the recorded error remains. The text is otherwise if Ironic gives none.
func failureOf(status *metal3.BareMetalHostStatus, kind metal3.ErrorType, node *ironic.Node, otherwise string) *hostError {
	switch {
	case node.LastError != "":
		return &hostError{Kind: kind, message: node.LastError}
	case otherwise == "":
		return nil
	case status.ErrorType == kind:
		return &hostError{Kind: kind, message: status.ErrorMessage, kept: true}
	case node.Reservation != "" && node.Fault == "":
		return nil
	}
	return &hostError{Kind: kind, message: otherwise}
}

func faultType(status *metal3.BareMetalHostStatus, node *ironic.Node) metal3.ErrorType {
	switch node.Fault {
	case ironic.FaultCleanFailure:
		return cleaningErrorType(status)
	case ironic.FaultServiceFailure:
		return metal3.ServicingError
	case ironic.FaultPowerFailure:
		if node.ProvisionState == ironic.Enroll || node.ProvisionState == ironic.Verifying {
			return registrationErrorType(status)
		}
	}
	return metal3.PowerManagementError
}

// cleaningErrorType returns the error type of a failed cleaning, which depends on why the node
// was cleaned. It goes by the state of the host and not by that of the node, because the fault
// remains when the node leaves the state "clean failed".
func cleaningErrorType(status *metal3.BareMetalHostStatus) metal3.ErrorType {
	if status.Provisioning.State == metal3.StatePreparing {
		return metal3.PreparationError
	}
	return metal3.ProvisioningError
}

// powerActionFailed tells whether last_error is about the latest power action and still
// applies. Ironic keeps last_error until the next action begins. So in a stable state, a text
// about anything else is outdated, and so is a power failure whose target has been reached
// since then.
func powerActionFailed(node *ironic.Node) bool {
	target, ok := strings.CutPrefix(node.LastError, "Failed to change power state to '")
	if !ok || node.TargetPowerState != "" {
		return false
	}
	target, _, _ = strings.Cut(target, "'")
	return string(node.PowerState) != strings.TrimPrefix(target, "soft ")
}

// isPoweredAsWanted tells whether the power state is the one that the spec and the annotations
// ask for. It is false for a host that is being deleted, which is switched off whatever its
// spec says.
func isPoweredAsWanted(host *metal3.BareMetalHost, node *ironic.Node) bool {
	if !host.DeletionTimestamp.IsZero() {
		return false
	}
	return isWantedOn(host) == (node.PowerState == ironic.PowerOn) && node.PowerState != ""
}
