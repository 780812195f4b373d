package drive

import (
	"context"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// refreshSecrets reads the Secrets of a host that may have changed since they were last
// read: that of its BMC, and while the host has an error also the others, because a
// change of one of them may end it.
func (c *Controller) refreshSecrets(ctx context.Context, host *metal3.BareMetalHost) error {
	if host.Status.ErrorType != "" {
		return c.secrets.RefreshAll(ctx, host)
	}
	return c.secrets.Refresh(ctx, host.Namespace, host.Spec.BMC.CredentialsName)
}

// situation gathers what lifecycle.Next decides by. For retryNow see backoff.hold.
func (c *Controller) situation(host *metal3.BareMetalHost, node *ironic.Node, hasHardware bool, bios firmwareOf) (s lifecycle.Situation, retryNow bool) {
	s = lifecycle.Situation{
		Host: host, Node: node, Firmware: bios.settings, Schema: bios.schema, Components: bios.components,
		Policy: bios.policy, CanService: bios.canService, CanAbortService: bios.canAbortService, RAIDAlone: bios.raidAlone,
		SecretVersion:               c.secrets.Version(host.Namespace, host.Spec.BMC.CredentialsName),
		NetworkVersion:              c.secrets.NetworkVersion(host),
		Image:                       c.imageOf(host),
		HasHardwareData:             hasHardware,
		SettingsDigest:              c.settingsDigest,
		MaxRetries:                  c.settings.MaxProvisioningRetries,
		ProvisioningNetworkDisabled: c.settings.ProvisioningNetworkDisabled,
		Cluster:                     c.settings.Cluster,
		Restored:                    c.restored(),
		NodeOfAnother:               node != nil && c.isNodeOfAnother(host, node),
		NodesWithSameBMC:            node != nil && c.hasOtherNodeWithBMC(host, node),
		SameBMC:                     c.sameBMC(host),
	}
	versions := c.secrets.Versions(host)
	if bios.generation > 0 {
		versions["HostFirmwareSettings"] = strconv.FormatInt(bios.generation, 10) // another spec ends a wait, too
	}
	if bios.componentsGeneration > 0 {
		versions["HostFirmwareComponents"] = strconv.FormatInt(bios.componentsGeneration, 10)
	}
	c.backoffOf(types.NamespacedName{Namespace: host.Namespace, Name: host.Name}, func(b *backoff) {
		s.Hold, retryNow = b.hold(host, versions, time.Now())
	})
	return s, retryNow
}

// backoffOf calls use with what is remembered of a host's failure.
func (c *Controller) backoffOf(key types.NamespacedName, use func(*backoff)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.backoffs[key]
	if b == nil {
		b = &backoff{}
		c.backoffs[key] = b
	}
	use(b)
}
