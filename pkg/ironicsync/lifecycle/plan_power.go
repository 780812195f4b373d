// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
)

// rebootRequest combines the reboot annotations of a host.
type rebootRequest struct {
	// once is set by the annotation without a key, which is removed when the host has been off, or has been rebooted.
	once bool
	// stayOff is set by annotations with a key: the host stays off until their owner removes
	// them. A host that is never switched off is rebooted once for each of them, and due is set if it was not for one of them.
	stayOff, due bool
	// hard is set if any of them asks for a hard reboot.
	hard bool
}

// rebootRequestOf parses the reboot annotations. Unless the host is provisioned, only those with
// force count. A malformed value, which validation refuses, is treated like an empty one.
func rebootRequestOf(host *metal3.BareMetalHost) (reboot rebootRequest) {
	deployed := countsAsDeployed(host)
	for key, value := range host.Annotations {
		if !metal3.IsRebootAnnotation(key) {
			continue
		}
		args, _ := metal3.ParseRebootAnnotation(value)
		if !deployed && !args.Force {
			continue
		}
		if key == metal3.RebootAnnotation {
			reboot.once = !(host.Spec.DisablePowerOff && isRebooted(host, key))
		} else {
			reboot.stayOff = true
			reboot.due = reboot.due || !isRebooted(host, key)
		}
		reboot.hard = reboot.hard || args.Mode == metal3.PowerModeHard
	}
	return reboot
}

// countsAsDeployed reports whether reboot annotations without force count. They do while the image of a provisioned host is written again,
// too: until that begins, its machine runs what it ran, and then it is switched on.
func countsAsDeployed(host *metal3.BareMetalHost) bool {
	return host.Status.Provisioning.State.RunsSomething() || pendingRebuild(host) != nil
}

// KeptOffBy returns the annotation that keeps the host's machine off, for fencing, until its owner removes it; empty if none does. A
// machine that is never switched off is not kept off, either.
func KeptOffBy(host *metal3.BareMetalHost) string {
	if host.Spec.DisablePowerOff {
		return ""
	}
	return keyedReboot(host, !countsAsDeployed(host))
}

// KeptOffError says that KeptOffBy returns an annotation, for who has asked for something that switches the machine on.
func KeptOffError(host *metal3.BareMetalHost) error {
	return fmt.Errorf("the annotation %s keeps it off until its owner removes it", KeptOffBy(host))
}

// HeldBackBy returns the annotation with a key that asks for a forced reboot; empty if none does. Until its owner
// removes it, no operation begins that the reboot has aborted or would abort.
func HeldBackBy(host *metal3.BareMetalHost) string { return keyedReboot(host, true) }

// keyedReboot returns the first annotation with a key that asks for a reboot, or for a forced one; empty if none does.
func keyedReboot(host *metal3.BareMetalHost, forced bool) (first string) {
	for key, value := range host.Annotations {
		if !strings.HasPrefix(key, metal3.RebootAnnotationPrefix) || first != "" && first < key {
			continue
		}
		if args, err := metal3.ParseRebootAnnotation(value); !forced || err == nil && args.Force {
			first = key
		}
	}
	return first
}

// isRebooted reports whether it is recorded that the machine was rebooted because of an annotation, as it is now.
func isRebooted(host *metal3.BareMetalHost, key string) bool {
	done, isDone := host.Status.Record.Rebooted[key]
	return isDone && !isGoneReboot(host, key, done)
}

// noteRebootOfKept records because of which reboot annotations a machine is about to be switched off that is left on otherwise although
// spec.online is false: nothing else would say, once the annotations are gone, that it is to be switched on again. One that somebody
// else has switched off stays off. It returns false if there is nothing to be recorded.
func noteRebootOfKept(host *metal3.BareMetalHost, target ironic.PowerTarget) (changed bool) {
	if !isPowerKept(host) || target != ironic.TargetPowerOff && target != ironic.TargetSoftPowerOff {
		return false
	}
	for key, value := range host.Annotations {
		if was, has := host.Status.Record.Rebooted[key]; !metal3.IsRebootAnnotation(key) || has && was == value {
			continue
		}
		if host.Status.Record.Rebooted == nil {
			host.Status.Record.Rebooted = map[string]string{}
		}
		host.Status.Record.Rebooted[key], changed = value, true
	}
	return changed
}

// rebootsDoneBefore returns for which reboot annotations, which move with a host, its machine was rebooted where the host comes from,
// according to the record there. Cluster API's provider and the Bare Metal Operator have none in the statuses that they write; then
// a machine that is never switched off is not rebooted once more for annotations that may have been there for long.
func rebootsDoneBefore(host *metal3.BareMetalHost, record *metal3.HostRecord) map[string]string {
	isRecorded := !equality.Semantic.DeepEqual(record, &metal3.HostRecord{})
	done := map[string]string{}
	for key, value := range host.Annotations {
		was, is := record.Rebooted[key]
		if isRecorded && is && was == value || !isRecorded && host.Spec.DisablePowerOff && strings.HasPrefix(key, metal3.RebootAnnotationPrefix) {
			done[key] = value
		}
	}
	if len(done) == 0 {
		return nil
	}
	return done
}

// ForgetGoneReboots forgets the annotations that are gone, or have another value: they are done once more when they come back.
func ForgetGoneReboots(host *metal3.BareMetalHost, _ time.Time) {
	maps.DeleteFunc(host.Status.Record.Rebooted, func(key, value string) bool { return isGoneReboot(host, key, value) })
}

func hasGoneReboots(host *metal3.BareMetalHost) bool {
	for key, value := range host.Status.Record.Rebooted {
		if isGoneReboot(host, key, value) {
			return true
		}
	}
	return false
}

func isGoneReboot(host *metal3.BareMetalHost, key, value string) bool {
	current, has := host.Annotations[key]
	return !has || current != value
}

// isForced reports whether an annotation asks for a reboot that may abort what is under way.
func isForced(host *metal3.BareMetalHost) bool {
	for key, value := range host.Annotations {
		if !metal3.IsRebootAnnotation(key) {
			continue
		}
		if args, err := metal3.ParseRebootAnnotation(value); err == nil && args.Force {
			return true
		}
	}
	return false
}

// isHeldOff reports whether HeldBackBy returns an annotation.
func isHeldOff(host *metal3.BareMetalHost) bool { return HeldBackBy(host) != "" }

// isForcedOnce reports whether the annotation without a key asks for a forced reboot, which is done
// as soon as what was under way has been aborted.
func isForcedOnce(host *metal3.BareMetalHost) bool {
	value, has := host.Annotations[metal3.RebootAnnotation]
	args, err := metal3.ParseRebootAnnotation(value)
	return has && err == nil && args.Force
}

// nextOfPower switches the machine if its power state, whoever has set it, is not the one that
// spec.online and the reboot annotations ask for.
func nextOfPower(s Situation) Step {
	host, node := s.Host, s.node
	if node.isBeingSwitched() {
		return Step{Do: Wait}
	}
	on, off := powerOf(node)
	reboot := rebootRequestOf(host)
	left, mayGoOff := s.powerOffMayStillCome()
	if hasGoneReboots(host) && !(isPowerKept(host) && (off || mayGoOff)) { // which has yet to be switched on
		return Step{Do: ForgetReboots}
	}
	if off && hasAnnotation(host, metal3.RebootAnnotation) {
		// Also where it does not count, so that it does not reboot what a machine runs that is taken over later.
		return Step{Do: ClearRebootRequest}
	}
	if host.Spec.DisablePowerOff {
		return s.nextOfPowerWithoutOff()
	}
	wait, cut := s.powerCut()
	switch wanted := isWantedOn(host); {
	case wanted && on, !wanted && off, !off && isPowerKept(host) && !reboot.once && !reboot.stayOff:
		return Step{Do: Wait}
	case wanted && mayGoOff:
		return Step{Do: Wait, After: left} // its power would be cut while it boots
	case wanted:
		return s.switchTo(ironic.TargetPowerOn)
	case cut && wait > 0:
		return Step{Do: Wait, After: wait}
	case softFailed(node):
		return Step{Do: SwitchPower, Power: ironic.TargetPowerOff, Error: metal3.PowerManagementError, Retry: true}
	case cut, reboot.hard, ErrorType(&host.Status) == metal3.PowerManagementError && !IsRequestFailing(&host.Status) && !node.isSwitchForgotten():
		return s.switchTo(ironic.TargetPowerOff)
	}
	return s.switchTo(ironic.TargetSoftPowerOff)
}

// powerOf reports whether the machine is known to be on or off. Neither is so if the BMC has said something that Ironic does not understand
// ("error" with IPMI, nothing with Redfish), or if the power state may be an old one. Then the machine is switched all the same, and nothing is
// taken for done: who fences a machine relies on off.
func powerOf(node *Node) (on, off bool) {
	if node.isSwitchForgotten() {
		return false, false
	}
	return node.PowerState == ironic.PowerOn, node.PowerState == ironic.PowerOff
}

// nextOfPowerWithoutOff is nextOfPower for a host whose power must not be switched off: it can only be rebooted.
func (s Situation) nextOfPowerWithoutOff() Step {
	host, node := s.Host, s.node
	on, off := powerOf(node)
	reboot := rebootRequestOf(host)
	left, mayGoOff := s.powerOffMayStillCome()
	online, due := host.Spec.Online || off && isPowerKept(host), on && (reboot.once || reboot.due)
	switch {
	case mayGoOff && (!on && online || due):
		return Step{Do: Wait, After: left} // a reboot leaves no trace, and a second one would follow the first
	case !on && online:
		return s.switchTo(ironic.TargetPowerOn)
	case due && (reboot.hard || rebootFailure(&host.Status, node) != ""):
		return s.switchTo(ironic.TargetReboot)
	case due:
		return s.switchTo(ironic.TargetSoftReboot)
	case on && isRebooted(host, metal3.RebootAnnotation) && host.Status.Record.AskedPower == nil && host.Status.Record.Reboot == nil:
		return Step{Do: ClearRebootRequest}
	}
	return Step{Do: Wait}
}

// mustSwitchOnFor reports whether the machine is to be switched on before a step: Ironic reboots a machine that must not be switched off to have it
// boot its ramdisk, with IPMI by a reset, which a BMC refuses while the machine is off. With Redfish it switches it on.
func (s Situation) mustSwitchOnFor(step Step) bool {
	host, node := s.Host, s.node
	if !host.Spec.DisablePowerOff || node == nil || !rebootsMachine(step) || node.ProvisionState.IsInTransit() || node.Maintenance {
		return false
	}
	access, err := bmc.Parse(host.Spec.BMC.Address, host.Spec.BMC.DisableCertificateVerification)
	_, off := powerOf(node)
	return off && err == nil && access.IsIPMI()
}

// switchOnForReset returns the step that switches the machine on. It waits after a failure also if the host shows another error.
func (s Situation) switchOnForReset() Step {
	switch on := s.switchTo(ironic.TargetPowerOn); {
	case s.node.isBeingSwitched():
		return Step{Do: Wait}
	case powerActionFailed(s.node, s.node.LastError):
		return s.retry(on, true)
	default:
		return on
	}
}

// rebootsMachine reports whether Ironic reboots a machine that must not be switched off for a step of an idle node.
func rebootsMachine(step Step) bool {
	switch step.Do {
	case Deploy, Rebuild:
		return true
	case Prepare:
		return step.Clean != nil
	case Provision:
		return step.Target == ironic.TargetInspect || step.Target == ironic.TargetProvide || step.Target == ironic.TargetDeleted
	}
	return false
}

// switchTo switches the power, after a back-off if that has failed before.
func (s Situation) switchTo(target ironic.PowerTarget) Step {
	step := Step{Do: SwitchPower, Power: target, Error: metal3.PowerManagementError}
	if ErrorType(&s.Host.Status) != metal3.PowerManagementError && s.Host.Status.Record.Hold == nil {
		return step // no back-off, because no power action has failed; a hold may hide that one has
	}
	return s.retry(step, true)
}

// isWantedOn reports whether the spec and the reboot annotations ask for the machine to be on. What is left on
// otherwise is to be on after a reboot.
func isWantedOn(host *metal3.BareMetalHost) bool {
	reboot := rebootRequestOf(host)
	return (host.Spec.Online || isPowerKept(host)) && !reboot.once && !reboot.stayOff
}

// SwitchesOn reports whether the leader now switches on the machine of a host that runs something, if its spec asks for that. Otherwise
// it waits for a person: the host is paused or held, or its node is in a maintenance that somebody has asked for, or in a state that
// somebody has led it to. Of a hold, the leader does what interrupts nothing (see contradiction.leaves).
func SwitchesOn(host *metal3.BareMetalHost, has *ironic.Node) bool {
	node := NodeFromIronic(has)
	switch {
	case metal3.IsPaused(host), isInMaintenance(node, LeavingReason(host)), isRescue(node.ProvisionState):
		return false
	case node.ProvisionState == ironic.ServiceFail && openService(host, node) == nil:
		return false
	}
	hold := host.Status.Record.Hold
	return hold == nil || hold.Reason == metal3.AnotherDeploymentReason || hold.Reason == metal3.BMCInUseReason
}

// isPowerKept reports whether the machine was on when it was taken over and nobody has set
// spec.online since then, nor asked for its power, nor switched it off past this server.
func isPowerKept(host *metal3.BareMetalHost) bool {
	off := false
	if node := NodeOf(&host.Status); node != nil {
		_, off = powerOf(node)
	}
	return KeepsPower(host) && host.Status.Record.PowerCut == nil && (!off || len(host.Status.Record.Rebooted) > 0)
}

// softFailed reports whether a soft power-off has failed. A hard one follows at once.
func softFailed(node *Node) bool {
	_, softOff, _ := ironic.FailedPowerAction(node.LastError)
	return softOff && powerActionFailed(node, node.LastError)
}
