// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/destination"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// services takes the steps that change the settings of a machine that runs something.
type services struct {
	*settler
	ironic       Ironic
	drive        virtualDrive
	policy       func(host *metal3.BareMetalHost) *metal3.HostUpdatePolicySpec
	storedPolicy func(ctx context.Context, host *metal3.BareMetalHost) (*metal3.HostUpdatePolicySpec, error)
	images       destination.Policy
	asker        *asker
}

// service records that the service of the step is requested, and then requests it from Ironic. After a
// crash in between, an observation finds out whether the service has begun. A refusal is recorded
// as the host's error, and the host is then switched on without the service.
func (s *services) service(ctx context.Context, task Task) (Outcome, error) {
	if task.Step.Clean == nil {
		return Outcome{}, s.recordOf(ctx, task, func(h *metal3.BareMetalHost) { s.setError(h, task.Step.Message) })
	}
	if err := checkURLs(ctx, s.images, task.Step.Clean); err != nil {
		message, refused := refusal(err, conflictTries)
		if !refused {
			return Outcome{}, err
		}
		return Outcome{}, s.recordOf(ctx, task, func(h *metal3.BareMetalHost) {
			lifecycle.RequestService(h, task.Step.Clean, s.clock.Now())
			lifecycle.RefuseService(h)
			s.setError(h, message)
		})
	}
	// Ironic leaves the machine switched on, so this is the last moment at which it is off.
	if err := s.drive.prepare(ctx, task.Host); err != nil {
		task.Step.Error = metal3.PowerManagementError
		return s.settle(ctx, task, err)
	}
	host, err := s.recorder.Record(ctx, task.Host, func(h *metal3.BareMetalHost) {
		lifecycle.RequestService(h, task.Step.Clean, s.clock.Now())
		lifecycle.Ask(h, task.Step, task.AskedInVain, task.AskedKnownFor, s.clock.Now())
	})
	if err != nil {
		return Outcome{}, err
	}
	requested := host.Status.Record.Servicing
	change := lifecycle.AcceptService
	task.Host = host
	err = s.start(ctx, task)
	outcome := Outcome{NotCarriedOut: isNotCarriedOut(err), Host: host}
	message, refused := refusal(err, conflictTries)
	switch {
	case refused:
		change = func(h *metal3.BareMetalHost) {
			lifecycle.RefuseService(h)
			s.setError(h, message)
		}
	case err != nil:
		return outcome, err
	}
	isRequested := func(h *metal3.BareMetalHost) bool {
		return lifecycle.IsSameService(h, requested) && h.Status.Record.Servicing.Phase == metal3.PreparationRequested
	}
	if task.Host, err = s.recorder.RecordWhileTrue(ctx, host, isRequested, change); err != nil || refused {
		return outcome, err
	}
	return s.settle(ctx, task, nil)
}

func (s *services) recordOf(ctx context.Context, task Task, change func(*metal3.BareMetalHost)) error {
	_, err := s.recorder.Record(ctx, task.Host, change)
	return err
}

func (s *services) setError(host *metal3.BareMetalHost, message string) {
	lifecycle.SetFailure(host, metal3.ServicingError, message)
	lifecycle.CountAgain(host, message)
}

// start requests a service from Ironic if the node is still as it was when the service was recorded, and the policy as it was when the
// service was planned.
func (s *services) start(ctx context.Context, task Task) error {
	if err := s.mayStart(ctx, &task); err != nil {
		return &unsentError{err}
	}
	err := s.ironic.SetProvisionState(ctx, task.Fence, task.Node.UUID, ironic.TargetService, ironic.ProvisionOptions{ServiceSteps: task.Step.Clean.Steps})
	if ironic.IsWrongState(err) {
		return ironic.ErrLookedTooLongAgo
	}
	return err
}

// mayStart looks whether that is so.
func (s *services) mayStart(ctx context.Context, task *Task) error {
	current, err := lookAgain(ctx, s.ironic, task)
	switch {
	case err != nil:
		return err
	case current.ProvisionState != ironic.Active, current.InstanceUUID != task.Node.InstanceUUID, lifecycle.HasServiceBegun(task.Host.Status.Record.Servicing, current):
		return ironic.ErrLookedTooLongAgo
	}
	if policy, err := s.storedPolicy(ctx, task.Host); err != nil {
		return err
	} else if policy == nil || task.Step.Clean.Policy == nil || *policy != *task.Step.Clean.Policy {
		return ironic.ErrLookedTooLongAgo
	}
	return s.confirm(ctx, task.Host)
}

// leave requests the end of a service. The node is taken out of the maintenance of a failed
// service first, in which Ironic accepts nothing of it.
func (s *services) leave(ctx context.Context, task Task) (Outcome, error) {
	err := s.end(ctx, &task)
	outcome := Outcome{NotCarriedOut: task.notCarriedOut, Host: task.Host}
	if _, refused := refusal(err, conflictTries); refused {
		settled, err := s.settle(ctx, task, err)
		outcome.Refused = settled.Refused
		return outcome, err
	}
	if err != nil {
		return outcome, err
	}
	open := task.Host.Status.Record.Servicing
	isOpen := func(h *metal3.BareMetalHost) bool { return lifecycle.IsSameService(h, open) }
	if _, err := s.recorder.RecordWhileTrue(ctx, task.Host, isOpen, lifecycle.LeaveServiceBegun); err != nil {
		return outcome, err
	}
	return outcome, s.observe(ctx, task.Host)
}

// harmlessStep does nothing to a machine that is on. Ironic executes it itself; at the end of the
// service, it starts what the machine runs.
var harmlessStep = ironic.StepRequest{Interface: "power", Step: "power_on"}

func (s *services) end(ctx context.Context, task *Task) error {
	if err := s.asker.ask(ctx, task); err != nil {
		task.notCarriedOut = task.AskedInVain // what is recorded is still about the former request
		return err
	}
	if task.Node.Maintenance {
		if err := s.ironic.ClearMaintenance(ctx, task.Fence, task.Node.UUID); err != nil {
			task.notCarriedOut = lifecycle.NeedsIntent(task.Step) // the request has not been sent
			return err
		}
	}
	options := ironic.ProvisionOptions{}
	if task.Step.Target == ironic.TargetService {
		options.ServiceSteps = []ironic.StepRequest{harmlessStep}
	}
	err := s.ironic.SetProvisionState(ctx, task.Fence, task.Node.UUID, task.Step.Target, options)
	task.notCarriedOut = lifecycle.NeedsIntent(task.Step) && ironic.IsNotCarriedOut(err)
	if ironic.IsWrongState(err) {
		return nil // somebody was quicker, and the next observation says what to do
	}
	return err
}

// conclude records that nothing is left to be changed by a service.
func (s *services) conclude(ctx context.Context, task Task) (Outcome, error) {
	policy := s.policy(task.Host)
	return Outcome{}, s.recordOf(ctx, task, func(h *metal3.BareMetalHost) { lifecycle.ConcludeService(h, policy) })
}
