// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/settings"
)

// Settings of a machine that runs something are changed when it is about to be switched on, which
// is how a reboot ends, by a service of Ironic's. If the service fails, Ironic is led out of it at
// once, so that the machine runs again what it ran before, and the change is not tried again
// before the next reboot.

// noServiceMessage is for users whose Ironic has no service.
const noServiceMessage = "This Ironic cannot change settings of a machine that runs something (it can since " + ironic.ServicingSince + "): the host was switched on without the change. It is applied when the host has been deprovisioned"

// nextOfActive returns the next step for a node that is deployed and at rest.
func nextOfActive(s Situation) Step {
	power := nextOfPower(s)
	if contradictionOf(s, Step{Do: Service}) != nil {
		return power // the machine can be switched on
	}
	service, err := s.nextService()
	open := openService(s.Host, s.node)
	isOn, _ := powerOf(s.node)
	if left, may := s.mayStillCome(ironic.TargetService); may && switchesOn(power) {
		return Step{Do: Wait, After: left} // it would interrupt the machine, or be carried out a second time
	}
	switch {
	case err != nil:
		return s.orReport(power, err.Error())
	case service == nil && mustConclude(s), open != nil && open.Phase == metal3.PreparationRequested && isOn:
		return Step{Do: EndServicing}
	case service == nil, !s.isBoot(power), open != nil && open.Phase == metal3.PreparationFailed:
		return power
	case !s.CanService:
		return s.orReport(power, noServiceMessage)
	case s.isSwitchedJustNow():
		return Step{Do: Wait, After: rebuildPause} // see there
	}
	if left, may := s.anyMayStillCome(); may {
		return Step{Do: Wait, After: left} // it would not be known of any more
	}
	if step, waits := awaitServiceImage(s, power); waits {
		return step
	}
	return Step{Do: Service, Clean: service, Error: metal3.ServicingError}
}

// isBoot reports whether a step switches on a machine that is off. One whose power state is not known may be running.
func (s Situation) isBoot(step Step) bool {
	_, off := powerOf(s.node)
	return off && switchesOn(step)
}

func switchesOn(step Step) bool { return step.Do == SwitchPower && step.Power == ironic.TargetPowerOn }

// isAboutToBeServiced reports whether the host is off, and a service is what it is switched on with.
func (s Situation) isAboutToBeServiced() bool {
	if s.node == nil || s.node.ProvisionState != ironic.Active || !s.CanService || contradictionOf(s, Step{Do: Service}) != nil {
		return false
	}
	power, open := nextOfPower(s), openService(s.Host, s.node)
	service, err := s.nextService()
	return s.isBoot(power) && service != nil && err == nil && (open == nil || open.Phase != metal3.PreparationFailed)
}

// orReport returns step, or the step that records message as the host's error if it is not recorded yet.
func (s Situation) orReport(step Step, message string) Step {
	if failed := s.Host.Status.Record.Failure; failed != nil && *failed == *newFailure(metal3.ServicingError, message) {
		return step
	}
	return Step{Do: Service, Error: metal3.ServicingError, Message: message}
}

// mustConclude reports whether the record says that something is left to be changed, which is not so.
func mustConclude(s Situation) bool {
	status := &s.Host.Status
	if service := status.Record.Servicing; service != nil && service.EndedAt == nil && service.Phase != metal3.PreparationRequested {
		return false
	}
	return isBeingServiced(status) || hasServicingError(status) || !settings.IsServiced(s.machine())
}

// nextOfServiceWait has Ironic abort the host's service if nothing of it is wanted any more or the
// user demands it, and if its ramdisk does not call. Up to Ironic 31, an abort only makes the
// service fail, while the BMC may be at work for it.
func nextOfServiceWait(s Situation) Step {
	open := openService(s.Host, s.node)
	if open == nil || open.Leaving {
		return Step{Do: Wait}
	}
	service, err := s.nextService()
	if isForced(s.Host) || isTimedOut(&s.Host.Status) || s.CanAbortService && service == nil && err == nil {
		return Step{Do: LeaveService, Target: ironic.TargetAbort, Error: metal3.ServicingError}
	}
	return Step{Do: Wait}
}

// nextOfFailedService leads the host's node out of a service that has failed. Up to Ironic 31 it
// cannot be aborted, and the only way that leaves the machine as it is is another service. Both start
// what the machine runs, so a machine that is to be off is switched off instead.
func nextOfFailedService(s Situation) Step {
	open := openService(s.Host, s.node)
	switch {
	case open == nil, open.Phase != metal3.PreparationFailed:
		return Step{Do: Wait} // another client of Ironic has asked for it
	case !isWantedOn(s.Host):
		return nextOfPower(s)
	case s.isDiscardingFirmware():
		return Step{Do: Wait, After: discardPause}
	}
	step := Step{Do: LeaveService, Target: ironic.TargetService, Error: metal3.ServicingError}
	if s.CanAbortService {
		step.Target = ironic.TargetAbort
	} else if left, may := s.mayStillCome(ironic.TargetService); may {
		return Step{Do: Wait, After: left} // a second one would interrupt what the machine runs after the first
	}
	if open.Leaving {
		return s.retry(step, true)
	}
	return step
}
