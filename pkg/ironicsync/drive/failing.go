package drive

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
)

const (
	// failingGrace is how long steps may fail for reasons that are not the host's before
	// the host says so: most of these are over in a moment.
	failingGrace = 15 * time.Second
	// tellTimeout bounds the requests to etcd for that.
	tellTimeout = 10 * time.Second
)

// stepError is the failure of a step, or of what it is planned with (step is empty then),
// for a reason that is not the host's.
type stepError struct {
	step lifecycle.Step
	err  error
}

func (e *stepError) Error() string { return e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

// observationError is a failure to observe Ironic that followed a step. While Ironic
// cannot be observed, hosts say that in the condition IronicReachable.
type observationError struct{ err error }

func (e *observationError) Error() string { return e.err.Error() }
func (e *observationError) Unwrap() error { return e.err }

func stepErrorOf(step lifecycle.Step, err error) error {
	if observation := new(observationError); errors.As(err, &observation) {
		return err
	}
	return &stepError{step, err}
}

// hasFailed tells whether the step is the one whose failure the host shows.
func (c *Controller) hasFailed(key types.NamespacedName, step lifecycle.Step) (failed bool) {
	c.backoffOf(key, func(b *backoff) { failed = b.failed == identityOf(step) })
	return failed
}

// tellFailing has the host say what keeps its steps from being taken, in a condition, as
// its error and in an event, if that has been so for a while. began is when the step
// began that has failed now. The same words are not recorded twice, as each record has
// the host planned again at once.
func (c *Controller) tellFailing(ctx context.Context, key types.NamespacedName, began time.Time, err error) {
	var failed *stepError
	if !errors.As(err, &failed) {
		return
	}
	c.retries.Forget(key.Namespace, key.Name) // the try is over
	var since time.Time
	c.backoffOf(key, func(b *backoff) {
		if b.failingSince.IsZero() {
			b.failingSince = began
		}
		since = b.failingSince
	})
	if time.Since(since) < failingGrace {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	host, err := c.hosts.Get(ctx, key.Namespace, key.Name)
	if err == nil && !saysOtherwise(host) {
		updated := host.DeepCopy()
		if !lifecycle.SetRequestFailing(updated, failed.step, failed.Error(), time.Now()) {
			return
		}
		c.backoffOf(key, func(b *backoff) { b.refused(failed.step) })
		err = c.record(ctx, host, lifecycle.RecordedNode(host), func(h *metal3.BareMetalHost) {
			lifecycle.SetRequestFailing(h, failed.step, failed.Error(), time.Now())
		})
	}
	if live.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) { // who wrote meanwhile has it planned again
		klog.FromContext(ctx).Error(err, "The host cannot say that its steps fail")
	}
}

// saysOtherwise tells whether the host has just said that its steps fail, in other words
// (a connection's port, a request's ID), which would otherwise be recorded with each try.
func saysOtherwise(host *metal3.BareMetalHost) bool {
	return lifecycle.IsAnyRequestFailing(&host.Status) && host.Status.LastUpdated != nil && time.Since(host.Status.LastUpdated.Time) < retryDelay
}
