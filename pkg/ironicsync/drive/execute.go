package drive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
)

// do takes one step. Every step may be taken again after a crash in its middle. What
// only prepares the next step returns the host and the node to plan that with;
// otherwise the host is nil, and what happens next is an event.
func (c *Controller) do(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, step lifecycle.Step) (*metal3.BareMetalHost, *ironic.Node, error) {
	var err error
	switch step.Do {
	case lifecycle.Begin:
		host, err = c.begin(ctx, host, node, step.State)
		return host, node, err
	case lifecycle.SetState:
		host, err = c.setState(ctx, host, node, step)
		return host, node, err
	case lifecycle.FindNode:
		host, err = c.findNode(ctx, host)
		return host, nil, err
	case lifecycle.CreateNode:
		if err := c.createNode(ctx, host); err != nil {
			return nil, nil, err
		}
		return c.refresher.ObserveAndGet(ctx, host.Namespace, host.Name)
	}
	return nil, nil, c.finish(ctx, host, node, step)
}

// finish takes a step after which there is something to wait for.
func (c *Controller) finish(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, step lifecycle.Step) error {
	switch step.Do {
	case lifecycle.Report:
		if step.Secret != "" && c.secrets.Exists(ctx, host.Namespace, step.Secret) {
			return nil // made along with the host: the watch has yet to tell
		}
		return c.report(ctx, host, step.Reason, step.Message)
	case lifecycle.TakeHardware:
		return c.takeHardware(ctx, host, node)
	case lifecycle.Register:
		err := c.register(ctx, host, node)
		if err != nil && !host.DeletionTimestamp.IsZero() && !isPassing(err) {
			return c.report(ctx, host, metal3.SecretIncompleteReason, err.Error()) // no deletion waits for that
		}
		return err
	case lifecycle.Provision:
		return c.act(ctx, host, node, step, func() error {
			if step.Target == ironic.TargetAdopt {
				return c.adopt(ctx, host, node)
			}
			return c.provision(ctx, node, step.Target)
		})
	case lifecycle.ClearMaintenance:
		return c.act(ctx, host, node, step, func() error { return c.ironic.ClearMaintenance(ctx, node.UUID) })
	case lifecycle.Deploy:
		return c.act(ctx, host, node, step, func() error { return c.deploy(ctx, host, node) })
	case lifecycle.SwitchPower:
		return c.act(ctx, host, node, step, func() error { return c.switchPower(ctx, host, node, step.Power) })
	case lifecycle.DropReboot:
		return c.record(ctx, host, node, func(h *metal3.BareMetalHost) {
			lifecycle.RemoveRebootAnnotation(h)
			switch h.Status.Provisioning.State {
			case metal3.StateInspecting, metal3.StatePreparing, metal3.StateProvisioning:
				h.Status.ErrorCount = 0 // the abort was asked for, and so is the next try
			}
		})
	case lifecycle.ForgetFailures:
		return c.record(ctx, host, node, func(h *metal3.BareMetalHost) { lifecycle.ClearFailures(h, time.Now()) })
	case lifecycle.DeleteNode:
		return c.act(ctx, host, node, step, func() error { return c.deleteNode(ctx, host, node) })
	case lifecycle.Detach:
		return c.record(ctx, host, nil, func(h *metal3.BareMetalHost) { lifecycle.MarkDetached(h, time.Now()) })
	case lifecycle.Attach:
		return c.record(ctx, host, node, func(h *metal3.BareMetalHost) { lifecycle.MarkAttached(h, time.Now()) })
	case lifecycle.Release:
		return c.release(ctx, host)
	}
	return fmt.Errorf("step %q is not known", step.Do)
}

// isPassing tells whether an error is one of those that hold up any step.
func isPassing(err error) bool {
	return ironic.IsUnavailable(err) || ironic.IsLocked(err) || apierrors.IsConflict(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

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

// insist records what is so whatever else was written meanwhile, an observation
// mostly, as long as it is still true of the host.
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

// sameSpec tells whether a host is still wanted as it was.
func sameSpec(was *metal3.BareMetalHost) func(*metal3.BareMetalHost) bool {
	return func(is *metal3.BareMetalHost) bool {
		return is.Generation == was.Generation && is.DeletionTimestamp.IsZero() == was.DeletionTimestamp.IsZero()
	}
}

// act takes a step towards Ironic and observes what became of it. A refusal that
// trying again at once would not change is recorded as the host's error; that the
// step was accepted ends an error of its kind.
func (c *Controller) act(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, step lifecycle.Step, request func() error) error {
	err := request()
	tries := c.queue.NumRequeues(types.NamespacedName{Namespace: host.Namespace, Name: host.Name})
	if message, refused := refusal(err, tries); refused && step.Error != "" {
		return c.record(ctx, host, node, func(h *metal3.BareMetalHost) {
			lifecycle.SetStepError(h, step.Error, message, time.Now())
			countAgain(h, message)
		})
	}
	if err != nil {
		return err
	}
	if failed := lifecycle.StepError(&host.Status); failed != nil && failed.Kind == step.Error && step.Target != ironic.TargetAbort && host.Status.Provisioning.State != metal3.StateDeprovisioning {
		same := func(h *metal3.BareMetalHost) bool {
			is := lifecycle.StepError(&h.Status)
			return is != nil && *is == *failed
		}
		// No later step would end it, when an observation of what Ironic does now comes first.
		if err := c.recordWhileTrue(ctx, host, same, func(h *metal3.BareMetalHost) { lifecycle.SetStepError(h, "", "", time.Now()) }); err != nil {
			return err
		}
	}
	return c.refresher.ObserveHost(ctx, host.Namespace, host.Name)
}

// blocked is a step that cannot be taken for want of something in the cluster.
type blocked struct{ message string }

func (e *blocked) Error() string { return e.message }

// conflictTries is after how many failures in a row, some twelve seconds, a conflict is
// not over by itself. (A lock always is, however long it takes.)
const conflictTries = 6

// refusal returns the words of an error that will be the same again, until
// somebody mends what it is about.
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

func (c *Controller) begin(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, state metal3.ProvisioningState) (*metal3.BareMetalHost, error) {
	return c.recorded(ctx, host, node, func(h *metal3.BareMetalHost) {
		if err := lifecycle.BeginManaging(h, state); err != nil {
			klog.FromContext(ctx).Error(err, "The annotation with a status cannot be read and is dropped", "annotation", metal3.StatusAnnotation)
		}
	})
}

func (c *Controller) setState(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, step lifecycle.Step) (*metal3.BareMetalHost, error) {
	if step.State == metal3.StatePreparing && host.Status.Provisioning.State == metal3.StateInspecting {
		var err error
		if host, err = c.keepHardware(ctx, host); err != nil {
			return nil, err
		}
	}
	return c.recorded(ctx, host, node, func(h *metal3.BareMetalHost) { lifecycle.Enter(h, node, step, time.Now()) })
}

// delay records that the host waits for others to finish.
func (c *Controller) delay(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node) error {
	if host.Status.OperationalStatus == metal3.OperationalStatusDelayed {
		return nil
	}
	return c.record(ctx, host, node, func(h *metal3.BareMetalHost) { h.Status.OperationalStatus = metal3.OperationalStatusDelayed })
}

// undelay records that the host waits no more: what it waited for is not wanted now.
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

// countAgain counts an error that the host shows already: record counts new ones only.
func countAgain(host *metal3.BareMetalHost, message string) {
	if host.Status.ErrorMessage == message {
		host.Status.ErrorCount++
	}
}

// refused reports an answer of Ironic's that trying again will not change, or a
// Secret that cannot be used, and passes any other error on.
func (c *Controller) refused(ctx context.Context, host *metal3.BareMetalHost, err error) error {
	if unusable := new(blocked); errors.As(err, &unusable) {
		return c.report(ctx, host, metal3.SecretIncompleteReason, unusable.message)
	}
	var answer *ironic.APIError
	if !errors.As(err, &answer) || ironic.IsLocked(err) || ironic.IsUnavailable(err) {
		return err
	}
	return c.report(ctx, host, metal3.IronicRefusedReason, answer.Message)
}

func (c *Controller) deleteNode(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node) error {
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
func (c *Controller) release(ctx context.Context, host *metal3.BareMetalHost) error {
	secrets := []string{host.Spec.BMC.CredentialsName}
	if tried := host.Status.TriedCredentials.Reference; tried != nil && tried.Name != secrets[0] {
		secrets = append(secrets, tried.Name)
	}
	for _, name := range secrets {
		if name == "" {
			continue
		}
		if err := c.secrets.Release(ctx, host, name); err != nil {
			return fmt.Errorf("releasing Secret %s/%s: %w", host.Namespace, name, err)
		}
	}
	if err := c.hardware.RemoveFinalizer(ctx, host.Namespace, host.Name, metal3.HardwareDataFinalizer); err != nil {
		return fmt.Errorf("releasing HardwareData %s/%s: %w", host.Namespace, host.Name, err)
	}
	updated := host.DeepCopy()
	updated.Finalizers = slices.DeleteFunc(updated.Finalizers, func(f string) bool { return f == metal3.BareMetalHostFinalizer })
	_, err := c.hosts.Update(ctx, updated)
	return live.IgnoreNotFound(err)
}
