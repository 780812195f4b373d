// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
)

// What is recorded of the outcome of steps. Render turns it into errors and conditions.

// SetRegistered records that the node has been registered according to the present spec, and
// with what else. The message says what of it Ironic did not take; it is empty if it took all. That credentials are good is known of
// the BMC that has accepted them only.
func SetRegistered(host *metal3.BareMetalHost, with metal3.RegisteredWith, message string) {
	if former := host.Status.Record.RegisteredWith; former != nil && former.BMC != "" && !bmc.ParseKey(former.BMC).Matches(bmc.ParseKey(with.BMC)) {
		host.Status.GoodCredentials = metal3.CredentialsStatus{}
	}
	host.Status.Record.RegisteredWith = &with
	host.Status.Record.Registration = newRegistration(host, metal3.RegisteredReason, message)
}

// RegisterAgain records that what Ironic was told of the host's machine is out of date, such as its network cards.
func RegisterAgain(host *metal3.BareMetalHost) {
	if with := host.Status.Record.RegisteredWith; with != nil {
		with.SettingsDigest = ""
	}
}

// SetNotRegistered records why the node cannot be registered according to the present spec. The reason is one of
// the condition Registered.
func SetNotRegistered(host *metal3.BareMetalHost, reason, message string) {
	host.Status.Record.Registration = newRegistration(host, reason, message)
}

// Reported records what a Report says.
func Reported(host *metal3.BareMetalHost, step Step) {
	SetNotRegistered(host, step.Reason, step.Message)
	host.Status.Record.Registration.Elsewhere = step.Elsewhere
	CountAgain(host, step.Message)
}

func newRegistration(host *metal3.BareMetalHost, reason, message string) *metal3.Registration {
	return &metal3.Registration{Generation: host.Generation, Reason: reason, Message: CutMessage(message)}
}

// isRegistrationRecorded reports whether the host's last attempt to register failed for this reason.
func isRegistrationRecorded(host *metal3.BareMetalHost, reason, message string) bool {
	r := host.Status.Record.Registration
	return r != nil && r.Reason == reason && r.Message == CutMessage(message)
}

// SetFailure records that a step of a kind of operation failed.
func SetFailure(host *metal3.BareMetalHost, kind metal3.ErrorType, message string) {
	host.Status.Record.Failure = newFailure(kind, message)
}

func newFailure(kind metal3.ErrorType, message string) *metal3.Failure {
	return &metal3.Failure{Type: kind, Message: CutMessage(message)}
}

// ClearFailure records that no step has failed.
func ClearFailure(host *metal3.BareMetalHost) { host.Status.Record.Failure = nil }

// SetRequestFailing records that a request of a step keeps failing for reasons that have
// nothing to do with the host (see metal3.RequestFailedReason). It reports whether the host was
// changed.
func SetRequestFailing(host *metal3.BareMetalHost, step Step, message string) (changed bool) {
	record := &host.Status.Record
	switch step.Do {
	case "", Begin, Report, RecordGivenHardware, FindNode, CreateNode, Register: // "": the host's Secrets could not be read to plan one
		if isRegistrationRecorded(host, metal3.RequestFailedReason, message) {
			return false
		}
		SetNotRegistered(host, metal3.RequestFailedReason, message)
		return true
	}
	failure := metal3.Failure{Cause: metal3.RequestFailed, Message: CutMessage(message)}
	if isTimedOut(&host.Status) || record.Failure != nil && *record.Failure == failure {
		return false // a step that follows from a timeout leaves that as the error
	}
	record.Failure = &failure
	return true
}

// IsRequestFailing reports whether the request of a step, other than those of the registration,
// keeps failing for reasons that have nothing to do with the host.
func IsRequestFailing(status *metal3.BareMetalHostStatus) bool {
	return hasCause(status, metal3.RequestFailed)
}

// IsAnyRequestFailing does what IsRequestFailing does, and includes the registration.
func IsAnyRequestFailing(status *metal3.BareMetalHostStatus) bool {
	r := status.Record.Registration
	return IsRequestFailing(status) || r != nil && r.Reason == metal3.RequestFailedReason
}

// isTimedOut reports whether observeRamdiskTimeout has timed out the host's ramdisk.
func isTimedOut(status *metal3.BareMetalHostStatus) bool {
	return hasCause(status, metal3.CallbackTimeout)
}

func hasCause(status *metal3.BareMetalHostStatus, cause metal3.FailureCause) bool {
	failure := status.Record.Failure
	return failure != nil && failure.Cause == cause
}

// HasFailureOf reports whether a step of this kind of operation has failed.
func HasFailureOf(status *metal3.BareMetalHostStatus, kind metal3.ErrorType) bool {
	failed := stepError(status)
	return failed != nil && failed.Type == kind
}

// SetHold records why the host's machine is left alone, or that it is not if the step has no reason. What is recorded of this host
// alone is kept while all hosts are held.
func SetHold(host *metal3.BareMetalHost, step Step) {
	if step.Reason == "" {
		endHold(&host.Status.Record)
		host.Status.Record.AsOfRestore = max(host.Status.Record.AsOfRestore, step.AsOfRestore)
		return
	}
	record, hold := &host.Status.Record, &metal3.Hold{Reason: step.Reason, Message: CutMessage(step.Message), Other: step.Other, Elsewhere: step.Elsewhere}
	if !hold.IsOfAllHosts() {
		record.HeldBefore = nil
	} else if !record.Hold.IsOfAllHosts() {
		record.HeldBefore = record.Hold
	}
	record.Hold = hold
}

// endHold records that the machine is not left alone any more. What has kept the host from being registered before may be over by
// now: nothing was tried meanwhile that would have shown it, and the next step does. (That the BMC was in use elsewhere stays: it is
// evidence while not all Ironics can be read.)
func endHold(record *metal3.HostRecord) {
	record.Hold, record.HeldBefore = nil, nil
	if r := record.Registration; r != nil && r.Reason != metal3.RegisteredReason && r.Reason != metal3.BMCInUseReason {
		record.Registration = nil
	}
}

// SetResemblance records what the host's machine has in common with another host's; empty if nothing.
func SetResemblance(host *metal3.BareMetalHost, resembles string) {
	host.Status.Record.Resembles = CutMessage(resembles)
}

// SetAwaitedImage records what the image of a host waits for, or, if that is empty, that the host does not
// wait.
func SetAwaitedImage(host *metal3.BareMetalHost, waiting string) {
	host.Status.Record.AwaitedImage = CutMessage(waiting)
}
