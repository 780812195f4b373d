package drive

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// deploy tells Ironic what to deploy, has it validated, and deployed. Until the
// last request the node is available, and all of it is done again after a crash.
func (c *Controller) deploy(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, _ lifecycle.Step) error {
	options, err := c.prepareDeployment(ctx, host, node)
	if err != nil {
		return err
	}
	// The Secrets and the validation have taken time.
	if err := c.confirmAvailable(ctx, host, node.UUID); err != nil {
		return err
	}
	return c.ironic.SetProvisionState(ctx, node.UUID, ironic.TargetActive, options)
}

// rebuild is deploy for a node that is deployed already. It may be asked for once only, so the node
// must be as it was when it was requested, or the rebuild must have failed.
func (c *Controller) rebuild(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, _ lifecycle.Step) error {
	options, err := c.prepareDeployment(ctx, host, node)
	if err != nil {
		return err
	}
	now, err := c.ironic.GetNode(ctx, node.UUID)
	if err != nil {
		return err
	}
	requested := host.Status.Deployment.Rebuild
	switch {
	case now.ProvisionState != node.ProvisionState, now.InstanceUUID != lifecycle.InstanceUUID(host),
		now.ProvisionState == ironic.Active && (requested == nil || lifecycle.HasRebuildBegun(requested, now)):
		return errLookedTooLongAgo
	}
	return c.ironic.SetProvisionState(ctx, node.UUID, ironic.TargetRebuild, options)
}

// prepareDeployment tells Ironic what to deploy, and has it validated. It returns what goes with the
// request for the deployment.
func (c *Controller) prepareDeployment(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node) (options ironic.ProvisionOptions, err error) {
	if err := c.checkImage(ctx, host); err != nil {
		return options, err
	}
	pullSecret, err := c.pullSecret(ctx, host)
	if err != nil {
		return options, err
	}
	info, err := deploy.InstanceInfo(host, pullSecret)
	if err != nil {
		return options, &blocked{err.Error()}
	}
	drive, err := c.configDrive(ctx, host)
	if err != nil {
		return options, err
	}
	if err := c.prepareInstance(ctx, host, node, info); err != nil {
		return options, err
	}
	wrong, err := c.ironic.Validate(ctx, node.UUID, "boot", "deploy")
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

// confirmAvailable looks once more at the node whose disks are about to be written to.
func (c *Controller) confirmAvailable(ctx context.Context, host *metal3.BareMetalHost, uuid string) error {
	now, err := c.ironic.GetNode(ctx, uuid)
	switch {
	case err != nil:
		return err
	case now.ProvisionState != ironic.Available, now.InstanceUUID != lifecycle.InstanceUUID(host):
		return errLookedTooLongAgo
	}
	return nil
}

// adopt has Ironic take the host for deployed. Ironic validates what the host boots
// from where that is not its disk (a live ISO), so it is told first.
func (c *Controller) adopt(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node) error {
	if deployed := asDeployed(host); deployed != nil {
		if err := c.checkImage(ctx, deployed); err != nil {
			return err
		}
		info, err := deploy.InstanceInfo(deployed, "")
		if err != nil {
			return &blocked{err.Error()}
		}
		if err := c.prepareInstance(ctx, deployed, node, info); err != nil {
			return err
		}
	}
	return c.askFor(ctx, node, ironic.TargetAdopt)
}

// asDeployed is a provisioned host whose spec is what was deployed on it, or nil
// where nothing of ours was.
func asDeployed(host *metal3.BareMetalHost) *metal3.BareMetalHost {
	if host.Status.Provisioning.State != metal3.StateProvisioned || !deploy.Deployed(host) {
		return nil
	}
	deployed := host.DeepCopy()
	deployed.Spec.CustomDeploy = host.Status.Provisioning.CustomDeploy.DeepCopy()
	deployed.Spec.Image = nil
	if image := host.Status.Provisioning.Image; image.URL != "" {
		deployed.Spec.Image = image.DeepCopy()
	}
	return deployed
}

// prepareInstance tells Ironic what to deploy, as far as it does not know that already;
// see updateRegistration for why nothing else is sent.
func (c *Controller) prepareInstance(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, info map[string]any) error {
	current, err := c.ironic.GetRegistration(ctx, node.UUID)
	if err != nil {
		return err
	}
	patches := deploy.InstanceInfoPatches(current.InstanceInfo, info)
	if wanted := lifecycle.InstanceUUID(host); current.InstanceUUID != wanted {
		if current.InstanceUUID != "" {
			// That of an earlier deployment. Ironic lets nothing replace it, and wants a PATCH for its removal alone.
			if _, err := c.ironic.UpdateNode(ctx, node.UUID, []ironic.Patch{{Op: ironic.PatchRemove, Path: "/instance_uuid"}}); err != nil {
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
	_, err = c.ironic.UpdateNode(ctx, node.UUID, patches)
	return err
}

// configDrive reads the Secrets of the config drive and puts it together.
func (c *Controller) configDrive(ctx context.Context, host *metal3.BareMetalHost) (map[string]any, error) {
	var sources deploy.ConfigSources
	named := deploy.ConfigSecrets(host)
	for role, into := range map[deploy.ConfigRole]*map[string][]byte{
		deploy.UserData: &sources.UserData, deploy.NetworkData: &sources.NetworkData, deploy.MetaData: &sources.MetaData,
		deploy.PreprovisioningNetworkData: &sources.PreprovisioningNetworkData,
	} {
		name, ok := named[role]
		if !ok {
			continue
		}
		secret, err := c.secrets.Data(ctx, host.Namespace, name)
		if apierrors.IsNotFound(err) {
			return nil, &blocked{fmt.Sprintf("Secret %q with the %s does not exist in namespace %q", name, role, host.Namespace)}
		}
		if err != nil {
			return nil, fmt.Errorf("reading Secret %s/%s with the %s: %w", host.Namespace, name, role, err)
		}
		*into = secret.Data
	}
	drive, err := deploy.ConfigDrive(host, sources)
	if err != nil {
		return nil, &blocked{err.Error()}
	}
	return drive, nil
}

// pullSecret reads the credentials for the registry of an image; empty when the
// host names none.
func (c *Controller) pullSecret(ctx context.Context, host *metal3.BareMetalHost) (string, error) {
	image := host.Spec.Image
	if image == nil || image.OCIAuthSecretName == nil || *image.OCIAuthSecretName == "" {
		return "", nil
	}
	secret, err := c.secrets.Data(ctx, host.Namespace, *image.OCIAuthSecretName)
	if apierrors.IsNotFound(err) {
		return "", &blocked{fmt.Sprintf("Secret %q with the registry's credentials does not exist in namespace %q", *image.OCIAuthSecretName, host.Namespace)}
	}
	if err != nil {
		return "", fmt.Errorf("reading Secret %s/%s with the registry's credentials: %w", host.Namespace, *image.OCIAuthSecretName, err)
	}
	credentials, err := deploy.PullSecret(image.URL, string(secret.Type), secret.Data)
	if err != nil {
		return "", &blocked{fmt.Sprintf("Secret %q: %s", *image.OCIAuthSecretName, err)}
	}
	return credentials, nil
}

// provision asks for the transition of the step.
func (c *Controller) provision(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, step lifecycle.Step) error {
	if step.Target == ironic.TargetAdopt {
		return c.adopt(ctx, host, node)
	}
	return c.askFor(ctx, node, step.Target)
}

// askFor asks for a transition. That the node is not in the state any more
// that the verb starts from is no error: somebody was quicker, and the next
// observation says what to do.
func (c *Controller) askFor(ctx context.Context, node *ironic.Node, target ironic.ProvisionTarget) error {
	err := c.ironic.SetProvisionState(ctx, node.UUID, target, ironic.ProvisionOptions{})
	if ironic.IsWrongState(err) {
		klog.FromContext(ctx).V(1).Info("The node is in another state by now", "target", target, "err", err)
		return nil
	}
	return err
}

// switchPower asks for a power state.
func (c *Controller) switchPower(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, step lifecycle.Step) error {
	target := step.Power
	if target == ironic.TargetPowerOn {
		if err := c.prepareDrive(ctx, host); err != nil {
			return err
		}
	}
	used, softRefusal, err := c.ironic.SwitchPower(ctx, node.UUID, target)
	if err != nil {
		return err
	}
	switch target {
	case ironic.TargetPowerOn:
		powerChanges.WithLabelValues("on").Inc()
	case ironic.TargetPowerOff, ironic.TargetSoftPowerOff:
		powerChanges.WithLabelValues("off").Inc()
	}
	if used != target {
		klog.FromContext(ctx).Info("The operating system cannot be asked to shut down, the power is cut", "target", target, "used", used, "refusal", softRefusal)
	}
	if target != ironic.TargetReboot && target != ironic.TargetSoftReboot {
		return nil
	}
	// The host is never off, so nothing else would tell that it was rebooted.
	asked := host.Annotations[metal3.RebootAnnotation]
	return c.recordWhileTrue(ctx, host, func(h *metal3.BareMetalHost) bool {
		value, asks := h.Annotations[metal3.RebootAnnotation]
		return asks && value == asked
	}, lifecycle.RemoveRebootAnnotation)
}
