// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// What a step may do to a machine, for the guards (proof.go). Each list is of what is harmless, so that an action that is added is
// guarded until somebody puts it there.

// asksIronic reports whether the step is one towards Ironic, or would lead to one.
func (s Step) asksIronic() bool {
	switch s.Do {
	case Wait, Begin, Report, Hold, NoteResemblance, AwaitImage, ClearRebootRequest, ForgetReboots, ForgetLost, EndServicing:
		return false
	}
	return true
}

// Interrupts reports whether the step may end what a machine runs, or write to its disks; or lets its node go for one in another
// Ironic, which is to take over what holds now.
func (s Step) Interrupts() bool {
	switch s.Do {
	case Wait, Begin, Report, Hold, NoteResemblance, AwaitImage, RecordGivenHardware, ClearRebootRequest, ForgetReboots, ForgetFailures,
		ForgetRequest, ForgetLost, EndServicing, FindNode, CreateNode, Register, SetCleaning, ClearMaintenance, DeleteNode, Detach, Attach, ChangeIronic, Release:
		return false
	case SwitchPower:
		return s.Power != ironic.TargetPowerOn
	case Provision:
		return s.Target != ironic.TargetManage && s.Target != ironic.TargetAdopt
	case SetState:
		// The states that are left out are decisions which are only to be made of what holds.
		switch s.State {
		case metal3.StateNone, metal3.StateUnmanaged, metal3.StateRegistering, metal3.StateMatchProfile, metal3.StatePreparing, metal3.StateReady,
			metal3.StateAvailable, metal3.StateProvisioned, metal3.StateExternallyProvisioned, metal3.StateDeleting:
			return false
		}
	}
	return true
}

// MustBeConfirmed reports whether the step must not be taken by what a backup of etcd says: it interrupts what a machine runs, switches it, or
// gives its node or its host up.
func (s Step) MustBeConfirmed() bool {
	return s.Interrupts() || s.letsGo() || s.Do == SwitchPower || s.Do == DeleteNode
}

// letsGo reports whether the host knows nothing of its node any more after the step.
func (s Step) letsGo() bool {
	switch s.Do {
	case Release, Detach, ChangeIronic:
		return true
	}
	return false
}

// cleans reports whether Ironic cleans the disks of the node as a part of the step, unless
// it is told not to.
func (s Step) cleans() bool {
	return s.Do == Provision && (s.Target == ironic.TargetDeleted || s.Target == ironic.TargetProvide)
}

// isCleaningTold reports whether Ironic knows of a host that its disks are not to be
// cleaned. The rest of a registration may have to wait for a Secret; this must not.
func isCleaningTold(s Situation) bool {
	return s.Host.Spec.AutomatedCleaningMode != metal3.CleaningModeDisabled || s.node.AutomatedClean == "false"
}

// undeploys reports whether the step begins or continues the end of a deployment.
func (s Step) undeploys() bool {
	return s.Do == SetState && s.State == metal3.StateDeprovisioning || s.Do == Provision && s.Interrupts()
}

// intention is what the step would do to the machine, for people who decide on that.
func (s Step) intention() string {
	if !s.asksIronic() {
		return ""
	}
	what := string(s.Do)
	switch {
	case s.Target != "":
		what += " " + string(s.Target)
	case s.Power != "":
		what += " " + string(s.Power)
	case s.State != "":
		what += " " + string(s.State)
	}
	return "; the next step would be: " + what
}
