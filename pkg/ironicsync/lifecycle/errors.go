package lifecycle

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// hostError is what is wrong with a host, in the words of status.errorType and
// status.errorMessage.
type hostError struct {
	Kind    metal3.ErrorType
	message string
	// kept is set when the error was there before: a new observation of it is not
	// another failure.
	kept bool
	// isHeld is set for the error that the condition Held makes.
	isHeld bool
}

// SetError makes failure, or its absence, the host's error and counts it when it
// is a new one, or the same one again after another try. It leaves the
// operational statuses alone that say something else than OK or error.
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
	}
	switch status.ErrorType {
	case metal3.InspectionError, metal3.PreparationError, metal3.ProvisioningError:
		// Gone because it is being tried again. The count stays until the host has
		// arrived: the next failure on the way is one more in a row.
	case "":
	default:
		status.ErrorCount = 0
	}
	status.ErrorType, status.ErrorMessage = "", ""
}

// ErrorOf is what is wrong with a host that is not detached. Its node may be nil.
func ErrorOf(status *metal3.BareMetalHostStatus, host *metal3.BareMetalHost, node *ironic.Node) *hostError {
	var ofNode *hostError
	if node != nil {
		ofNode = ironicError(status, host, node)
	}
	if isSilent(status) {
		return firstError(heldError(status), registrationError(status), StepError(status), ofNode)
	}
	return firstError(heldError(status), registrationError(status), ofNode, StepError(status))
}

// heldError is what the condition Held says. It is no failed attempt, so it is not counted:
// a deletion gives up after some errors, and must not because of this one.
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

// stepErrors are the errors that a failed step of ours is kept as, by the reason
// of the StepFailed condition.
var stepErrors = map[string]metal3.ErrorType{
	metal3.InspectionErrorReason:              metal3.InspectionError,
	metal3.PreparationErrorReason:             metal3.PreparationError,
	metal3.ProvisioningErrorReason:            metal3.ProvisioningError,
	metal3.PowerManagementErrorReason:         metal3.PowerManagementError,
	metal3.ProvisionedRegistrationErrorReason: metal3.ProvisionedRegistrationError,
	metal3.ServicingErrorReason:               metal3.ServicingError,
	metal3.DetachErrorReason:                  metal3.DetachError,
}

// StepError is the error of the last step towards Ironic, which the controller
// keeps in the StepFailed condition because no node shows it: a refusal, a Secret
// with user data that is missing, a deployment that failed and was undone.
func StepError(status *metal3.BareMetalHostStatus) *hostError {
	c := findCondition(status, metal3.StepFailedCondition)
	if c == nil || c.Status != metav1.ConditionTrue {
		return nil
	}
	kind, known := stepErrors[c.Reason]
	if !known { // a ramdisk that was timed out, or a request that keeps failing
		kind = errorTypeInState(status.Provisioning.State)
	}
	return &hostError{Kind: kind, message: c.Message, kept: true} // it was counted when it happened
}

// errorTypeInState is the type of an error that goes by nothing but the host's state.
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

// SetRequestFailing records that a request of a step keeps failing for reasons that are
// not the host's (see RequestFailedReason). Registering says so in the condition
// Registered, every other step in StepFailed. It returns whether anything changed.
func SetRequestFailing(host *metal3.BareMetalHost, step Step, message string, now time.Time) (changed bool) {
	c := metav1.Condition{Type: metal3.StepFailedCondition, Status: metav1.ConditionTrue, Reason: metal3.RequestFailedReason, Message: CutMessage(message)}
	switch step.Do {
	case "", Begin, Report, TakeHardware, FindNode, CreateNode, Register: // "": the host's Secrets could not be read to plan one
		c.Type, c.Status = metal3.RegisteredCondition, metav1.ConditionFalse
	default:
		if isSilent(&host.Status) {
			return false // that leads to the step, and is the error until it is taken
		}
	}
	if known := findCondition(&host.Status, c.Type); known != nil && known.Status == c.Status && known.Reason == c.Reason && known.Message == c.Message {
		return false
	}
	SetCondition(&host.Status, host, c, now)
	return true
}

// IsRequestFailing tells whether the request of a step, apart from those of registering,
// keeps failing for reasons that are not the host's.
func IsRequestFailing(status *metal3.BareMetalHostStatus) bool {
	c := findCondition(status, metal3.StepFailedCondition)
	return c != nil && c.Status == metav1.ConditionTrue && c.Reason == metal3.RequestFailedReason
}

// IsAnyRequestFailing is IsRequestFailing, those of registering included.
func IsAnyRequestFailing(status *metal3.BareMetalHostStatus) bool {
	c := findCondition(status, metal3.RegisteredCondition)
	return IsRequestFailing(status) || c != nil && c.Reason == metal3.RequestFailedReason
}

// SetStepError makes kind and message the StepFailed condition, or removes it when
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

// registrationError is the error of our own side of the registration, which the
// controller keeps in the Registered condition: a Secret that is missing, a MAC
// address that another node has. NodeLost is no error, the host is on its way back.
func registrationError(status *metal3.BareMetalHostStatus) *hostError {
	c := findCondition(status, metal3.RegisteredCondition)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason == metal3.NodeLostReason {
		return nil
	}
	return &hostError{Kind: registrationErrorType(status), message: c.Message}
}

// registrationErrorType: a host that has been provisioned keeps its state when
// its registration fails, and gets an error type of its own.
func registrationErrorType(status *metal3.BareMetalHostStatus) metal3.ErrorType {
	switch status.Provisioning.State {
	case metal3.StateProvisioned, metal3.StateExternallyProvisioned:
		return metal3.ProvisionedRegistrationError
	}
	return metal3.RegistrationError
}

// ironicError is the error that the node shows now, or nil.
func ironicError(status *metal3.BareMetalHostStatus, host *metal3.BareMetalHost, node *ironic.Node) *hostError {
	if isStepFault(node) && node.Reservation != "" {
		return nil // Ironic is about to write the state that goes with it
	}
	if node.Fault != "" {
		return failed(status, faultType(status, node), node, firstOf(node.MaintenanceReason, "Ironic reports the fault "+node.Fault))
	}
	if isFailedState(node.ProvisionState) && status.Ironic != nil && status.Ironic.AbortRequested {
		return nil
	}
	switch node.ProvisionState {
	case ironic.Verifying, ironic.Adopting:
		// A new try clears last_error; whether it helped is not known yet.
		if status.ErrorType == metal3.RegistrationError || status.ErrorType == metal3.ProvisionedRegistrationError {
			return &hostError{Kind: status.ErrorType, message: status.ErrorMessage, kept: true}
		}
		return nil
	case ironic.Enroll:
		// A node that was never verified has no last_error; one whose verification
		// failed falls back to enroll.
		return failed(status, registrationErrorType(status), node, "")
	case ironic.InspectFail:
		return failed(status, metal3.InspectionError, node, "inspection failed")
	case ironic.CleanFail:
		return failed(status, cleaningErrorType(status), node, "cleaning failed")
	case ironic.DeployFail, ironic.Error:
		return failed(status, metal3.ProvisioningError, node, "deployment failed")
	case ironic.AdoptFail:
		return failed(status, metal3.ProvisionedRegistrationError, node, "adoption failed")
	case ironic.ServiceFail:
		return failed(status, metal3.ServicingError, node, "servicing failed")
	}
	switch {
	case powerActionFailed(node) && !isPoweredAsWanted(host, node):
		return &hostError{Kind: metal3.PowerManagementError, message: node.LastError}
	case node.TargetPowerState != "" && status.ErrorType == metal3.PowerManagementError:
		return &hostError{Kind: status.ErrorType, message: status.ErrorMessage, kept: true}
	}
	return nil
}

// failed is the error of a failed state. Ironic writes the state before it
// writes last_error and releases the lock: while the node is reserved, the
// failure is not complete, and without text it is worth waiting for. Later any
// power action clears last_error, and the failure is still the one that it was.
func failed(status *metal3.BareMetalHostStatus, kind metal3.ErrorType, node *ironic.Node, otherwise string) *hostError {
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

// cleaningErrorType goes by the host's state: Ironic cleans to prepare a host and
// to deprovision one, and keeps the fault when the node has left clean failed.
func cleaningErrorType(status *metal3.BareMetalHostStatus) metal3.ErrorType {
	if status.Provisioning.State == metal3.StatePreparing {
		return metal3.PreparationError
	}
	return metal3.ProvisioningError
}

// powerActionFailed tells whether last_error is that of the latest power action
// and still holds. Ironic keeps last_error until the next action begins, so a
// text about anything else in a stable state is history, and so is a power
// failure whose target has been reached since, by whatever means.
func powerActionFailed(node *ironic.Node) bool {
	target, ok := strings.CutPrefix(node.LastError, "Failed to change power state to '")
	if !ok || node.TargetPowerState != "" {
		return false
	}
	target, _, _ = strings.Cut(target, "'")
	return string(node.PowerState) != strings.TrimPrefix(target, "soft ")
}

// isPoweredAsWanted tells whether nobody wants another power state any more. A host is
// switched off before it is deleted, whatever its spec says.
func isPoweredAsWanted(host *metal3.BareMetalHost, node *ironic.Node) bool {
	if !host.DeletionTimestamp.IsZero() {
		return false
	}
	wish := rebootWishOf(host)
	on := host.Spec.Online && !wish.once && !wish.hold
	return on == (node.PowerState == ironic.PowerOn) && node.PowerState != ""
}
