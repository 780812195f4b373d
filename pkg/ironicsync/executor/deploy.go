// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"strings"
	"time"

	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/redact"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/destination"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/secrets"
)

// deployments takes the steps that change what is deployed on a machine, and the plain transitions.
type deployments struct {
	ironic  Ironic
	secrets *secrets.Secrets
	images  destination.Policy

	asker *asker
}

// request requests a transition. See asker for one that interrupts the machine.
func (d *deployments) request(ctx context.Context, task *Task, target ironic.ProvisionTarget, options ironic.ProvisionOptions) error {
	if !task.Step.Interrupts() {
		return d.ironic.SetProvisionState(ctx, task.Fence, task.Node.UUID, target, options)
	}
	if err := d.asker.ask(ctx, task); err != nil {
		task.notCarriedOut = task.AskedInVain // what is recorded is still about the former request
		return err
	}
	err := d.ironic.SetProvisionState(ctx, task.Fence, task.Node.UUID, target, options)
	task.notCarriedOut = lifecycle.NeedsIntent(task.Step) && ironic.IsNotCarriedOut(err)
	return err
}

// deploy tells Ironic what to deploy, and requests its validation and then the deployment. Until the last
// request the node is available, and all of it is done again after a crash.
func (d *deployments) deploy(ctx context.Context, task *Task) error {
	options, err := d.prepare(ctx, *task)
	if err != nil {
		return err
	}
	current, err := lookAgain(ctx, d.ironic, task)
	if err != nil {
		return err
	}
	if current.ProvisionState != ironic.Available || current.InstanceUUID != lifecycle.InstanceUUID(task.Host) {
		return ironic.ErrLookedTooLongAgo
	}
	return d.request(ctx, task, ironic.TargetActive, options)
}

// rebuild is deploy for a node that is deployed already. It may be requested only once, so the node
// must be as it was when it was requested, or the rebuild must have failed.
func (d *deployments) rebuild(ctx context.Context, task *Task) error {
	host, node := task.Host, task.Node
	options, err := d.prepare(ctx, *task)
	if err != nil {
		return err
	}
	current, err := lookAgain(ctx, d.ironic, task)
	if err != nil {
		return err
	}
	requested := host.Status.Record.Deployment.Rebuild
	switch {
	case current.ProvisionState != node.ProvisionState, current.InstanceUUID != lifecycle.InstanceUUID(host),
		current.ProvisionState == ironic.Active && (requested == nil || lifecycle.HasRebuildBegun(requested, current)):
		return ironic.ErrLookedTooLongAgo
	}
	return d.request(ctx, task, ironic.TargetRebuild, options)
}

// prepare tells Ironic what to deploy, and requests its validation. It returns what goes with the request
// for the deployment.
func (d *deployments) prepare(ctx context.Context, task Task) (options ironic.ProvisionOptions, err error) {
	host := task.Host
	if err := d.images.CheckImage(ctx, host.Spec.Image); err != nil {
		return options, &blocked{"spec." + err.Error()}
	}
	pullSecret, err := d.pullSecret(ctx, host)
	if err != nil {
		return options, err
	}
	info, err := deploy.InstanceInfo(host, pullSecret)
	if err != nil {
		return options, &blocked{err.Error()}
	}
	drive, err := d.configDrive(ctx, host)
	if err != nil {
		return options, err
	}
	if err := d.prepareInstance(ctx, task, info); err != nil {
		return options, err
	}
	sent := redact.With(ctx, func(context.Context) (redact.Known, error) {
		return redact.Known{Secrets: redact.SecretsIn(info)}, nil
	})
	wrong, err := d.ironic.Validate(sent, task.Node.UUID, "boot", "deploy")
	if ironic.IsTimeout(err) {
		// It has answered a moment before. The next try waits as long as after any error of the image.
		return options, &blocked{"Ironic cannot deploy the host: " + ironic.ReasonOf(err) + ", as if the server of the image did not answer Ironic"}
	}
	if err != nil {
		return options, err
	}
	if len(wrong) > 0 {
		return options, &blocked{"Ironic cannot deploy the host: " + strings.Join(wrong, "; ")}
	}
	options.DeploySteps = deploy.DeploySteps(host)
	if drive != nil {
		options.ConfigDrive = drive
	}
	return options, nil
}

// lookAgain reads once more the node whose disks are about to be written to, or whose machine is about to be interrupted. If Ironic is slow, or
// the server of the image, what comes before takes half a minute, and a request that rested on the look before it would be refused as too old.
func lookAgain(ctx context.Context, api Ironic, task *Task) (*ironic.Node, error) {
	looked := time.Now().Round(0)
	current, err := api.GetNode(ctx, task.Node.UUID)
	if err != nil {
		return nil, err
	}
	if lifecycle.KeyOfNode(current) != lifecycle.KeyOfNode(task.Node) {
		return nil, ironic.ErrLookedTooLongAgo
	}
	task.Fence.LookedAt = looked
	return current, nil
}

// prepareInstance tells Ironic what to deploy, as far as it does not know that already. Nothing else is
// sent, because a PATCH makes Ironic 29.0.5 take the node for its own parent.
func (d *deployments) prepareInstance(ctx context.Context, task Task, info map[string]any) error {
	host, node := task.Host, task.Node
	current, err := d.ironic.GetRegistration(ctx, node.UUID)
	if err != nil {
		return err
	}
	wanted := lifecycle.InstanceUUID(host)
	newAttempt := current.InstanceUUID != wanted || task.Step.Do == lifecycle.Rebuild
	patches := deploy.InstanceInfoPatches(current.InstanceInfo, info, newAttempt)
	if current.InstanceUUID != wanted {
		if current.InstanceUUID != "" {
			if !lifecycle.IsOwnInstance(host, node.UUID, current.InstanceUUID) {
				return ironic.ErrLookedTooLongAgo // somebody has reserved the node meanwhile
			}
			// That of an earlier attempt. Ironic lets nothing replace it, and wants a PATCH for its removal alone.
			if _, err := d.ironic.UpdateNode(ctx, task.Fence, node.UUID, []ironic.Patch{{Op: ironic.PatchRemove, Path: "/instance_uuid"}}); err != nil {
				return err
			}
		}
		if wanted != "" {
			patches = append(patches, ironic.Patch{Op: ironic.PatchAdd, Path: "/instance_uuid", Value: wanted})
		}
	}
	switch wanted := deploy.DeployInterface(host); {
	case wanted != "" && wanted != current.DeployInterface:
		patches = append(patches, ironic.Patch{Op: ironic.PatchAdd, Path: "/deploy_interface", Value: wanted})
	case wanted == "" && (current.DeployInterface == "ramdisk" || current.DeployInterface == "custom-agent"):
		// What an earlier live ISO or custom procedure left. Ironic puts its default.
		patches = append(patches, ironic.Patch{Op: ironic.PatchRemove, Path: "/deploy_interface"})
	}
	if len(patches) == 0 {
		return nil
	}
	_, err = d.ironic.UpdateNode(ctx, task.Fence, node.UUID, patches)
	return err
}

// provision requests the transition of the step.
func (d *deployments) provision(ctx context.Context, task *Task) error {
	if task.Step.Target == ironic.TargetAdopt {
		if err := d.identify(ctx, task); err != nil {
			return err
		}
		if err := d.prepareAdoption(ctx, *task); err != nil {
			return err
		}
	}
	err := d.request(ctx, task, task.Step.Target, ironic.ProvisionOptions{})
	if ironic.IsWrongState(err) {
		// Somebody was quicker, and the next observation says what to do.
		klog.FromContext(ctx).V(1).Info("The node is in another state by now", "target", task.Step.Target, "err", err)
		return nil
	}
	return err
}

// identify gives what Ironic is to adopt an instance_uuid, if it has none, so that it can be told from what somebody deploys later. It
// is recorded before Ironic is told.
func (d *deployments) identify(ctx context.Context, task *Task) error {
	if !lifecycle.IsIdentified(task.Host, task.Node) {
		host, err := d.asker.recorder.Record(ctx, task.Host, func(h *metal3.BareMetalHost) {
			lifecycle.IdentifyDeployment(h, task.Node, d.asker.clock.Now())
		})
		if err != nil {
			return err
		}
		task.Host, task.Fence = host, task.Fence.At(host.ResourceVersion)
	}
	if task.Node.InstanceUUID != "" || deploy.AsDeployed(task.Host) != nil {
		return nil // it goes with the rest
	}
	_, err := d.ironic.UpdateNode(ctx, task.Fence, task.Node.UUID, []ironic.Patch{{Op: ironic.PatchAdd, Path: "/instance_uuid", Value: lifecycle.InstanceUUID(task.Host)}})
	return err
}

// prepareAdoption tells Ironic what is deployed on a host that it is to adopt. Ironic validates what the
// host boots from where that is not its disk (a live ISO), so it is told first.
func (d *deployments) prepareAdoption(ctx context.Context, task Task) error {
	deployed := deploy.AsDeployed(task.Host)
	if deployed == nil {
		return nil
	}
	if err := d.images.CheckImage(ctx, deployed.Spec.Image); err != nil {
		return &blocked{"status.provisioning." + err.Error()}
	}
	info, err := deploy.InstanceInfo(deployed, "")
	if err != nil {
		return &blocked{err.Error()}
	}
	task.Host = deployed
	return d.prepareInstance(ctx, task, info)
}
