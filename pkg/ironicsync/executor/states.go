// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"cmp"
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/recorder"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/secrets"
)

// ErrUnseen says that what a step goes by is not so: the watch has yet to tell of a Secret that exists.
var ErrUnseen = errors.New("the watch of Secrets lags behind")

// states takes the steps that only change what is recorded of a host.
type states struct {
	ironic   string
	recorder *recorder.Recorder
	claims   Claims
	secrets  *secrets.Secrets
	hardware *hardware
	// checkSecrets returns what is wrong with the Secrets that the deployment of a host needs.
	checkSecrets func(ctx context.Context, host *metal3.BareMetalHost) error
	clock        clock.PassiveClock
}

// recording is the action of a step after which nothing is planned before the change is seen.
func (s *states) recording(change func(host *metal3.BareMetalHost, now time.Time)) action {
	return func(ctx context.Context, task Task) (Outcome, error) {
		_, err := s.recorder.Record(ctx, task.Host, func(h *metal3.BareMetalHost) { change(h, s.clock.Now()) })
		return Outcome{}, err
	}
}

// recordAndPlan records a change and plans the next step at once.
func (s *states) recordAndPlan(ctx context.Context, task Task, change func(*metal3.BareMetalHost)) (Outcome, error) {
	host, err := s.recorder.Record(ctx, task.Host, change)
	if err != nil {
		return Outcome{}, err
	}
	return planAgainWith(host, task.Node), nil
}

func forgetRequest(host *metal3.BareMetalHost, _ time.Time) { lifecycle.ClearFailure(host) }

func clearRebootRequest(host *metal3.BareMetalHost, _ time.Time) {
	lifecycle.RemoveRebootAnnotation(host)
	switch host.Status.Provisioning.State {
	case metal3.StateInspecting, metal3.StatePreparing, metal3.StateProvisioning:
		host.Status.ErrorCount, host.Status.Record.MachineErrors = 0, 0 // the abort was asked for, and so is the next try
	}
}

func (s *states) begin(ctx context.Context, task Task) (Outcome, error) {
	return s.recordAndPlan(ctx, task, func(h *metal3.BareMetalHost) {
		if err := lifecycle.StartManaging(h, task.Step.State, s.clock.Now()); err != nil {
			klog.FromContext(ctx).Error(err, "The annotation with a status cannot be read", "annotation", metal3.StatusAnnotation) // the next plan holds the host
		} else if !task.Host.Status.Record.Observed {
			h.Status.Record.Ironic = s.ironic // a restored status has the node's UUID, but may be that of another cluster
		}
	})
}

func (s *states) setState(ctx context.Context, task Task) (Outcome, error) {
	if missing := task.Step.Secret; missing != "" {
		if exists, err := s.secrets.Exists(ctx, task.Host.Namespace, missing); exists || err != nil {
			return Outcome{}, cmp.Or(err, ErrUnseen)
		}
	}
	// A host that goes needs no BMC, and no step would report that another one has it.
	if lifecycle.IsEnrolling(task.Host) && task.Node != nil && task.Step.State != metal3.StateDeleting {
		if free, err := s.claims.HasBMCToItself(ctx, task.Host); err != nil || !free {
			return planAgainWith(task.Host, task.Node), err // the next step reports it
		}
	}
	if task.Step.State == metal3.StateProvisioning {
		err := s.checkSecrets(ctx, task.Host)
		if missing := new(blocked); errors.As(err, &missing) {
			return s.refuseProvisioning(ctx, task, missing.message)
		}
		if err != nil {
			return Outcome{}, err
		}
	}
	if task.Step.State == metal3.StatePreparing && task.Host.Status.Provisioning.State == metal3.StateInspecting {
		host, err := s.hardware.keep(ctx, task.Host)
		if err != nil {
			return Outcome{}, err
		}
		task.Host = host
	}
	return s.recordAndPlan(ctx, task, func(h *metal3.BareMetalHost) { lifecycle.Enter(h, task.Step, s.clock.Now()) })
}

// refuseProvisioning records why a host is not provisioned, and not cleaned for that either.
func (s *states) refuseProvisioning(ctx context.Context, task Task, message string) (Outcome, error) {
	_, err := s.recorder.Record(ctx, task.Host, func(h *metal3.BareMetalHost) { lifecycle.RefuseProvisioning(h, message) })
	return Outcome{Refused: true}, err
}

// hold records why nothing is done to the host's machine, or that this has ended.
func (s *states) hold(ctx context.Context, task Task) (Outcome, error) {
	step := task.Step
	if step.Reason != "" {
		klog.FromContext(ctx).Info("Held", "reason", step.Reason, "message", step.Message)
		heldSteps.WithLabelValues(step.Reason).Inc()
	}
	return s.recordAndPlan(ctx, task, func(h *metal3.BareMetalHost) { lifecycle.SetHold(h, step) })
}

// forgetLost forgets a request that counts as lost.
func (s *states) forgetLost(ctx context.Context, task Task) (Outcome, error) {
	return s.recordAndPlan(ctx, task, func(h *metal3.BareMetalHost) { lifecycle.ForgetLostRequest(h, task.Step, s.clock.Now()) })
}

// noteResemblance records what the machine has in common with another host's.
func (s *states) noteResemblance(ctx context.Context, task Task) (Outcome, error) {
	return s.recordAndPlan(ctx, task, func(h *metal3.BareMetalHost) { lifecycle.SetResemblance(h, task.Step.Message) })
}

// awaitImage records what the host's image waits for, or that the host does not wait any more.
func (s *states) awaitImage(ctx context.Context, task Task) (Outcome, error) {
	return s.recordAndPlan(ctx, task, func(h *metal3.BareMetalHost) { lifecycle.SetAwaitedImage(h, task.Step.Message) })
}
