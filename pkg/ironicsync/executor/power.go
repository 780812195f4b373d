// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/recorder"
)

// power takes the steps that switch a machine on and off.
type power struct {
	ironic   Ironic
	recorder *recorder.Recorder
	asker    *asker
	drive    virtualDrive
	clock    clock.PassiveClock
}

// switchPower requests a power state.
func (p *power) switchPower(ctx context.Context, task *Task) error {
	target := task.Step.Power
	if target == ironic.TargetPowerOn {
		if err := p.drive.prepare(ctx, task.Host); err != nil {
			return err
		}
	}
	// Also before the machine is switched on: who has asked for it to be off meanwhile, and sees that it is, takes it for fenced.
	if err := p.asker.ask(ctx, task); err != nil {
		task.powerAnswered = task.PowerAnswered // what is recorded is still about the former request
		return err
	}
	used, softRefusal, err := p.ironic.SwitchPower(ctx, task.Fence, task.Node.UUID, target)
	task.powerAnswered = err == nil || ironic.IsNotCarriedOut(err)
	if task.powerAnswered && lifecycle.MaySwitchOn(target) {
		if err != nil {
			used = ""
		}
		err = errors.Join(err, p.noteAnswer(ctx, task, used))
	}
	if err != nil {
		return err
	}
	switch target {
	case ironic.TargetPowerOn:
		powerChanges.WithLabelValues("on").Inc()
	case ironic.TargetPowerOff, ironic.TargetSoftPowerOff:
		powerChanges.WithLabelValues("off").Inc()
	}
	if used != target {
		klog.FromContext(ctx).Info("The operating system cannot be asked to shut down, the power is cut", "target", target, "used", used, "refusal", softRefusal)
	}
	return nil
}

// noteAnswer records that a request which leads to a machine that is on was answered, and of a reboot that was accepted what it was for: the
// machine is never off, so nothing else would tell that it was rebooted. What was asked for stays recorded until that has ended. accepted
// is what Ironic has accepted to do; empty if it has refused.
func (p *power) noteAnswer(ctx context.Context, task *Task, accepted ironic.PowerTarget) error {
	written, err := p.recorder.RecordWhileTrue(ctx, task.Host, func(h *metal3.BareMetalHost) bool { return h.UID == task.Host.UID }, func(h *metal3.BareMetalHost) {
		lifecycle.EndPowerOn(h, task.powerOn, accepted, p.clock.Now())
		if accepted == ironic.TargetReboot || accepted == ironic.TargetSoftReboot {
			lifecycle.Rebooted(&h.Status, accepted, task.Host.Annotations)
		}
	})
	if written != nil && written.UID == task.Host.UID {
		task.Host = written
	}
	return err
}

// DataImages brings the virtual drives of hosts in line with their DataImages.
type DataImages interface {
	// BeforePowerOn returns true if the host, which is off, can be switched on now. Otherwise it is to be
	// called again a moment later, or, if problem says why the drive could not be changed, after a
	// back-off. It does not wait for the BMC.
	BeforePowerOn(ctx context.Context, host *metal3.BareMetalHost) (ready bool, problem string, err error)
}

// ErrDriveNotReady says that the step is to be tried again a moment later.
var ErrDriveNotReady = errors.New("the virtual drive is being changed")

// virtualDrive changes what is in the virtual drives of hosts; images is nil if no host has one.
type virtualDrive struct{ images DataImages }

// prepare brings the virtual drive of a provisioned host in line with its DataImage before the
// host is switched on. A host whose drive could not be changed stays off and shows why.
func (d virtualDrive) prepare(ctx context.Context, host *metal3.BareMetalHost) error {
	if d.images == nil || !host.Status.Provisioning.State.RunsSomething() {
		return nil
	}
	ready, problem, err := d.images.BeforePowerOn(ctx, host)
	switch {
	case err != nil:
		return err
	case problem != "":
		return &blocked{problem}
	case !ready:
		return ErrDriveNotReady
	}
	return nil
}
