package drive

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
)

// outcome is how a host goes on after a step: with the next one at once, or when
// something happens to it, to its Secrets or in Ironic.
type outcome struct {
	planAgain bool
	// host and node are what to plan the next step with. The node may be nil.
	host *metal3.BareMetalHost
	node *ironic.Node
}

var waitForEvent = outcome{}

func planAgainWith(host *metal3.BareMetalHost, node *ironic.Node) outcome {
	return outcome{planAgain: true, host: host, node: node}
}

// executor takes one step. Each may be taken again after a crash in its middle.
type executor func(c *Controller, ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, step lifecycle.Step) (outcome, error)

var executors = map[lifecycle.Action]executor{
	lifecycle.Begin:               (*Controller).begin,
	lifecycle.SetState:            (*Controller).setState,
	lifecycle.Report:              (*Controller).reportUnlessSecretExists,
	lifecycle.RecordGivenHardware: (*Controller).recordGivenHardware,
	lifecycle.FindNode:            (*Controller).findNode,
	lifecycle.CreateNode:          (*Controller).createNodeAndObserve,
	lifecycle.Register:            (*Controller).registerOrReport,
	lifecycle.Provision:           requesting((*Controller).provision),
	lifecycle.ClearMaintenance:    requesting((*Controller).clearMaintenance),
	lifecycle.Prepare:             (*Controller).prepare,
	lifecycle.Service:             (*Controller).service,
	lifecycle.LeaveService:        (*Controller).leaveService,
	lifecycle.EndServicing:        (*Controller).concludeService,
	lifecycle.Deploy:              requesting((*Controller).deploy),
	lifecycle.Rebuild:             requesting((*Controller).rebuild),
	lifecycle.SwitchPower:         requesting((*Controller).switchPower),
	lifecycle.DeleteNode:          requesting((*Controller).deleteNode),
	lifecycle.ClearRebootRequest:  recording(clearRebootRequest),
	lifecycle.ForgetFailures:      recording(lifecycle.ClearFailures),
	lifecycle.Detach:              recording(lifecycle.MarkDetached),
	lifecycle.Attach:              recording(lifecycle.MarkAttached),
	lifecycle.Release:             (*Controller).release,
	lifecycle.SetCleaning:         requesting((*Controller).setCleaning),
	lifecycle.Hold:                (*Controller).hold,
	lifecycle.AwaitImage:          (*Controller).awaitImage,
}

func (c *Controller) execute(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, step lifecycle.Step) (outcome, error) {
	run, known := executors[step.Do]
	if !known {
		return waitForEvent, fmt.Errorf("step %q is not known", step.Do)
	}
	return run(c, ctx, host, node, step)
}

// recording is the executor of a step that only changes what is recorded.
func recording(change func(host *metal3.BareMetalHost, now time.Time)) executor {
	return func(c *Controller, ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, _ lifecycle.Step) (outcome, error) {
		return waitForEvent, c.record(ctx, host, node, func(h *metal3.BareMetalHost) { change(h, time.Now()) })
	}
}

// requesting is the executor of a step towards Ironic: it makes the request and
// observes what became of it. A refusal that trying again at once would not change is
// recorded as the host's error; that the step was accepted ends an error of its kind.
func requesting(request func(c *Controller, ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, step lifecycle.Step) error) executor {
	return func(c *Controller, ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, step lifecycle.Step) (outcome, error) {
		return waitForEvent, c.settle(ctx, host, node, step, request(c, ctx, host, node, step))
	}
}

// reportUnlessSecretExists reports what keeps the host from being registered, unless
// that is a Secret which was made along with the host and the watch has yet to tell of.
func (c *Controller) reportUnlessSecretExists(ctx context.Context, host *metal3.BareMetalHost, _ *ironic.Node, step lifecycle.Step) (outcome, error) {
	if step.Secret != "" {
		if exists, err := c.secrets.Exists(ctx, host.Namespace, step.Secret); exists || err != nil {
			return waitForEvent, err
		}
	}
	return waitForEvent, c.report(ctx, host, step.Reason, step.Message)
}

func (c *Controller) createNodeAndObserve(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, _ lifecycle.Step) (outcome, error) {
	if free, err := c.hasBMCToItself(ctx, host); err != nil || !free {
		return planAgainWith(host, node), err // which reports it
	}
	if err := c.createNode(ctx, host); err != nil {
		return waitForEvent, err
	}
	host, node, err := c.look(ctx, types.NamespacedName{Namespace: host.Namespace, Name: host.Name}, true)
	if err != nil {
		return waitForEvent, &observationError{err}
	}
	return planAgainWith(host, node), nil
}

// registerOrReport registers the host. A deletion does not wait for what keeps it from
// being registered.
func (c *Controller) registerOrReport(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, _ lifecycle.Step) (outcome, error) {
	err := c.register(ctx, host, node)
	if err != nil && !host.DeletionTimestamp.IsZero() && !isPassing(err) {
		err = c.report(ctx, host, metal3.RequestFailedReason, err.Error())
	}
	return waitForEvent, err
}

func clearRebootRequest(host *metal3.BareMetalHost, _ time.Time) {
	lifecycle.RemoveRebootAnnotation(host)
	switch host.Status.Provisioning.State {
	case metal3.StateInspecting, metal3.StatePreparing, metal3.StateProvisioning:
		host.Status.ErrorCount = 0 // the abort was asked for, and so is the next try
	}
}

// settle records what became of a request to Ironic that a step consisted of.
func (c *Controller) settle(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, step lifecycle.Step, err error) error {
	key := types.NamespacedName{Namespace: host.Namespace, Name: host.Name}
	if message, refused := refusal(err, c.queue.NumRequeues(key)); refused && step.Error != "" {
		c.backoffOf(key, func(b *backoff) { b.refused(step) })
		return c.record(ctx, host, node, func(h *metal3.BareMetalHost) {
			lifecycle.SetStepError(h, step.Error, message, time.Now())
			countAgain(h, message)
		})
	}
	if err != nil {
		return err
	}
	if failed := lifecycle.StepError(&host.Status); failed != nil && (lifecycle.IsRequestFailing(&host.Status) ||
		failed.Kind == step.Error && step.Target != ironic.TargetAbort && host.Status.Provisioning.State != metal3.StateDeprovisioning) {
		same := func(h *metal3.BareMetalHost) bool {
			is := lifecycle.StepError(&h.Status)
			return is != nil && *is == *failed
		}
		// No later step would end it, when an observation of what Ironic does now comes first.
		if err := c.recordWhileTrue(ctx, host, same, func(h *metal3.BareMetalHost) { lifecycle.SetStepError(h, "", "", time.Now()) }); err != nil {
			return err
		}
	}
	if step.Do == lifecycle.Provision || step.Do == lifecycle.Deploy || step.Do == lifecycle.Rebuild {
		c.leaveToPoll(key, host, step)
		return nil
	}
	return c.observe(ctx, host)
}

// leaveToPoll has the next poll show what becomes of a step that Ironic has accepted and that takes it a while.
// A poll serves all hosts that have just taken such a step, and takes a busy Ironic about as long as a read of one node.
// If none shows the step in time, the host is planned anew after stepPause, and its node is read.
func (c *Controller) leaveToPoll(key types.NamespacedName, host *metal3.BareMetalHost, step lifecycle.Step) {
	c.refresher.DiscardObservations(host.UID) // a poll may have seen the node during the step, before the request
	c.backoffOf(key, func(b *backoff) { b.accept(step) })
	c.poller.expectChange()
}

// observe has the host observed after a step.
func (c *Controller) observe(ctx context.Context, host *metal3.BareMetalHost) error {
	if err := c.refresher.ObserveHost(ctx, host.Namespace, host.Name); err != nil {
		return &observationError{err}
	}
	return nil
}

func (c *Controller) begin(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, step lifecycle.Step) (outcome, error) {
	host, err := c.recorded(ctx, host, node, func(h *metal3.BareMetalHost) {
		if err := lifecycle.StartManaging(h, step.State); err != nil {
			klog.FromContext(ctx).Error(err, "The annotation with a status cannot be read and is dropped", "annotation", metal3.StatusAnnotation)
		}
	})
	if err != nil {
		return waitForEvent, err
	}
	return planAgainWith(host, node), nil
}

func (c *Controller) setState(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, step lifecycle.Step) (outcome, error) {
	if isEnrolling(host) && node != nil {
		if free, err := c.hasBMCToItself(ctx, host); err != nil || !free {
			return planAgainWith(host, node), err // which reports it
		}
	}
	var err error
	if step.State == metal3.StatePreparing && host.Status.Provisioning.State == metal3.StateInspecting {
		if host, err = c.keepHardware(ctx, host); err != nil {
			return waitForEvent, err
		}
	}
	host, err = c.recorded(ctx, host, node, func(h *metal3.BareMetalHost) { lifecycle.Enter(h, node, step, time.Now()) })
	if err != nil {
		return waitForEvent, err
	}
	return planAgainWith(host, node), nil
}

// hold records why nothing is done to the host's machine, or that this has ended.
func (c *Controller) hold(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, step lifecycle.Step) (outcome, error) {
	if step.Reason != "" {
		klog.FromContext(ctx).Info("Held", "reason", step.Reason, "message", step.Message)
		heldSteps.WithLabelValues(step.Reason).Inc()
	}
	host, err := c.recorded(ctx, host, node, func(h *metal3.BareMetalHost) { lifecycle.SetHeld(h, step.Reason, step.Message, time.Now()) })
	if err != nil {
		return waitForEvent, err
	}
	return planAgainWith(host, node), nil
}

// setCleaning tells Ironic whether to clean the node, without the Secret that the rest of
// a registration needs.
func (c *Controller) setCleaning(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, _ lifecycle.Step) error {
	_, err := c.ironic.UpdateNode(ctx, node.UUID, []ironic.Patch{{
		Op: ironic.PatchAdd, Path: "/automated_clean", Value: host.Spec.AutomatedCleaningMode != metal3.CleaningModeDisabled,
	}})
	return err
}

func (c *Controller) clearMaintenance(ctx context.Context, _ *metal3.BareMetalHost, node *ironic.Node, _ lifecycle.Step) error {
	return c.ironic.ClearMaintenance(ctx, node.UUID)
}

func (c *Controller) deleteNode(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, _ lifecycle.Step) error {
	switch node.ProvisionState {
	case ironic.Enroll, ironic.Manageable, ironic.Available, ironic.AdoptFail:
		if node.InstanceUUID != "" && !node.Maintenance { // Ironic deletes no node with an instance
			if _, err := c.ironic.UpdateNode(ctx, node.UUID, []ironic.Patch{{Op: ironic.PatchRemove, Path: "/instance_uuid"}}); err != nil {
				return ignoreNoNode(err)
			}
		}
	default:
		if node.Maintenance {
			break
		}
		// The only way out of Ironic that leaves a running machine alone, its instance included.
		if err := c.ironic.SetMaintenance(ctx, node.UUID, lifecycle.LeavingReason(host)); err != nil {
			return err
		}
	}
	if err := ignoreNoNode(c.ironic.DeleteNode(ctx, node.UUID)); err != nil {
		return err
	}
	c.refresher.ForgetNode(node.UUID)
	klog.FromContext(ctx).Info("Node deleted from Ironic", "node", node.UUID)
	return nil
}

func ignoreNoNode(err error) error {
	if ironic.IsNotFound(err) {
		return nil
	}
	return err
}

// release lets go of the Secrets first: once the host is gone, nobody would
// remember them.
func (c *Controller) release(ctx context.Context, host *metal3.BareMetalHost, _ *ironic.Node, _ lifecycle.Step) (outcome, error) {
	secrets := []string{host.Spec.BMC.CredentialsName}
	if tried := host.Status.TriedCredentials.Reference; tried != nil && tried.Name != secrets[0] {
		secrets = append(secrets, tried.Name)
	}
	for _, name := range secrets {
		if name == "" {
			continue
		}
		if err := c.secrets.Release(ctx, host, name); err != nil {
			return waitForEvent, fmt.Errorf("releasing Secret %s/%s: %w", host.Namespace, name, err)
		}
	}
	if err := c.hardware.RemoveFinalizer(ctx, host.Namespace, host.Name, metal3.HardwareDataFinalizer); err != nil {
		return waitForEvent, fmt.Errorf("releasing HardwareData %s/%s: %w", host.Namespace, host.Name, err)
	}
	updated := host.DeepCopy()
	updated.Finalizers = slices.DeleteFunc(updated.Finalizers, func(f string) bool { return f == metal3.BareMetalHostFinalizer })
	_, err := c.hosts.Update(ctx, updated)
	return waitForEvent, live.IgnoreNotFound(err)
}
