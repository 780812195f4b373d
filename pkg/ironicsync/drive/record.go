package drive

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
)

// record writes what change makes of host and its status, unless somebody else
// wrote meanwhile.
func (c *Controller) record(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, change func(*metal3.BareMetalHost)) error {
	_, err := c.recorded(ctx, host, node, change)
	return err
}

// recorded is record, and returns the host as it is then.
func (c *Controller) recorded(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, change func(*metal3.BareMetalHost)) (*metal3.BareMetalHost, error) {
	updated := host.DeepCopy()
	change(updated)
	now := time.Now()
	status := &updated.Status
	if !lifecycle.IsDetached(updated) {
		lifecycle.SetError(status, lifecycle.ErrorOf(status, updated, node), false)
	}
	lifecycle.SetConditions(status, updated, node, now)
	status.LastUpdated = lifecycle.StatusTime(now)
	return c.hosts.Record(ctx, updated)
}

// recordWhileTrue is record that tries again when somebody else wrote meanwhile, mostly an
// observation, as long as isTrue says that the change is still true of the host.
func (c *Controller) recordWhileTrue(ctx context.Context, host *metal3.BareMetalHost, isTrue func(*metal3.BareMetalHost) bool, change func(*metal3.BareMetalHost)) error {
	for race := 0; ; race++ {
		err := c.record(ctx, host, lifecycle.RecordedNode(host), change)
		if err == nil || !apierrors.IsConflict(err) || race == live.MaxRaces {
			return err
		}
		if host, err = c.hosts.Get(ctx, host.Namespace, host.Name); err != nil {
			return live.IgnoreNotFound(err)
		}
		if !isTrue(host) {
			return nil // it is planned anew
		}
	}
}

// sameSpec tells whether a host's spec, and whether it is deleted, are as they were.
func sameSpec(was *metal3.BareMetalHost) func(*metal3.BareMetalHost) bool {
	return func(is *metal3.BareMetalHost) bool {
		return is.Generation == was.Generation && is.DeletionTimestamp.IsZero() == was.DeletionTimestamp.IsZero()
	}
}

// delay records that the host waits for others to finish.
func (c *Controller) delay(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node) error {
	if host.Status.OperationalStatus == metal3.OperationalStatusDelayed {
		return nil
	}
	return c.record(ctx, host, node, func(h *metal3.BareMetalHost) { h.Status.OperationalStatus = metal3.OperationalStatusDelayed })
}

// undelay records that the host does not wait for room any more: the step that needed it
// is not wanted now.
func (c *Controller) undelay(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node) error {
	if host.Status.OperationalStatus != metal3.OperationalStatusDelayed {
		return nil
	}
	c.gate.Forget(host.Namespace, host.Name)
	c.wake(c.gate)
	return c.record(ctx, host, node, func(h *metal3.BareMetalHost) { h.Status.OperationalStatus = metal3.OperationalStatusOK })
}

// report records why the host cannot be registered; the host shows it as its error.
func (c *Controller) report(ctx context.Context, host *metal3.BareMetalHost, reason, message string) error {
	return c.record(ctx, host, nil, func(h *metal3.BareMetalHost) {
		lifecycle.SetCondition(&h.Status, h, metav1.Condition{
			Type: metal3.RegisteredCondition, Status: metav1.ConditionFalse, Reason: reason, Message: message,
		}, time.Now())
		countAgain(h, message)
	})
}

// reportNotManaged records, once, that nothing is done for a host because of its namespace.
func (c *Controller) reportNotManaged(ctx context.Context, host *metal3.BareMetalHost) error {
	if registered := meta.FindStatusCondition(host.Status.Conditions, metal3.RegisteredCondition); registered != nil && registered.Reason == metal3.NamespaceNotManagedReason {
		return nil
	}
	return c.report(ctx, host, metal3.NamespaceNotManagedReason,
		"the hosts of this namespace are not managed, nor are they deregistered when they are deleted: the server's flag --namespaces has to name it")
}

// countAgain counts an error that the host shows already: record counts new ones only.
func countAgain(host *metal3.BareMetalHost, message string) {
	if host.Status.ErrorMessage == lifecycle.CutMessage(message) {
		host.Status.ErrorCount++
	}
}

// refused reports an answer of Ironic's that trying again will not change, or a
// Secret that cannot be used, and passes any other error on.
func (c *Controller) refused(ctx context.Context, host *metal3.BareMetalHost, err error) error {
	if unusable := new(blocked); errors.As(err, &unusable) {
		return c.report(ctx, host, metal3.SecretIncompleteReason, unusable.message)
	}
	if image := new(unusableImage); errors.As(err, &image) {
		return c.report(ctx, host, metal3.ImageNotBuiltReason, image.message)
	}
	var answer *ironic.APIError
	if !errors.As(err, &answer) || ironic.IsLocked(err) || ironic.IsUnavailable(err) {
		return err
	}
	return c.report(ctx, host, metal3.IronicRefusedReason, answer.Message)
}
