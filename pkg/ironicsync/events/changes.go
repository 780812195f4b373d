// SPDX-License-Identifier: Apache-2.0

package events

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// Event is one thing that happened to a host.
type Event struct {
	// Type is Normal, or Warning when something is wrong.
	Type string
	// Reason is one of those in docs/reference/events.md, most of which are those of the Bare Metal Operator.
	Reason string
	// Message holds no credentials.
	Message string
	// Failure is set if the event tells of an error of the host. Its reason is then one of
	// FailureReasons.
	Failure bool
}

// FailureReasons returns the reasons of events that tell of errors.
func FailureReasons() []string {
	return append(slices.Sorted(maps.Values(errorReasons)), credentialErrorReason, heldReason)
}

// Changes returns the events that follow from a change of a host, in the order in
// which things happened; old is nil for a new host. It looks at nothing but the two
// versions, so that each change is told once, by whoever watches.
func Changes(old, new *metal3.BareMetalHost) []Event {
	if new == nil {
		return nil
	}
	if old == nil || old.UID != new.UID {
		old = &metal3.BareMetalHost{}
	}
	c := change{old: old, new: new}
	if hasStatusAnnotation(old) && !hasStatusAnnotation(new) {
		return nil // the status was restored: what it tells happened long ago
	}
	c.annotations()
	c.registration()
	c.inspection()
	c.preparation()
	c.servicing()
	c.attachment()
	c.provisioning()
	c.deprovisioning()
	c.power()
	c.failure()
	c.holdEnd()
	return c.events
}

type change struct {
	old, new *metal3.BareMetalHost
	events   []Event
}

func (c *change) normal(reason, format string, args ...any) {
	c.add(corev1.EventTypeNormal, reason, format, args...)
}

func (c *change) warning(reason, format string, args ...any) {
	c.add(corev1.EventTypeWarning, reason, format, args...)
}

func (c *change) add(eventType, reason, format string, args ...any) {
	c.events = append(c.events, Event{Type: eventType, Reason: reason, Message: withoutCredentials(fmt.Sprintf(format, args...))})
}

// entered reports whether the host has come into the state.
func (c *change) entered(state metal3.ProvisioningState) bool {
	return c.old.Status.Provisioning.State != state && c.new.Status.Provisioning.State == state
}

// left reports whether the host has come out of the state.
func (c *change) left(state metal3.ProvisioningState) bool {
	return c.old.Status.Provisioning.State == state && c.new.Status.Provisioning.State != state
}

// ended reports whether an operation has ended.
func ended(old, new metal3.OperationMetric) bool {
	return !new.End.IsZero() && !new.End.Equal(&old.End)
}

// began reports whether an operation has begun and goes on.
func began(old, new metal3.OperationMetric) bool {
	return !new.Start.IsZero() && new.End.IsZero() && !new.Start.Equal(&old.Start)
}

// annotations reports what becomes of annotations that ask for something in vain. Of those that ask for reboots there can be thousands: they
// are told in one event.
func (c *change) annotations() {
	var requested, invalid []string
	for _, key := range slices.Sorted(maps.Keys(c.new.Annotations)) {
		value := c.new.Annotations[key]
		was, had := c.old.Annotations[key]
		if had && was == value {
			continue
		}
		if metal3.IsRebootAnnotation(key) {
			if _, err := metal3.ParseRebootAnnotation(value); err != nil {
				invalid = append(invalid, key)
			}
			if !had {
				requested = append(requested, key)
			}
		}
		if _, err := metal3.ParseDetachedAnnotation(value); key == metal3.DetachedAnnotation && err != nil {
			c.invalid(key, err, "counts as an empty one")
		}
	}
	if len(invalid) > 0 {
		also := ""
		if more := len(invalid) - 1; more > 0 {
			also = fmt.Sprintf(" (as do %d more)", more)
		}
		_, err := metal3.ParseRebootAnnotation(c.new.Annotations[invalid[0]])
		c.invalid(invalid[0], err, "counts as an empty one"+also+", which asks for a soft reboot")
	}
	c.rebootRequested(requested)
	value, had := c.old.Annotations[metal3.HardwareDetailsAnnotation]
	if _, has := c.new.Annotations[metal3.HardwareDetailsAnnotation]; !had || has {
		return
	}
	if _, err := metal3.ParseHardwareDetailsAnnotation(value); err != nil {
		c.invalid(metal3.HardwareDetailsAnnotation, err, "is dropped")
	} else if equality.Semantic.DeepEqual(c.old.Status.HardwareDetails, c.new.Status.HardwareDetails) {
		c.normal("RemoveAnnotation", "Annotation %s removed, and nothing taken over from it: the hardware is known already", metal3.HardwareDetailsAnnotation)
	}
}

// maxNamed is how many annotations are named in an event.
const maxNamed = 3

// rebootRequested reports annotations that ask for a reboot.
func (c *change) rebootRequested(keys []string) {
	if len(keys) == 0 {
		return
	}
	mode := metal3.PowerModeSoft
	for _, key := range keys {
		if arguments, err := metal3.ParseRebootAnnotation(c.new.Annotations[key]); err == nil && arguments.Mode != "" && mode != metal3.PowerModeHard {
			mode = arguments.Mode
		}
	}
	by := setBy(c.new, keys[:min(len(keys), maxNamed)])
	switch {
	case len(keys) > 1: // at least one of them has a key
		c.normal("RebootRequested", "Annotations %s%s ask for the host to be off (%s) until they are removed", enumerated(keys), by, mode)
	case keys[0] == metal3.RebootAnnotation:
		c.normal("RebootRequested", "Annotation %s%s asks for a %s reboot", keys[0], by, mode)
	default:
		c.normal("RebootRequested", "Annotation %s%s asks for the host to be off (%s) until it is removed", keys[0], by, mode)
	}
}

// enumerated names the first of several keys.
func enumerated(keys []string) string {
	last := keys[len(keys)-1]
	if more := len(keys) - maxNamed; more > 0 {
		keys, last = keys[:maxNamed+1], fmt.Sprintf("%d more", more)
	}
	return strings.Join(keys[:len(keys)-1], ", ") + " and " + last
}

// setBy names the client that has set annotations, as far as it is known and only one. The keys must be few: what the clients have set is
// looked through for each.
func setBy(host *metal3.BareMetalHost, keys []string) string {
	var managers []string
	for _, key := range keys {
		field := fmt.Appendf(nil, "%q:", "f:"+key)
		i := slices.IndexFunc(host.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool {
			return entry.FieldsV1 != nil && bytes.Contains(entry.FieldsV1.GetRawBytes(), field)
		})
		if i < 0 {
			return ""
		}
		managers = append(managers, host.ManagedFields[i].Manager)
	}
	if managers = slices.Compact(managers); len(managers) > 1 {
		return ""
	}
	return ", set by " + managers[0] + ","
}

// invalid reports an annotation that cannot be read.
func (c *change) invalid(key string, err error, outcome string) {
	c.warning("InvalidAnnotationValue", "Annotation %s %s, for its value is not valid: %v", key, outcome, err)
}

func (c *change) registration() {
	old, status := &c.old.Status, &c.new.Status
	if c.entered(metal3.StateUnmanaged) {
		c.normal("Discovered", "The host has no BMC details and is not managed: set spec.bmc")
	}
	good := status.GoodCredentials
	if good.Reference != nil && !equality.Semantic.DeepEqual(old.GoodCredentials, good) {
		c.normal("BMCAccessValidated", "Ironic has access to the BMC at %s with the credentials of Secret %q", c.new.Spec.BMC.Address, good.Reference.Name)
	}
	if ended(old.OperationHistory.Register, status.OperationHistory.Register) && !hasVerified(old) {
		c.normal("Registered", "Registered in Ironic as node %s", status.Provisioning.ID)
	}
}

// hasVerified reports whether Ironic has had a node of the host whose BMC was verified, so that it was only told something new of it, such
// as another password.
func hasVerified(status *metal3.BareMetalHostStatus) bool {
	if status.Ironic == nil || status.GoodCredentials.Reference == nil {
		return false
	}
	switch ironic.ProvisionState(status.Ironic.ProvisionState) {
	case "", ironic.Enroll, ironic.Verifying:
		return false
	}
	return true
}

func (c *change) inspection() {
	old, status := &c.old.Status, &c.new.Status
	was, is := old.OperationHistory.Inspect, status.OperationHistory.Inspect
	hardware := status.HardwareDetails
	switch {
	case c.entered(metal3.StateInspecting):
		c.normal("InspectionStarted", "Inspection started")
	case began(was, is) && status.Provisioning.State != metal3.StateInspecting:
		// In that state, an inspection that another client of Ironic began was told already.
		c.normal("InspectionStarted", "Inspection started in state %q", status.Provisioning.State)
	}
	switch {
	case ended(was, is):
		c.normal("InspectionComplete", "Inspection complete%s%s", after(is), found(hardware))
	case hardware != nil && !equality.Semantic.DeepEqual(old.HardwareDetails, hardware):
		c.normal("UpdateHardwareDetails", "Hardware details taken over%s", found(hardware))
	}
	if c.left(metal3.StateRegistering) && c.entered(metal3.StatePreparing) {
		switch {
		case c.new.InspectionDisabled():
			c.normal("InspectionSkipped", "Inspection skipped: it is disabled")
		case hardware != nil:
			c.normal("InspectionSkipped", "Inspection skipped: the hardware is known already")
		}
	}
	if profile := status.HardwareProfile; profile != "" && profile != old.HardwareProfile {
		c.normal("ProfileSet", "Hardware profile set to %q", profile)
	}
}

// preparation reports when Ironic begins and ends to apply settings. A failure is told as an error.
func (c *change) preparation() {
	was, is := c.old.Status.Record.Preparation, c.new.Status.Record.Preparation
	c.steps("Preparation", was, is)
	switch {
	case is == nil || is.RAID == nil:
	case is.EndedAt == nil:
		c.undeletedVolumes()
	case was != nil && was.StartedAt.Equal(&is.StartedAt) && was.EndedAt == nil && is.Phase == metal3.PreparationSucceeded:
		c.otherVolumes(len(is.RAID.HardwareRAIDVolumes) + len(is.RAID.SoftwareRAIDVolumes))
	}
}

// undeletedVolumes reports, when volumes begin to be made, that some are left of those that were to be deleted before: they may be taken
// for those that are to be made. When all has ended, that can no longer be told, nor which step was the one before.
func (c *change) undeletedVolumes() {
	before, after := c.old.Status.Ironic, c.new.Status.Ironic
	if after != nil && after.Step == createStep && after.RAIDVolumes > 0 && (before == nil || before.Step != createStep) {
		c.warning("RAIDVolumesLeft", "Ironic still finds %d RAID volumes on the machine when it has deleted all. When others are made, check that the volumes there are those of spec.raid", after.RAIDVolumes)
	}
}

// otherVolumes reports that Ironic has found more volumes than a RAID layout has that has been made as far as can be told.
func (c *change) otherVolumes(wanted int) {
	if after := c.new.Status.Ironic; after != nil && after.RAIDVolumes > wanted {
		c.warning("RAIDVolumesLeft", "Ironic has found %d RAID volumes on the machine, and spec.raid asks for %d: others were not deleted, or the controller has made them", after.RAIDVolumes, wanted)
	}
}

// createStep is the step that makes volumes, after another one that deletes all.
const createStep = "raid.create_configuration"

// servicing reports when Ironic begins and ends to change settings of a machine that runs something,
// and when the machine runs again what it ran before a service that has failed.
func (c *change) servicing() {
	was, is := c.old.Status.Record.Servicing, c.new.Status.Record.Servicing
	if is == nil {
		return
	}
	var before *metal3.Preparation
	if was != nil {
		before = &was.Preparation
	}
	if isRefused := is.Phase == metal3.PreparationFailed && was != nil && was.Phase == metal3.PreparationRequested; isRefused {
		return // it has not begun
	}
	c.steps("Servicing", before, &is.Preparation)
	if is.Phase == metal3.PreparationFailed && is.EndedAt != nil && was != nil && was.EndedAt == nil && was.StartedAt.Equal(&is.StartedAt) {
		c.normal("ServicingAbandoned", "Servicing ended without success%s: the change is tried again when the host is rebooted", after(metal3.OperationMetric{Start: is.StartedAt, End: *is.EndedAt}))
	}
}

// steps reports when Ironic begins and ends to carry out steps.
func (c *change) steps(what string, was, is *metal3.Preparation) {
	if is == nil || is.Phase == metal3.PreparationRequested {
		return
	}
	isNew := was == nil || !was.StartedAt.Equal(&is.StartedAt) || was.Phase == metal3.PreparationRequested
	if is.IsRequested && is.Phase == metal3.PreparationFailed && isNew { // refused, or not begun at all
		c.warning("PreparationFailed", "Requested clean failed: %s: %s", strings.Join(is.Steps, ", "), is.Message)
		return
	}
	if isNew {
		c.normal(what+"Started", what+" started: %s", strings.Join(is.Steps, ", "))
		was = is.DeepCopy()
		was.Phase = metal3.PreparationRunning
	}
	if is.Phase == metal3.PreparationSucceeded && was.Phase != is.Phase && is.EndedAt != nil {
		c.normal(what+"Complete", what+" complete%s: %s", after(metal3.OperationMetric{Start: is.StartedAt, End: *is.EndedAt}), strings.Join(is.Steps, ", "))
	}
}

func (c *change) provisioning() {
	was, is := c.old.Status.OperationHistory.Provision, c.new.Status.OperationHistory.Provision
	if c.entered(metal3.StateProvisioning) || began(was, is) && c.new.Status.Provisioning.State == metal3.StateProvisioning {
		c.normal("ProvisioningStarted", "Provisioning started%s", of(c.new.Spec.Image, c.new.Spec.CustomDeploy))
	}
	if c.entered(metal3.StateExternallyProvisioned) {
		c.normal("ExternallyProvisioned", "Adopted in Ironic as it is: the machine goes on running what is on it")
	}
	// Others that become provisioned were taken over as they are.
	if c.entered(metal3.StateProvisioned) && (c.left(metal3.StateProvisioning) || ended(was, is)) {
		saved := &c.new.Status.Provisioning
		c.normal("ProvisioningComplete", "Provisioning complete%s%s", after(is), of(&saved.Image, saved.CustomDeploy))
	}
}

func (c *change) deprovisioning() {
	old, status := &c.old.Status, &c.new.Status
	if c.entered(metal3.StateDeprovisioning) {
		why := ""
		switch {
		case !c.new.DeletionTimestamp.IsZero():
			why = ", because the host is deleted"
		case status.ProvisioningFailCount > old.ProvisioningFailCount:
			why = ", because provisioning failed"
		}
		c.normal("DeprovisioningStarted", "Deprovisioning started%s%s", why, of(&old.Provisioning.Image, old.Provisioning.CustomDeploy))
	}
	if !c.left(metal3.StateDeprovisioning) {
		return
	}
	switch {
	case status.Provisioning.State.RunsSomething() && heldBecause(status) == metal3.DeploymentGoneReason:
		c.normal("DeprovisioningCancelled", "Deprovisioning was cancelled, because the spec asks for what the machine ran. It may have begun")
	case status.Provisioning.State.RunsSomething():
		c.normal("DeprovisioningCancelled", "Deprovisioning was cancelled before it began: the spec asks for what the machine runs")
	case status.Provisioning.State != metal3.StatePoweringOffBeforeDelete && status.Provisioning.State != metal3.StateDeleting,
		status.Ironic != nil && status.Ironic.ProvisionState == string(ironic.Available):
		c.normal("DeprovisioningComplete", "Deprovisioning complete%s", after(status.OperationHistory.Deprovision))
	default: // a deletion gives up after some errors
		c.warning("DeprovisioningAbandoned", "The host is deleted without being deprovisioned, after %d errors of its machine: its disks may hold data", old.Record.MachineErrors)
	}
}

// afterWork is how long after Ironic's work on a host a change of its power towards
// spec.online still counts as the end of that work: Ironic has switched the machine for it,
// and the leader restores what the spec wants.
const afterWork = 2 * time.Minute

// power reports changes that are not part of Ironic's work on a host: it switches a
// machine many times to inspect, clean and deploy it, and to find out whether the BMC
// takes commands.
func (c *change) power() {
	old, host := c.old, c.new
	isOn := isPoweredOn(host)
	if isPoweredOn(old) == isOn || !isAtRest(old) || !isAtRest(host) {
		return
	}
	reason, is := "PowerOff", "off"
	if isOn {
		reason, is = "PowerOn", "on"
	}
	against := ""
	if reboot := rebootUnderWay(old, host); reboot != "" && !isOn {
		against = reboot
	} else if asked := old.Status.Record.AskedPower; asked != nil && !isOn && host.Spec.Online {
		against = fmt.Sprintf(", by a request (%s) that this server made before spec.online became true, and that Ironic has carried out late", asked.Target)
	} else if isOn != host.Spec.Online {
		against = fmt.Sprintf(", while spec.online is %v", host.Spec.Online)
	} else if hasJustArrived(host) {
		return
	}
	c.normal(reason, "The host is powered %s%s", is, against)
}

// isPoweredOn reports whether a machine is on. The status of one that is fenced may show it as on before it is, because a request for that
// may still be carried out.
func isPoweredOn(host *metal3.BareMetalHost) bool {
	if node := host.Status.Ironic; node != nil && (node.PowerState == string(ironic.PowerOn) || node.PowerState == string(ironic.PowerOff)) {
		return node.PowerState == string(ironic.PowerOn)
	}
	return host.Status.PoweredOn
}

// rebootUnderWay says who has asked for a reboot of the host: a client, with an annotation, or whoever has asked
// Ironic for it. It is empty if nobody has.
func rebootUnderWay(old, host *metal3.BareMetalHost) string {
	for _, annotations := range []map[string]string{host.Annotations, old.Annotations} {
		for _, key := range slices.Sorted(maps.Keys(annotations)) {
			if metal3.IsRebootAnnotation(key) {
				return fmt.Sprintf(", because of the annotation %s", key)
			}
		}
	}
	for _, node := range []*metal3.IronicStatus{host.Status.Ironic, old.Status.Ironic} {
		if node != nil && (node.TargetPowerState == string(ironic.TargetReboot) || node.TargetPowerState == string(ironic.TargetSoftReboot)) {
			return ", because Ironic was asked to reboot it"
		}
	}
	return ""
}

// isAtRest reports whether the host has arrived where only users, operators and what
// happens to the machine switch its power.
func isAtRest(host *metal3.BareMetalHost) bool {
	switch host.Status.Provisioning.State {
	case metal3.StateAvailable, metal3.StateReady, metal3.StateProvisioned, metal3.StateExternallyProvisioned:
		node := host.Status.Ironic
		return node == nil || !ironic.ProvisionState(node.ProvisionState).IsInTransit()
	}
	return false
}

// hasJustArrived reports whether the host has become available or provisioned a moment
// before its status was last updated.
func hasJustArrived(host *metal3.BareMetalHost) bool {
	if host.Status.LastUpdated == nil {
		return false
	}
	state := host.Status.Record.State
	if state == nil {
		return false
	}
	switch state.Name {
	case metal3.StateAvailable, metal3.StateReady, metal3.StateProvisioned, metal3.StateExternallyProvisioned:
		return host.Status.LastUpdated.Sub(state.Since.Time) < afterWork
	}
	return false
}

func (c *change) attachment() {
	if old, new := &c.old.Status.Record, &c.new.Status.Record; old.Transfer != nil && new.Ironic != old.Ironic {
		c.normal("Transferred", "Moved from %s to %s, where it is registered anew; the machine is left as it is, and so is the state %q",
			ironic.DescribeInstance(old.Ironic), ironic.DescribeInstance(new.Ironic), c.new.Status.Provisioning.State)
	}
	was, is := c.old.IsDetached(), c.new.IsDetached()
	switch {
	case is && !was:
		c.normal("Detached", "Taken out of Ironic; the machine is left as it is, and so is the state %q", c.new.Status.Provisioning.State)
	case was && !is:
		c.normal("Attached", "Managed again: the host is registered in Ironic anew")
	}
}

// errorReasons are the reasons of events about errors, by status.errorType.
var errorReasons = map[metal3.ErrorType]string{
	metal3.RegistrationError:            "RegistrationError",
	metal3.ProvisionedRegistrationError: "ProvisionedRegistrationError",
	metal3.InspectionError:              "InspectionError",
	metal3.PreparationError:             "PreparationError",
	metal3.ProvisioningError:            "ProvisioningError",
	metal3.PowerManagementError:         "PowerManagementError",
	metal3.ServicingError:               "ServicingError",
	metal3.DetachError:                  "DetachError",
}

// heldReason is the reason of events about machines that are left alone. Why is the first word of their messages.
const heldReason = "Held"

// credentialErrorReason is the reason of events about Secrets with the credentials of BMCs.
const credentialErrorReason = "BMCCredentialError"

// failure reports an error that is new, or that another try has met again.
func (c *change) failure() {
	old, status := &c.old.Status, &c.new.Status
	failed, before := status.Record.Error, old.Record.Error
	if failed == nil || before != nil && *failed == *before && status.ErrorCount <= old.ErrorCount {
		return
	}
	reason, known := errorReasons[failed.Type]
	if !known {
		return
	}
	message := failed.Message
	if held := heldBecause(status); held != "" {
		reason, message = heldReason, held+": "+message
	} else if isAboutSecret(status) {
		reason = credentialErrorReason
	}
	again := ""
	if status.ErrorCount > 1 {
		again = fmt.Sprintf(" (error %d in a row)", status.ErrorCount)
	}
	c.warning(reason, "%s%s", message, again)
	c.events[len(c.events)-1].Failure = true
}

// holdEnd reports that a machine is not left alone any more.
func (c *change) holdEnd() {
	if was := c.old.Status.Record.Hold; was != nil && heldBecause(&c.new.Status) == "" {
		c.normal("HoldEnded", "The machine is not held any more because of %s", was.Reason)
	}
}

// heldBecause returns the reason for which the machine is left alone; empty if it is not.
func heldBecause(status *metal3.BareMetalHostStatus) string {
	switch {
	case status.Record.Hold != nil:
		return status.Record.Hold.Reason
	case status.Record.Deployment != nil && status.Record.Deployment.Gone != nil && status.Provisioning.State.RunsSomething():
		return metal3.DeploymentGoneReason // the leader is about to record it
	}
	return ""
}

// isAboutSecret reports whether the error is that the Secret with the BMC's
// credentials is missing or incomplete.
func isAboutSecret(status *metal3.BareMetalHostStatus) bool {
	if status.Record.Registration == nil {
		return false // the hold is the error that is shown
	}
	reason := status.Record.Registration.Reason
	return reason == metal3.SecretNotFoundReason || reason == metal3.SecretIncompleteReason
}

func hasStatusAnnotation(host *metal3.BareMetalHost) bool {
	_, has := host.Annotations[metal3.StatusAnnotation]
	return has
}
