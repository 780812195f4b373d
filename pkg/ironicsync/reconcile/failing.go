// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/executor"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/panics"
)

const (
	// failingGrace is how long steps may fail for reasons that are not the host's before
	// the host says so: most of these are over in a moment.
	failingGrace = 15 * time.Second
	// reportFailureTimeout bounds the requests to etcd for that.
	reportFailureTimeout = 10 * time.Second
)

// stepError is the failure of a step, or of what it is planned with (step is empty then),
// for a reason that is not the host's.
type stepError struct {
	step lifecycle.Step
	err  error
}

func (e *stepError) Error() string { return e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

func stepErrorOf(step lifecycle.Step, err error) error {
	if observation := new(executor.ObservationError); errors.As(err, &observation) {
		return err
	}
	return &stepError{step, err}
}

// hasFailed reports whether the step is the one whose failure the host shows.
func (c *driver) hasFailed(key types.NamespacedName, step lifecycle.Step) (failed bool) {
	c.queue.backoffOf(key, func(b *backoff) { failed = b.failed == identityOf(step) })
	return failed
}

// reportPersistentFailure records in the host what keeps its steps from being taken, as a condition, as
// its error and in an event, if that has been so for a while. began is when the step
// began that has failed now. The same words are not recorded twice, because each record
// requeues the host at once.
func (c *driver) reportPersistentFailure(ctx context.Context, key types.NamespacedName, began time.Time, err error) {
	defer panics.Catch(ctx, nil) // which may be what the steps fail for
	var failed *stepError
	if !errors.As(err, &failed) {
		return
	}
	c.gates.retries.Forget(key.Namespace, key.Name) // the try is over
	var since time.Time
	c.queue.backoffOf(key, func(b *backoff) {
		if b.failingSince.IsZero() {
			b.failingSince = began
		}
		since = b.failingSince
	})
	if c.clock.Since(since) < failingGrace {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reportFailureTimeout)
	defer cancel()
	host, err := c.hosts.Get(ctx, key.Namespace, key.Name)
	if err == nil && !reportedRecently(host, c.clock.Now()) {
		updated := host.DeepCopy()
		if !lifecycle.SetRequestFailing(updated, failed.step, failed.Error()) {
			return
		}
		c.queue.backoffOf(key, func(b *backoff) { b.refused(failed.step) })
		_, err = c.recorder.Record(ctx, host, func(h *metal3.BareMetalHost) {
			lifecycle.SetRequestFailing(h, failed.step, failed.Error())
		})
	}
	if live.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) { // who wrote meanwhile has requeued it
		klog.FromContext(ctx).Error(err, "The host cannot say that its steps fail")
	}
}

// reportedRecently reports whether the host has just shown that its steps fail. The words may differ with
// each try (a connection's port, a request's ID), and would otherwise be recorded with each.
func reportedRecently(host *metal3.BareMetalHost, now time.Time) bool {
	return lifecycle.IsAnyRequestFailing(&host.Status) && host.Status.LastUpdated != nil && now.Sub(host.Status.LastUpdated.Time) < retryDelay
}
