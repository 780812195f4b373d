// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"cmp"
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/recorder"
)

// ObservationError is a failure to observe Ironic that followed a step. While Ironic
// cannot be observed, hosts say that in the condition IronicReachable.
type ObservationError struct{ err error }

func (e *ObservationError) Error() string { return e.err.Error() }
func (e *ObservationError) Unwrap() error { return e.err }

// settler records what became of requests to Ironic.
type settler struct {
	recorder *recorder.Recorder
	observer Observer
	clock    clock.PassiveClock
}

// requesting is the action of a step that consists of a request to Ironic. The request is made, and then
// the node is observed. A refusal that trying again at once would not change is recorded as the host's
// error; that the step was accepted ends an error of its kind.
// The request may record something before it is sent, and then changes the task's Host.
func (s *settler) requesting(request func(ctx context.Context, task *Task) error) action {
	return func(ctx context.Context, task Task) (Outcome, error) {
		err := request(ctx, &task)
		outcome, err := s.settle(ctx, task, err)
		if task.notCarriedOut || task.powerAnswered {
			// Later versions may have the request of somebody else recorded.
			outcome.NotCarriedOut, outcome.PowerAnswered, outcome.Host = task.notCarriedOut, task.powerAnswered, cmp.Or(task.asked, task.Host)
		}
		return outcome, err
	}
}

// settle records what became of the request to Ironic of which a step consisted.
func (s *settler) settle(ctx context.Context, task Task, err error) (Outcome, error) {
	host, step := task.Host, task.Step
	if message, refused := refusal(err, task.Failures); refused && step.Error != "" {
		_, err := s.recorder.Record(ctx, host, func(h *metal3.BareMetalHost) {
			lifecycle.SetFailure(h, step.Error, message)
			lifecycle.CountAgain(h, message)
		})
		return Outcome{Refused: true}, err
	}
	if err != nil {
		return Outcome{}, err
	}
	if failed := host.Status.Record.Failure; failed != nil && (lifecycle.IsRequestFailing(&host.Status) ||
		lifecycle.HasFailureOf(&host.Status, step.Error) && step.Target != ironic.TargetAbort && host.Status.Provisioning.State != metal3.StateDeprovisioning) {
		same := func(h *metal3.BareMetalHost) bool {
			current := h.Status.Record.Failure
			return current != nil && *current == *failed
		}
		// No later step would end it, when an observation of what Ironic does now comes first.
		_, err := s.recorder.RecordWhileTrue(ctx, host, same, lifecycle.ClearFailure)
		if err != nil {
			return Outcome{}, err
		}
	}
	if step.Do == lifecycle.Provision || step.Do == lifecycle.Deploy || step.Do == lifecycle.Rebuild {
		return Outcome{Accepted: true}, nil
	}
	return Outcome{}, s.observe(ctx, host)
}

// confirm finds out, before a request, whether the host is as it was read. It returns ErrLookedTooLongAgo if it is not.
func (s *settler) confirm(ctx context.Context, host *metal3.BareMetalHost) error {
	err := s.recorder.Confirm(ctx, host)
	if apierrors.IsConflict(err) {
		return ironic.ErrLookedTooLongAgo
	}
	return err
}

// observe observes the host's node after a step.
func (s *settler) observe(ctx context.Context, host *metal3.BareMetalHost) error {
	if err := s.observer.ObserveHost(ctx, host.Namespace, host.Name); err != nil {
		return &ObservationError{err}
	}
	return nil
}

// blocked is a step that cannot be taken for want of something in the cluster.
type blocked struct{ message string }

func (e *blocked) Error() string { return e.message }

// conflictTries is the number of failures in a row, which take some twelve seconds, after
// which a 409 of Ironic counts as a refusal. (A lock never does: it ends by itself.)
const conflictTries = 6

// refusal returns the words of an error that will be the same again, until
// somebody corrects what it is about.
func refusal(err error, tries int) (string, bool) {
	if missing := new(blocked); errors.As(err, &missing) {
		return missing.message, true
	}
	var answer *ironic.APIError
	if !errors.As(err, &answer) || ironic.IsLocked(err) || ironic.IsUnavailable(err) || ironic.IsNotFound(err) || ironic.IsConflict(err) && tries < conflictTries {
		return "", false
	}
	return answer.Message, true
}

// unsentError is why a request was not sent that was recorded already.
type unsentError struct{ error }

func (e *unsentError) Unwrap() error { return e.error }

// isNotCarriedOut reports whether it is certain that Ironic has not carried out a request that was recorded, nor ever will.
func isNotCarriedOut(err error) bool {
	return errors.As(err, new(*unsentError)) || ironic.IsNotCarriedOut(err)
}

// isTransient reports whether an error says nothing about the step: Ironic is away, somebody
// else works on the node or has written the host, or the time is up.
func isTransient(err error) bool {
	return ironic.IsUnavailable(err) || ironic.IsLocked(err) || apierrors.IsConflict(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
