// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/recorder"
)

// asker records requests before they are sent that may be carried out although no answer comes, or this process is killed
// meanwhile, and has each one that interrupts a machine or switches it on sent for a host that is as it was when that was decided.
type asker struct {
	recorder *recorder.Recorder
	clock    clock.PassiveClock
}

// ask records the request of a task's step, if the host is still as the step was planned for it. The error is ErrLookedTooLongAgo if
// it is not. Where nothing is to be recorded, because the step has no record or the request is repeated, etcd is asked all the
// same.
func (a *asker) ask(ctx context.Context, task *Task) error {
	now, step := a.clock.Now(), task.Step
	note, isNoted := func(*metal3.BareMetalHost) bool { return false }, func(*metal3.BareMetalHost) bool { return true }
	switch {
	case step.Do == lifecycle.SwitchPower:
		note, isNoted = notePower(task, now)
	case lifecycle.NeedsIntent(step):
		note = func(h *metal3.BareMetalHost) bool {
			return lifecycle.Ask(h, step, task.AskedInVain, task.AskedKnownFor, now)
		}
		isNoted = func(h *metal3.BareMetalHost) bool { return lifecycle.IsAsked(h, step) }
	}
	planned := task.Host
	if !note(planned.DeepCopy()) {
		return a.recorder.Confirm(ctx, planned)
	}
	asPlanned := func(h *metal3.BareMetalHost) bool {
		return recorder.HasSpecOf(planned)(h) && h.Status.Provisioning.State == planned.Status.Provisioning.State &&
			maps.Equal(h.Annotations, planned.Annotations) && // a pause, a detachment, a reboot that is called off
			lifecycle.KeepsPower(h) == lifecycle.KeepsPower(planned) // an action that was refused
	}
	host, err := a.recorder.RecordWhileTrue(ctx, planned, asPlanned, func(h *metal3.BareMetalHost) { note(h) })
	switch {
	case err != nil:
		return err
	case !asPlanned(host) || !isNoted(host):
		return ironic.ErrLookedTooLongAgo
	}
	task.Host, task.asked = host, host
	return nil
}

// notePower returns what records the request of a task that switches the power, and what reports whether that is recorded.
func notePower(task *Task, now time.Time) (note, isNoted func(*metal3.BareMetalHost) bool) {
	step := task.Step
	if lifecycle.MaySwitchOn(step.Power) {
		task.powerOn = string(uuid.NewUUID())
	}
	note = func(h *metal3.BareMetalHost) (changed bool) {
		if lifecycle.MustAskPower(step) {
			changed = lifecycle.AskPower(h, step, task.PowerAnswered, task.AskedPowerKnownFor, now)
		}
		if task.powerOn != "" {
			lifecycle.BeginPowerOn(h, task.powerOn, task.Node.UUID, now)
			changed = true
		}
		return changed
	}
	return note, func(h *metal3.BareMetalHost) bool {
		return (!lifecycle.MustAskPower(step) || lifecycle.IsPowerAsked(h, step)) && (task.powerOn == "" || lifecycle.IsPowerOnBegun(h, task.powerOn))
	}
}
