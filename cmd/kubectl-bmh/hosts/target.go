// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// Target is what one can wait for.
type Target string

// The targets.
const (
	// Registered: Ironic has the node and access to its BMC.
	Registered Target = "registered"
	// Inspected: the hardware is known.
	Inspected Target = "inspected"
	// Available: an image can be written to the host.
	Available Target = "available"
	// Provisioned: the host runs the image of its spec.
	Provisioned Target = "provisioned"
	// ExternallyProvisioned: the host was adopted as it runs.
	ExternallyProvisioned Target = "externally-provisioned"
	// On and Off: the power is so, and no operation or reboot is about to change it.
	On  Target = "on"
	Off Target = "off"
	// OK: the host has no error, and nothing keeps it from going on.
	OK Target = "ok"
	// Idle: nothing is being done with the host, with or without an error.
	Idle Target = "idle"
	// Deleted: the host is gone.
	Deleted Target = "deleted"
)

// Targets of actions, which nobody can name.
const (
	// Rebooted: On, after a reboot that has not failed. After another change of the power there is nothing to tell that by.
	Rebooted Target = "rebooted"
	// Settled: OK and Idle. An error disappears when another attempt begins, and comes back when that fails, too.
	Settled Target = "ok and idle"
)

// Targets are all targets that one can name.
var Targets = []Target{Registered, Inspected, Available, Provisioned, ExternallyProvisioned, On, Off, OK, Idle, Deleted}

// Reached reports whether a host, which exists, is where it is wanted.
func Reached(host *metal3.BareMetalHost, target Target) bool {
	if host.DeletionTimestamp != nil {
		return false
	}
	if c := Condition(host, metal3.IronicReachableCondition); c != nil && c.Status == metav1.ConditionFalse {
		return false // it was there when Ironic was last asked
	}
	state, hasError := host.Status.Provisioning.State, host.Status.ErrorType != ""
	switch target {
	case Registered:
		c := Condition(host, metal3.RegisteredCondition)
		return c != nil && c.Status == metav1.ConditionTrue && state != metal3.StateNone && state != metal3.StateRegistering && !hasError
	case Inspected:
		return host.Status.HardwareDetails != nil && state != metal3.StateNone && state != metal3.StateRegistering && state != metal3.StateInspecting
	case Available:
		return !host.IsDetached() && (state == metal3.StateAvailable || state == metal3.StateReady) && !hasError
	case Provisioned:
		return state == metal3.StateProvisioned && !hasError && runsWhatIsWanted(host)
	case ExternallyProvisioned:
		return state == metal3.StateExternallyProvisioned && !hasError
	case On, Off:
		return isPowered(host, target == On) && !IsBusy(host)
	case Rebooted:
		return isPowered(host, true) && !IsBusy(host) && FailedAt(host, target) == ""
	case OK:
		return hindrance(host) == "" && host.Status.OperationalStatus == metal3.OperationalStatusOK
	case Settled:
		return Reached(host, OK) && !IsBusy(host)
	case Idle:
		return !IsBusy(host) && !isToReboot(host) && (host.Status.Ironic == nil || host.Status.Ironic.TargetPowerState == "")
	}
	return false
}

// runsWhatIsWanted is false for a host whose image or deploy procedure has been changed, and which is provisioned still
// with the old one. The server deploys for no other changes. A host that was taken over has neither in its status.
func runsWhatIsWanted(host *metal3.BareMetalHost) bool {
	wanted, deployed := &host.Spec, &host.Status.Provisioning
	if is := deployed.CustomDeploy; is != nil && is.Method != "" && (wanted.CustomDeploy == nil || wanted.CustomDeploy.Method != is.Method) {
		return false
	}
	return deployed.Image.URL == "" || wanted.Image != nil && wanted.Image.URL == deployed.Image.URL
}

func isPowered(host *metal3.BareMetalHost, on bool) bool {
	ironic := host.Status.Ironic
	if ironic == nil || ironic.TargetPowerState != "" {
		return false
	}
	if on && isToReboot(host) {
		return false
	}
	return on && ironic.PowerState == ironicPowerOn || !on && ironic.PowerState == ironicPowerOff && !mayComeOn(host)
}

// isToReboot reports whether the leader has yet to switch the host off, because of its annotation.
func isToReboot(host *metal3.BareMetalHost) bool {
	_, asked := host.Annotations[metal3.RebootAnnotation]
	return asked
}

// IsAskedFor reports whether a host that has not reached the target is on its way there. If it is not, why says
// what would have to be changed.
func IsAskedFor(host *metal3.BareMetalHost, target Target) (why string, ok bool) {
	spec, state := &host.Spec, host.Status.Provisioning.State
	wantsImage := spec.Image != nil && spec.Image.URL != "" || spec.CustomDeploy != nil
	isSwitched := (target == On || target == Off || target == Rebooted) && host.Status.Ironic != nil && host.Status.Ironic.TargetPowerState != ""
	switch {
	case target == Deleted && host.DeletionTimestamp == nil:
		return "nobody has deleted it", false
	case metal3.IsPaused(host) && !isSwitched:
		return "it is paused by " + cmp.Or(host.Annotations[metal3.PausedAnnotation], "an annotation"), false
	case target == Deleted:
		return "", true
	case host.IsDetached() && target != Idle:
		return "it is detached", false
	case state == metal3.StateUnmanaged && target != Idle && target != OK:
		return "it is unmanaged, because its spec has no BMC", false
	case target == Inspected && host.InspectionDisabled():
		return "its spec.inspectionMode is disabled", false
	case target == Provisioned && !wantsImage:
		return "its spec asks for no image", false
	case target == Provisioned && !spec.Online && state != metal3.StateProvisioned:
		return "its spec.online is false", false
	case target == Available && spec.ExternallyProvisioned:
		return "its spec says that it is externally provisioned", false
	case target == Available && wantsImage && state == metal3.StateProvisioned:
		return "its spec asks for an image", false
	case target == ExternallyProvisioned && !spec.ExternallyProvisioned:
		return "its spec does not say that it is externally provisioned", false
	case (target == On || target == Rebooted) && !spec.Online:
		return "its spec.online is false", false
	case target == Off && spec.Online:
		return "its spec.online is true", false
	}
	return "", true
}

// FailedAt says why a host has failed at the target, and neither the server nor Ironic tries again; empty if it has not. A machine
// that Ironic could not reboot is on, as it is to be, so its host has no error. Ironic clears its last error when it begins to change
// the power, so it is not that of an earlier reboot.
func FailedAt(host *metal3.BareMetalHost, target Target) string {
	node := host.Status.Ironic
	switch {
	case target != Rebooted, node == nil, node.TargetPowerState != "", node.PowerState != ironicPowerOn, node.Reservation != "", isToReboot(host), ironic.FailedReboot(node.LastError) == "":
		return ""
	case strings.Contains(node.LastError, string(ironic.TargetSoftReboot)):
		return "the machine was not rebooted, and is on as before: " + node.LastError + " (--mode hard does not ask the system)"
	}
	return "the machine was not rebooted, and is on as before: " + node.LastError
}

// Blocked says what keeps a host from going on, or returns an empty text. Only a person can
// change that if needsPerson is set; the server itself tries again after other errors.
func Blocked(host *metal3.BareMetalHost) (why string, needsPerson bool) {
	if c := Condition(host, metal3.HeldCondition); c != nil && c.Status == metav1.ConditionTrue {
		return cmp.Or(c.Message, c.Reason), true
	}
	if host.Status.OperationalStatus != metal3.OperationalStatusError {
		return "", false
	}
	return Problem(host), isForPerson(host)
}

// isForPerson reports whether the error of a host ends only if somebody changes something.
func isForPerson(host *metal3.BareMetalHost) bool {
	if c := Condition(host, metal3.RegisteredCondition); c != nil && c.Status == metav1.ConditionFalse {
		switch c.Reason {
		case metal3.SecretNotFoundReason, metal3.SecretIncompleteReason, metal3.NetworkDataUnusableReason, metal3.InvalidAddressReason, metal3.AddressNotAllowedReason,
			metal3.PortConflictReason, metal3.BMCInUseReason, metal3.NamespaceNotManagedReason:
			return true
		}
	}
	// A deployment that was tried as often as the server is allowed to leaves the host available.
	return host.Status.Provisioning.State == metal3.StateAvailable && host.Status.ErrorType == metal3.ProvisioningError
}

// lastOnes is how many finished operations an expectation rests on.
const lastOnes = 5

// Expectation says how long the operation of a state took on the hosts that went through it
// last, for example "the last 5 deployments took 6m to 9m". It is empty if none did.
func Expectation(fleet []*metal3.BareMetalHost, state metal3.ProvisioningState) string {
	type finished struct {
		end  time.Time
		took time.Duration
	}
	var done []finished
	for _, host := range fleet {
		operation, _, ok := operationOf(&host.Status.OperationHistory, state)
		if took := operation.End.Sub(operation.Start.Time); ok && !operation.Start.IsZero() && took > 0 {
			done = append(done, finished{operation.End.Time, took})
		}
	}
	if len(done) == 0 {
		return ""
	}
	slices.SortFunc(done, func(a, b finished) int { return b.end.Compare(a.end) })
	done = done[:min(len(done), lastOnes)]
	byTime := func(a, b finished) int { return cmp.Compare(a.took, b.took) }
	shortest, longest := duration.HumanDuration(slices.MinFunc(done, byTime).took), duration.HumanDuration(slices.MaxFunc(done, byTime).took)
	_, name, _ := operationOf(&metal3.OperationHistory{}, state)
	switch {
	case len(done) == 1:
		return fmt.Sprintf("the last %s took %s", name, shortest)
	case shortest == longest:
		return fmt.Sprintf("the last %d %ss took %s", len(done), name, shortest)
	}
	return fmt.Sprintf("the last %d %ss took %s to %s", len(done), name, shortest, longest)
}

// operationOf returns the operation of a state, and what it is called.
func operationOf(history *metal3.OperationHistory, state metal3.ProvisioningState) (operation metal3.OperationMetric, name string, ok bool) {
	switch state {
	case metal3.StateRegistering:
		return history.Register, "registration", true
	case metal3.StateInspecting:
		return history.Inspect, "inspection", true
	case metal3.StateProvisioning:
		return history.Provision, "deployment", true
	case metal3.StateDeprovisioning:
		return history.Deprovision, "deprovisioning", true
	}
	return metal3.OperationMetric{}, "", false
}
