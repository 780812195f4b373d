package executor

import (
	"context"

	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/recorder"
)

// asker records requests before they are sent that may be carried out although no answer comes, or this process is killed
// meanwhile.
type asker struct {
	recorder *recorder.Recorder
	clock    clock.PassiveClock
}

// ask records the request of a task's step, if the spec still asks for it. The error is ErrLookedTooLongAgo if it does not.
func (a *asker) ask(ctx context.Context, task *Task) error {
	now, step := a.clock.Now(), task.Step
	note := func(h *metal3.BareMetalHost) bool { return lifecycle.Ask(h, step, task.AskedInVain, now) }
	isNoted := func(h *metal3.BareMetalHost) bool { return lifecycle.IsAsked(h, step) }
	if lifecycle.MustAskPower(step) {
		note = func(h *metal3.BareMetalHost) bool { return lifecycle.AskPower(h, step, task.PowerAnswered, now) }
		isNoted = func(h *metal3.BareMetalHost) bool { return lifecycle.IsPowerAsked(h, step) }
	}
	if !note(task.Host.DeepCopy()) {
		return nil
	}
	wanted, state, ok := recorder.HasSpecOf(task.Host), task.Host.Status.Provisioning.State, false
	host, err := a.recorder.RecordWhileTrue(ctx, task.Host, func(h *metal3.BareMetalHost) bool {
		return wanted(h) && h.Status.Provisioning.State == state
	}, func(h *metal3.BareMetalHost) { ok = note(h) })
	switch {
	case err != nil:
		return err
	case !ok || !isNoted(host):
		return ironic.ErrLookedTooLongAgo
	}
	task.Host = host
	return nil
}
