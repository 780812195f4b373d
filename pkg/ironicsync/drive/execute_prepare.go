package drive

import (
	"context"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/settings"
)

// prepare records that the clean of the step is requested, and then asks Ironic for it. After a
// crash in between, an observation finds out whether the clean has begun.
func (c *Controller) prepare(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, step lifecycle.Step) (outcome, error) {
	if step.Clean == nil {
		return waitForEvent, c.settle(ctx, host, node, step, &blocked{step.Message})
	}
	if err := c.checkUpdates(ctx, step.Clean); err != nil {
		return waitForEvent, c.settle(ctx, host, node, step, err)
	}
	before := host.Status.Preparation
	host, err := c.recorded(ctx, host, node, func(h *metal3.BareMetalHost) {
		lifecycle.RequestPreparation(h, node, step.Clean, time.Now())
	})
	if err != nil {
		return waitForEvent, err
	}
	requested := host.Status.Preparation
	isRequested := func(h *metal3.BareMetalHost) bool { return lifecycle.IsPreparationRequested(h, requested) }
	err = c.startClean(ctx, host, node, step.Clean)
	if _, refused := refusal(err, conflictTries); err == nil || refused {
		change := lifecycle.AcceptPreparation
		if refused { // nothing has begun, and what was known of the machine still holds
			change = func(h *metal3.BareMetalHost, _ time.Time) { h.Status.Preparation = before }
		}
		if err := c.recordWhileTrue(ctx, host, isRequested, func(h *metal3.BareMetalHost) { change(h, time.Now()) }); err != nil {
			return waitForEvent, err
		}
		var readErr error
		if host, readErr = c.hosts.Get(ctx, host.Namespace, host.Name); readErr != nil {
			return waitForEvent, live.IgnoreNotFound(readErr)
		}
	}
	return waitForEvent, c.settle(ctx, host, node, step, err)
}

// startClean asks Ironic for a manual clean, after what the clean depends on.
func (c *Controller) startClean(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, clean *settings.Clean) error {
	if clean.RAIDInterface != "" {
		current, err := c.ironic.GetRegistration(ctx, node.UUID)
		if err != nil {
			return err
		}
		if current.RAIDInterface != clean.RAIDInterface {
			// Only if it differs; see updateRegistration.
			patch := ironic.Patch{Op: ironic.PatchAdd, Path: "/raid_interface", Value: clean.RAIDInterface}
			if _, err := c.ironic.UpdateNode(ctx, node.UUID, []ironic.Patch{patch}); err != nil {
				return err
			}
		}
	}
	if len(clean.LogicalDisks) > 0 {
		if err := c.ironic.SetTargetRAID(ctx, node.UUID, clean.LogicalDisks); err != nil {
			return err
		}
	}
	// The requests have taken time.
	now, err := c.ironic.GetNode(ctx, node.UUID)
	switch {
	case err != nil:
		return err
	case now.ProvisionState != ironic.Manageable, now.InstanceUUID != node.InstanceUUID:
		return errLookedTooLongAgo
	}
	err = c.ironic.SetProvisionState(ctx, node.UUID, ironic.TargetClean, ironic.ProvisionOptions{CleanSteps: clean.Steps})
	if ironic.IsWrongState(err) {
		return errLookedTooLongAgo
	}
	return err
}
