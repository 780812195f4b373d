// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"

	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/recorder"
)

// nodes takes the steps that concern a node and not its machine.
type nodes struct {
	ironic   Ironic
	observer Observer
	recorder *recorder.Recorder
}

// setCleaning tells Ironic whether to clean the node, without the Secret that the rest of
// a registration needs.
func (n *nodes) setCleaning(ctx context.Context, task *Task) error {
	_, err := n.ironic.UpdateNode(ctx, task.Fence, task.Node.UUID, []ironic.Patch{{
		Op: ironic.PatchAdd, Path: "/automated_clean", Value: task.Host.Spec.AutomatedCleaningMode != metal3.CleaningModeDisabled,
	}})
	return err
}

func (n *nodes) clearMaintenance(ctx context.Context, task *Task) error {
	return n.ironic.ClearMaintenance(ctx, task.Fence, task.Node.UUID)
}

func (n *nodes) delete(ctx context.Context, task *Task) error {
	node := task.Node
	if lifecycle.IsNodeExpected(task.Host) {
		host, err := n.recorder.Record(ctx, task.Host, lifecycle.MarkNodeRemoved)
		if err != nil {
			return err
		}
		task.Host, task.Fence = host, task.Fence.At(host.ResourceVersion)
	}
	switch node.ProvisionState {
	case ironic.Enroll, ironic.Manageable, ironic.Available, ironic.AdoptFail:
		if node.InstanceUUID != "" && !node.Maintenance { // Ironic deletes no node with an instance
			if _, err := n.ironic.UpdateNode(ctx, task.Fence, node.UUID, []ironic.Patch{{Op: ironic.PatchRemove, Path: "/instance_uuid"}}); err != nil {
				return ignoreNoNode(err)
			}
		}
	default:
		if node.Maintenance {
			break
		}
		// The only way out of Ironic that leaves a running machine alone, its instance included.
		if err := n.ironic.SetMaintenance(ctx, task.Fence, node.UUID, lifecycle.LeavingReason(task.Host)); err != nil {
			return err
		}
	}
	if err := ignoreNoNode(n.ironic.DeleteNode(ctx, task.Fence, node.UUID)); err != nil {
		return err
	}
	n.observer.ForgetNode(node.UUID)
	klog.FromContext(ctx).Info("Node deleted from Ironic", "node", node.UUID)
	return nil
}

func ignoreNoNode(err error) error {
	if ironic.IsNotFound(err) {
		return nil
	}
	return err
}
