package lifecycle

import (
	"strings"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// rebootWish is what the reboot annotations of a host ask for together.
type rebootWish struct {
	// once is set by the plain annotation, which goes when the host has been off.
	once bool
	// hold is set by annotations with a key: the host stays off until their owner
	// removes them.
	hold bool
	hard bool
}

// rebootWishOf reads the reboot annotations. Outside of the deployed states only
// those with force count. A value that cannot be read, which validation refuses,
// counts as an empty one.
func rebootWishOf(host *metal3.BareMetalHost) (wish rebootWish) {
	deployed := host.Status.Provisioning.State == metal3.StateProvisioned || host.Status.Provisioning.State == metal3.StateExternallyProvisioned
	for key, value := range host.Annotations {
		if !metal3.IsRebootAnnotation(key) {
			continue
		}
		args, _ := metal3.ParseRebootAnnotation(value)
		if !deployed && !args.Force {
			continue
		}
		if key == metal3.RebootAnnotation {
			wish.once = true
		} else {
			wish.hold = true
		}
		wish.hard = wish.hard || args.Mode == metal3.PowerModeHard
	}
	return wish
}

// isForced tells whether a reboot is asked for that may abort what is under way.
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

// isHeld tells whether a forced reboot is asked for under a key: until its owner
// removes it, what it has aborted, or would abort, does not begin.
func isHeld(host *metal3.BareMetalHost) bool {
	for key, value := range host.Annotations {
		if !strings.HasPrefix(key, metal3.RebootAnnotationPrefix) {
			continue
		}
		if args, err := metal3.ParseRebootAnnotation(value); err == nil && args.Force {
			return true
		}
	}
	return false
}

// asksToReboot tells whether one forced reboot is asked for. Once what was under way
// is aborted, that is done.
func asksToReboot(host *metal3.BareMetalHost) bool {
	value, has := host.Annotations[metal3.RebootAnnotation]
	args, err := metal3.ParseRebootAnnotation(value)
	return has && err == nil && args.Force
}

// nextOfPower brings the power in step with spec.online and the reboot
// annotations, whoever switched it.
func nextOfPower(s Situation) Step {
	host, node := s.Host, s.Node
	switch {
	case node.TargetPowerState != "":
		return Step{Do: Wait} // a change is under way
	case node.PowerState == "" && !(node.IsOwnParent() && host.Spec.Online):
		return Step{Do: Wait} // Ironic does not know yet; on a node that it has forgotten it never will by itself
	}
	on := node.PowerState == ironic.PowerOn
	wish := rebootWishOf(host)
	switchTo := func(target ironic.PowerTarget) Step {
		step := Step{Do: SwitchPower, Power: target, Error: metal3.PowerManagementError}
		if host.Status.ErrorType != metal3.PowerManagementError {
			return step // what failed, if anything, is left alone for reasons that are not the power's
		}
		return s.retry(step, true)
	}
	if host.Spec.DisablePowerOff {
		switch {
		case !on && host.Spec.Online:
			return switchTo(ironic.TargetPowerOn)
		case on && wish.once && wish.hard:
			return switchTo(ironic.TargetReboot)
		case on && wish.once:
			return switchTo(ironic.TargetSoftReboot)
		}
		return Step{Do: Wait}
	}
	if wish.once && !on {
		return Step{Do: DropReboot}
	}
	switch wanted := host.Spec.Online && !wish.once && !wish.hold; {
	case wanted == on, on && isPowerKept(host) && !wish.once && !wish.hold:
		return Step{Do: Wait}
	case wanted:
		return switchTo(ironic.TargetPowerOn)
	case softFailed(node):
		return Step{Do: SwitchPower, Power: ironic.TargetPowerOff, Error: metal3.PowerManagementError, Retry: true}
	case wish.hard, host.Status.ErrorType == metal3.PowerManagementError && !IsRequestFailing(&host.Status):
		return switchTo(ironic.TargetPowerOff)
	}
	return switchTo(ironic.TargetSoftPowerOff)
}

// isPowerKept tells whether the machine ran when it was taken over and nobody has set
// spec.online since.
func isPowerKept(host *metal3.BareMetalHost) bool {
	return host.Status.Deployment != nil && host.Status.Deployment.KeepPower
}

// softFailed tells whether the machine did not shut down when it was asked to:
// then its power is cut, and at once.
func softFailed(node *ironic.Node) bool {
	return powerActionFailed(node) && strings.Contains(node.LastError, string(ironic.TargetSoftPowerOff))
}
