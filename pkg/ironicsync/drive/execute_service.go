package drive

import (
	"context"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
)

// service records that the service of the step is requested, and then asks Ironic for it. After a
// crash in between, an observation finds out whether the service has begun. A refusal is recorded
// as the host's error, and the host is then switched on without the service.
func (c *Controller) service(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, step lifecycle.Step) (outcome, error) {
	if step.Clean == nil {
		return waitForEvent, c.record(ctx, host, node, func(h *metal3.BareMetalHost) { setServicingError(h, step.Message) })
	}
	if err := c.checkURLs(ctx, step.Clean); err != nil {
		message, refused := refusal(err, conflictTries)
		if !refused {
			return waitForEvent, err
		}
		return waitForEvent, c.record(ctx, host, node, func(h *metal3.BareMetalHost) {
			lifecycle.RequestService(h, node, step.Clean, time.Now())
			lifecycle.RefuseService(h)
			setServicingError(h, message)
		})
	}
	// Ironic leaves the machine switched on, so this is the last moment at which it is off.
	if err := c.prepareDrive(ctx, host); err != nil {
		step.Error = metal3.PowerManagementError
		return waitForEvent, c.settle(ctx, host, node, step, err)
	}
	host, err := c.recorded(ctx, host, node, func(h *metal3.BareMetalHost) {
		lifecycle.RequestService(h, node, step.Clean, time.Now())
	})
	if err != nil {
		return waitForEvent, err
	}
	requested := host.Status.Servicing
	change := lifecycle.AcceptService
	err = c.startService(ctx, host, node, step)
	message, refused := refusal(err, conflictTries)
	switch {
	case refused:
		change = func(h *metal3.BareMetalHost) {
			lifecycle.RefuseService(h)
			setServicingError(h, message)
		}
	case err != nil:
		return waitForEvent, err
	}
	isRequested := func(h *metal3.BareMetalHost) bool {
		return lifecycle.IsSameService(h, requested) && h.Status.Servicing.Phase == metal3.PreparationRequested
	}
	if err := c.recordWhileTrue(ctx, host, isRequested, change); err != nil || refused {
		return waitForEvent, err
	}
	if host, err = c.hosts.Get(ctx, host.Namespace, host.Name); err != nil {
		return waitForEvent, live.IgnoreNotFound(err)
	}
	return waitForEvent, c.settle(ctx, host, node, step, nil)
}

func setServicingError(host *metal3.BareMetalHost, message string) {
	lifecycle.SetStepError(host, metal3.ServicingError, message, time.Now())
	countAgain(host, message)
}

// startService asks Ironic for a service if the node is still as it was when the service was requested.
func (c *Controller) startService(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, step lifecycle.Step) error {
	now, err := c.ironic.GetNode(ctx, node.UUID)
	switch {
	case err != nil:
		return err
	case now.ProvisionState != ironic.Active, now.InstanceUUID != node.InstanceUUID, lifecycle.HasServiceBegun(host.Status.Servicing, now):
		return errLookedTooLongAgo
	}
	err = c.ironic.SetProvisionState(ctx, node.UUID, ironic.TargetService, ironic.ProvisionOptions{ServiceSteps: step.Clean.Steps})
	if ironic.IsWrongState(err) {
		return errLookedTooLongAgo
	}
	return err
}

// leaveService has Ironic end a service. The node is taken out of the maintenance of a failed
// service first, in which Ironic accepts nothing of it.
func (c *Controller) leaveService(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, step lifecycle.Step) (outcome, error) {
	err := c.endService(ctx, node, step.Target)
	if _, refused := refusal(err, conflictTries); refused {
		return waitForEvent, c.settle(ctx, host, node, step, err)
	}
	if err != nil {
		return waitForEvent, err
	}
	open := host.Status.Servicing
	isOpen := func(h *metal3.BareMetalHost) bool { return lifecycle.IsSameService(h, open) }
	if err := c.recordWhileTrue(ctx, host, isOpen, lifecycle.LeaveServiceBegun); err != nil {
		return waitForEvent, err
	}
	return waitForEvent, c.observe(ctx, host)
}

// harmlessStep does nothing to a machine that is on. Ironic executes it itself; at the end of the
// service, it starts what the machine runs.
var harmlessStep = ironic.StepRequest{Interface: "power", Step: "power_on"}

func (c *Controller) endService(ctx context.Context, node *ironic.Node, target ironic.ProvisionTarget) error {
	if node.Maintenance {
		if err := c.ironic.ClearMaintenance(ctx, node.UUID); err != nil {
			return err
		}
	}
	options := ironic.ProvisionOptions{}
	if target == ironic.TargetService {
		options.ServiceSteps = []ironic.StepRequest{harmlessStep}
	}
	err := c.ironic.SetProvisionState(ctx, node.UUID, target, options)
	if ironic.IsWrongState(err) {
		return nil // somebody was quicker, and the next observation says what to do
	}
	return err
}

// concludeService records that nothing is left to be changed by a service.
func (c *Controller) concludeService(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, _ lifecycle.Step) (outcome, error) {
	policy := c.policies.of(host)
	return waitForEvent, c.record(ctx, host, node, func(h *metal3.BareMetalHost) { lifecycle.ConcludeService(h, policy, time.Now()) })
}
