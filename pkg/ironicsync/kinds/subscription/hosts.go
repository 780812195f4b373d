// SPDX-License-Identifier: Apache-2.0

package subscription

import (
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// HostChanged requeues the subscriptions of a host if the change matters to them. They are looked for at
// the BMC if that may have forgotten them. old or host is nil if the host was created or
// deleted.
func (c *Controller) HostChanged(old, host *metal3.BareMetalHost) {
	returned := old != nil && host != nil && hasReturned(old, host)
	if old != nil && host != nil && !returned && isReady(old) == isReady(host) && metal3.IsPaused(old) == metal3.IsPaused(host) &&
		lifecycle.MayGetOwnNode(old) == lifecycle.MayGetOwnNode(host) {
		return
	}
	if host == nil {
		host = old
	}
	if returned {
		c.bmcs.Reset(kinds.NodeOf(host))
	}
	for _, subscription := range c.ByIndex(byHost, host.Namespace+"/"+host.Name) {
		if returned {
			c.setDue(subscription, c.Clock.Now())
		}
		c.Enqueue(subscription.Namespace, subscription.Name)
	}
}

// SecretChanged requeues the subscriptions that wait for a Secret. Those that exist are not touched: a BMC cannot change the headers of a subscription.
func (c *Controller) SecretChanged(namespace, name string) {
	for _, subscription := range c.ByIndex(bySecret, namespace+"/"+name) {
		if subscription.Status.SubscriptionID == "" || subscription.Status.Error != "" {
			c.Enqueue(subscription.Namespace, subscription.Name)
		}
	}
}

// hasReturned reports whether a host, or its BMC, is back from where it may have forgotten its
// subscriptions: it is registered again, perhaps with another BMC, or Ironic reaches its BMC again.
func hasReturned(old, host *metal3.BareMetalHost) bool {
	return isReady(host) && (!isReady(old) ||
		old.Status.Provisioning.ID != host.Status.Provisioning.ID ||
		old.Status.GoodCredentials.Version != host.Status.GoodCredentials.Version)
}

// isReady reports whether Ironic can be asked to talk to the host's BMC.
func isReady(host *metal3.BareMetalHost) bool {
	node := host.Status.Ironic
	if node == nil || !lifecycle.HasOwnNode(host) || host.IsDetached() {
		return false
	}
	switch ironic.ProvisionState(node.ProvisionState) {
	case ironic.Enroll, ironic.Verifying:
		return false
	}
	return node.Fault != ironic.FaultPowerFailure
}
