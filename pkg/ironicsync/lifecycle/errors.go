// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"strings"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/failure"
)

// hostError is an error that a host is to show.
type hostError struct {
	metal3.HostError
	// isCounted is set if the error was counted when it happened, so that finding it again is not
	// another failure.
	isCounted bool
	// isHold is set if the error comes from the record's Hold. It is never counted, because it is not a failed
	// attempt: a deletion gives up after several failed attempts, and must not do so because of it.
	isHold bool
	// isOfMachine is set if the machine, its BMC, or what the host says of it may be the reason: it is not that a request got no answer
	// from Ironic, or that Ironic was restarted.
	isOfMachine bool
}

// newError returns an error that is counted if it is new.
func newError(kind metal3.ErrorType, message string) *hostError {
	return &hostError{HostError: metal3.HostError{Type: kind, Message: CutMessage(message), Cause: causeOf(message)}}
}

// causeOf returns the cause of an error in Ironic's words, of which Ironic has no other account.
func causeOf(message string) metal3.ErrorCause {
	meaning, _ := failure.Of(message)
	switch {
	case meaning.RefusesUser():
		return metal3.BMCRefuses
	case meaning.MayRefuseUser():
		return metal3.BMCSilentOrRefuses
	case meaning.IsNoAccess():
		return metal3.BMCNoAccess
	case meaning.RefusesCommand():
		return "" // whoever takes other commands is not silent, and will refuse this one again
	case ironic.SaysBMCIsSilent(message):
		return metal3.BMCSilent
	case ironic.SaysInterrupted(message):
		return metal3.Interrupted
	}
	return ""
}

// countedError is newError for an error that was counted when it happened.
func countedError(kind metal3.ErrorType, message string) *hostError {
	err := newError(kind, message)
	err.isCounted = true
	return err
}

// setError records the host's error, or that it has none if shown is nil. The error is counted if it
// differs from the recorded one, or if it occurs again after another attempt, which is what again tells.
func setError(status *metal3.BareMetalHostStatus, shown *hostError, again bool) {
	recorded := status.Record.Error
	if shown != nil {
		isNew := recorded == nil || *recorded != shown.HostError
		if isNew && !shown.isHold || again && !shown.isCounted {
			status.ErrorCount++
			if shown.isOfMachine {
				status.Record.MachineErrors++
			}
		}
		status.Record.Error = &shown.HostError
		return
	}
	if recorded != nil {
		switch recorded.Type {
		case metal3.InspectionError, metal3.PreparationError, metal3.ProvisioningError:
			// The error has disappeared because of another attempt. The count remains until the
			// host has reached its goal, so that another failure before that counts as the next
			// one in a row.
		default:
			resetErrorCount(status)
		}
	}
	status.Record.Error = nil
}

// resetErrorCount has errors be counted from 0.
func resetErrorCount(status *metal3.BareMetalHostStatus) {
	status.ErrorCount, status.Record.MachineErrors = 0, 0
}

// SetError records an error without counting it.
func SetError(host *metal3.BareMetalHost, kind metal3.ErrorType, message string) {
	host.Status.Record.Error = &newError(kind, message).HostError
}

// CountAgain counts the error with this message again if the host shows it already, because a
// repeated failure is not a new error.
func CountAgain(host *metal3.BareMetalHost, message string) {
	record := &host.Status.Record
	if shown := record.Error; shown == nil || shown.Message != CutMessage(message) {
		return
	}
	host.Status.ErrorCount++
	refused, isOfStep := registrationError(&host.Status), record.Failure != nil && record.Failure.Message == CutMessage(message)
	isOfRegistration := refused != nil && refused.Message == CutMessage(message) && !isOfStep
	if !IsAnyRequestFailing(&host.Status) && !failure.IsOfIronic(message) && (!isOfRegistration || refused.isOfMachine) {
		record.MachineErrors++
	}
}

// ErrorType returns the type of the host's error; empty if it has none.
func ErrorType(status *metal3.BareMetalHostStatus) metal3.ErrorType {
	if status.Record.Error == nil {
		return ""
	}
	return status.Record.Error.Type
}

// errorOf returns the error of a host that is not detached, or nil if it has none.
func errorOf(status *metal3.BareMetalHostStatus, host *metal3.BareMetalHost) *hostError {
	return firstError(holdError(status), failureOf(status, host))
}

// BehindHold returns the status of a host that is held, with the error that the hold hides, or none. Some holds permit that the host
// is registered or switched on, and hide what comes of that.
func BehindHold(host *metal3.BareMetalHost) *metal3.BareMetalHostStatus {
	status := host.Status
	status.Record.Error = nil
	if failed := failureOf(&status, host); failed != nil {
		status.Record.Error = &failed.HostError
	}
	return &status
}

// failureOf returns what has failed; nil if nothing has.
func failureOf(status *metal3.BareMetalHostStatus, host *metal3.BareMetalHost) *hostError {
	var ofNode *hostError
	if node := NodeOf(status); node != nil {
		if ofNode = nodeError(status, host, node); ofNode != nil {
			ofNode.isOfMachine = ofNode.Cause != metal3.Interrupted && !failure.IsOfIronic(ofNode.Message) && !node.Forgotten
		}
	}
	registration := registrationError(status)
	first, second := ofNode, stepError(status)
	if isTimedOut(status) {
		first, second = second, first
	}
	if isDeletionUnderWay(host) && isVerified(status) {
		return firstError(first, second, registration) // a deletion goes on without
	}
	return firstError(registration, first, second)
}

// isDeletionUnderWay reports whether a deleted host is being undeployed or switched off, so that its errors are those of that.
func isDeletionUnderWay(host *metal3.BareMetalHost) bool {
	if host.DeletionTimestamp == nil {
		return false
	}
	switch host.Status.Provisioning.State {
	case metal3.StatePoweringOffBeforeDelete, metal3.StateDeleting:
		return true
	}
	return isDeletionBegun(host)
}

func firstError(errs ...*hostError) *hostError {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func holdError(status *metal3.BareMetalHostStatus) *hostError {
	hold := status.Record.Hold
	if gone := goneDeployment(status); hold == nil && gone != nil {
		hold = &metal3.Hold{Message: goneMessage(status, gone)} // which the leader is about to record
	}
	if hold == nil {
		return nil
	}
	err := countedError(holdErrorType(status), hold.Message)
	err.isHold = true
	return err
}

// stepError returns the error of a step that failed without the node showing it: a request that Ironic
// refused, a missing Secret with user data, a deployment that failed and was undone.
func stepError(status *metal3.BareMetalHostStatus) *hostError {
	failed := status.Record.Failure
	switch {
	case failed == nil:
		return nil
	case failed.Cause != "":
		err := countedError(errorTypeInState(status.Provisioning.State), failed.Message)
		err.isOfMachine = failed.Cause == metal3.CallbackTimeout
		return err
	}
	err := countedError(failed.Type, failed.Message)
	err.isOfMachine = !failure.IsOfIronic(failed.Message)
	return err
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

// registrationError returns why the last attempt to register the host failed, such as a missing Secret
// or a MAC address that another node has; nil if it did not. That Ironic has lost the node is not an error:
// the host is being registered again.
func registrationError(status *metal3.BareMetalHostStatus) *hostError {
	r := status.Record.Registration
	if r == nil || r.Reason == metal3.RegisteredReason || r.Reason == metal3.NodeLostReason {
		return nil
	}
	err := newError(metal3.RegistrationError, r.Message)
	// What a host is told about its Secret, its address or its ports keeps nobody from undeploying a machine whose BMC was verified.
	err.isOfMachine = r.Reason != metal3.RequestFailedReason && !isVerified(status)
	return err
}

// isVerified reports whether Ironic has verified the BMC of the host's node.
func isVerified(status *metal3.BareMetalHostStatus) bool {
	node := NodeOf(status)
	return node != nil && node.ProvisionState != ironic.Enroll && node.ProvisionState != ironic.Verifying
}

// holdErrorType returns the error type of a hold, for which the Bare Metal Operator has none. (In its types, the registration of a host
// fails alike whatever the host runs, and only what has to do with an adoption is of the provisioned.)
func holdErrorType(status *metal3.BareMetalHostStatus) metal3.ErrorType {
	if status.Provisioning.State.RunsSomething() {
		return metal3.ProvisionedRegistrationError
	}
	return metal3.RegistrationError
}

// nodeError returns the error that the node shows now, or nil.
func nodeError(status *metal3.BareMetalHostStatus, host *metal3.BareMetalHost, node *Node) *hostError {
	if isStepFault(node) && node.Reservation != "" {
		return nil // Ironic sets the fault first, and is about to set the failed state
	}
	if node.ProvisionState == ironic.ServiceFail && hasServicingError(status) {
		return stepError(status) // what Ironic says now may be about how the service is left
	}
	if node.Fault != "" {
		return failedNodeError(status, faultType(status, node), node, cmp.Or(node.MaintenanceReason, "Ironic reports the fault "+node.Fault))
	}
	if isFailedState(node.ProvisionState) && status.Ironic.AbortRequested {
		return nil
	}
	if forgotten := forgottenError(status, host, node); forgotten != nil {
		return forgotten
	}
	switch node.ProvisionState {
	case ironic.Verifying, ironic.Adopting:
		// A new attempt clears last_error, and its outcome is not known yet.
		if recorded := status.Record.Error; recorded != nil && (recorded.Type == metal3.RegistrationError || recorded.Type == metal3.ProvisionedRegistrationError) {
			return countedError(recorded.Type, recorded.Message)
		}
		return nil
	case ironic.Enroll:
		// A node whose verification has failed returns to enroll. One that was never verified
		// is in enroll, too, but has no last_error.
		return failedNodeError(status, metal3.RegistrationError, node, "")
	case ironic.InspectFail:
		return failedNodeError(status, metal3.InspectionError, node, "inspection failed")
	case ironic.CleanFail:
		return failedNodeError(status, cleaningErrorType(status), node, "cleaning failed")
	case ironic.DeployFail, ironic.Error:
		return failedNodeError(status, metal3.ProvisioningError, node, "deployment failed")
	case ironic.AdoptFail:
		return failedNodeError(status, metal3.ProvisionedRegistrationError, node, "adoption failed")
	case ironic.ServiceFail:
		return failedNodeError(status, metal3.ServicingError, node, "servicing failed")
	}
	switch text := lastPowerError(status, node); {
	case node.isSwitchForgotten():
		return newError(metal3.PowerManagementError, forgottenSwitch(node))
	case rebootFailure(status, node) != "" && isDueReboot(host, status):
		return newError(metal3.PowerManagementError, rebootFailure(status, node))
	case powerActionFailed(node, text) && !isPoweredAsWanted(host, node):
		return newError(metal3.PowerManagementError, text)
	case node.TargetPowerState != "" && ErrorType(status) == metal3.PowerManagementError:
		return countedError(metal3.PowerManagementError, status.Record.Error.Message)
	}
	return nil
}

// failedNodeError returns the error of a node in a failed state, or nil if the text is still missing.
// Ironic sets the state before it sets last_error and releases the lock, so while the node is
// reserved and has no last_error, the text is about to follow. Later, any power action clears
// last_error, and the recorded error remains. The text is otherwise if Ironic gives none.
func failedNodeError(status *metal3.BareMetalHostStatus, kind metal3.ErrorType, node *Node, otherwise string) *hostError {
	switch {
	case node.LastError != "":
		return newError(kind, node.LastError)
	case otherwise == "":
		return nil
	case ErrorType(status) == kind:
		return countedError(kind, status.Record.Error.Message)
	case node.Reservation != "" && node.Fault == "":
		return nil
	}
	return newError(kind, otherwise)
}

func faultType(status *metal3.BareMetalHostStatus, node *Node) metal3.ErrorType {
	switch node.Fault {
	case ironic.FaultCleanFailure:
		return cleaningErrorType(status)
	case ironic.FaultServiceFailure:
		return metal3.ServicingError
	case ironic.FaultPowerFailure:
		if node.ProvisionState == ironic.Enroll || node.ProvisionState == ironic.Verifying {
			return metal3.RegistrationError
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

// powerActionFailed reports whether text, which is that of last_error, is about the latest power action and still
// applies. Ironic keeps last_error until the next action begins. So in a stable state, a text
// about anything else is outdated, and so is a power failure whose target has been reached
// since then.
func powerActionFailed(node *Node, text string) bool {
	target, _, failed := ironic.FailedPowerAction(text)
	return failed && node.TargetPowerState == "" && string(node.PowerState) != strings.TrimPrefix(string(target), "soft ")
}

// lastPowerError returns what Ironic has said of the last power action that failed, or anything else that is in last_error. Since
// 32.0, Ironic with its default [conductor]node_history clears last_error a minute or two later, when it compares power
// states and finds what it has recorded: the state before the action. The recorded error remains until another action begins.
func lastPowerError(status *metal3.BareMetalHostStatus, node *Node) string {
	if node.LastError == "" && ErrorType(status) == metal3.PowerManagementError && !node.ProvisionState.IsInTransit() {
		return status.Record.Error.Message
	}
	return node.LastError
}

// isDueReboot reports whether a machine that is never switched off has yet to be rebooted because of annotations, according to a status.
func isDueReboot(host *metal3.BareMetalHost, status *metal3.BareMetalHostStatus) bool {
	reboot := rebootRequestOf(&metal3.BareMetalHost{ObjectMeta: host.ObjectMeta, Spec: host.Spec, Status: *status})
	return host.Spec.DisablePowerOff && (reboot.once || reboot.due)
}

// isPoweredAsWanted reports whether the power state is the one that the spec and the annotations
// ask for. It is false for a host that is being deleted, which is switched off whatever its
// spec says.
func isPoweredAsWanted(host *metal3.BareMetalHost, node *Node) bool {
	if !host.DeletionTimestamp.IsZero() {
		return false
	}
	on, off := powerOf(node)
	if isWantedOn(host) || host.Spec.DisablePowerOff && host.Spec.Online {
		return on
	}
	return off
}
