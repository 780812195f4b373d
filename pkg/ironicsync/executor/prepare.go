// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/destination"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// cleans takes the steps that clean a machine, or change its settings by a clean.
type cleans struct {
	*settler
	ironic Ironic
	images destination.Policy
}

// prepare records that the clean of the step is requested, and then requests it from Ironic. After a
// crash in between, an observation finds out whether the clean has begun.
func (c *cleans) prepare(ctx context.Context, task Task) (Outcome, error) {
	clean := task.Step.Clean
	if clean == nil {
		return c.settle(ctx, task, &blocked{task.Step.Message})
	}
	before := task.Host.Status.Record.Preparation
	if err := checkURLs(ctx, c.images, clean); err != nil {
		return c.refuse(ctx, task, err)
	}
	host, err := c.recorder.Record(ctx, task.Host, func(h *metal3.BareMetalHost) {
		lifecycle.RequestPreparation(h, clean, c.clock.Now())
		lifecycle.Ask(h, task.Step, task.AskedInVain, task.AskedKnownFor, c.clock.Now())
	})
	if err != nil {
		return Outcome{}, err
	}
	requested := host.Status.Record.Preparation
	isRequested := func(h *metal3.BareMetalHost) bool { return lifecycle.IsPreparationRequested(h, requested) }
	task.Host = host
	err = c.start(ctx, task)
	notCarriedOut := isNotCarriedOut(err)
	if message, refused := refusal(err, conflictTries); err == nil || refused {
		var failed error
		host, failed = c.recorder.RecordWhileTrue(ctx, host, isRequested, func(h *metal3.BareMetalHost) {
			if refused {
				lifecycle.RefusePreparation(h, before, message, c.clock.Now())
			} else {
				lifecycle.AcceptPreparation(h, c.clock.Now())
			}
		})
		if failed != nil {
			return Outcome{}, failed
		}
	}
	task.Host = host
	outcome, err := c.settle(ctx, task, err)
	if notCarriedOut {
		outcome.NotCarriedOut, outcome.Host = true, host
	}
	return outcome, err
}

// refuse records that a clean is not requested from Ironic because of what its steps would fetch.
func (c *cleans) refuse(ctx context.Context, task Task, reason error) (Outcome, error) {
	if task.Step.Clean.IsRequested {
		before := task.Host.Status.Record.Preparation
		host, err := c.recorder.Record(ctx, task.Host, func(h *metal3.BareMetalHost) {
			lifecycle.RefusePreparation(h, before, reason.Error(), c.clock.Now())
		})
		if err != nil {
			return Outcome{}, err
		}
		task.Host = host
	}
	return c.settle(ctx, task, reason)
}

// start requests a manual clean from Ironic.
func (c *cleans) start(ctx context.Context, task Task) error {
	if err := c.mayStart(ctx, &task); err != nil {
		return &unsentError{err}
	}
	err := c.ironic.SetProvisionState(ctx, task.Fence, task.Node.UUID, ironic.TargetClean, ironic.ProvisionOptions{CleanSteps: task.Step.Clean.Steps})
	if ironic.IsWrongState(err) {
		return ironic.ErrLookedTooLongAgo
	}
	return err
}

// mayStart tells Ironic what the clean depends on, and looks whether it is still to be requested then.
func (c *cleans) mayStart(ctx context.Context, task *Task) error {
	node, clean := task.Node, task.Step.Clean
	if clean.RAIDInterface != "" {
		current, err := c.ironic.GetRegistration(ctx, node.UUID)
		if err != nil {
			return err
		}
		if current.RAIDInterface != clean.RAIDInterface {
			// Only if it differs, because a PATCH makes Ironic 29.0.5 take the node for its own parent.
			patch := ironic.Patch{Op: ironic.PatchAdd, Path: "/raid_interface", Value: clean.RAIDInterface}
			if _, err := c.ironic.UpdateNode(ctx, task.Fence, node.UUID, []ironic.Patch{patch}); err != nil {
				return err
			}
		}
	}
	if len(clean.LogicalDisks) > 0 {
		if err := c.ironic.SetTargetRAID(ctx, task.Fence, node.UUID, clean.LogicalDisks); err != nil {
			return err
		}
	}
	current, err := lookAgain(ctx, c.ironic, task)
	switch {
	case err != nil:
		return err
	case current.ProvisionState != ironic.Manageable, current.InstanceUUID != node.InstanceUUID:
		return ironic.ErrLookedTooLongAgo
	}
	return c.confirm(ctx, task.Host)
}
