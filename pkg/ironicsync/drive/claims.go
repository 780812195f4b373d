package drive

import (
	"context"
	"errors"
	"fmt"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
)

// others returns the other hosts that an index of the informer has under value.
func (c *Controller) others(host *metal3.BareMetalHost, index, value string) []*metal3.BareMetalHost {
	found, err := c.informer.GetIndexer().ByIndex(index, value)
	if err != nil {
		return nil // there is such an index
	}
	var others []*metal3.BareMetalHost
	for _, obj := range found {
		if other := obj.(*metal3.BareMetalHost); other.Namespace != host.Namespace || other.Name != host.Name {
			others = append(others, other)
		}
	}
	return others
}

// isNodeOfAnother tells whether another host owns the node: the node bears its name or is
// marked with its UID, or its status has the node, which this host has neither by name nor
// by mark. The marks of hosts that are gone do not count.
func (c *Controller) isNodeOfAnother(host *metal3.BareMetalHost, node *ironic.Node) bool {
	mark := string(node.Marks.Host)
	switch {
	case node.IsAnothers(host.Namespace, host.Name):
		return true
	case mark == string(host.UID):
		return false
	case mark != "" && len(c.others(host, byUID, mark)) > 0:
		return true
	case node.Name == lifecycle.NodeName(host):
		return false
	}
	for _, other := range c.others(host, byNodeUUID, node.UUID) {
		if host.Status.Provisioning.ID != node.UUID || cameBefore(other, host) {
			return true
		}
	}
	return false
}

// mayTake tells whether a node that was not made for the host may become its: nobody has it,
// and Ironic was told of no other BMC for it. (Who knows a MAC address of a machine does not
// get its node.)
func (c *Controller) mayTake(host *metal3.BareMetalHost, node *ironic.Node) bool {
	told := lifecycle.KeyOfNode(node)
	return !c.isNodeOfAnother(host, node) && (told.IsZero() || told.Matches(lifecycle.BMCKey(host)))
}

// cameBefore tells which of two hosts has the better claim to something that both want.
func cameBefore(a, b *metal3.BareMetalHost) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.UID < b.UID
}

// sameBMC says which other host, or which node in Ironic that is no host's, has the BMC of
// host, for its user, who may not be allowed to read other namespaces. It is empty if
// nothing has, or if host had it first. Two hosts on one machine would inspect, clean and
// switch it off under each other.
func (c *Controller) sameBMC(host *metal3.BareMetalHost) string {
	key := lifecycle.BMCKey(host)
	if key.IsZero() {
		return ""
	}
	const advice = ": correct spec.bmc.address, or delete one of them"
	for _, other := range c.withBMC(host, key) {
		if other.Namespace != host.Namespace && !isRegisteredAt(other) || hasBetterClaim(host, other) {
			continue // who only writes the address of a BMC keeps it from nobody in another namespace
		}
		if other.Namespace == host.Namespace {
			return fmt.Sprintf("Host %q in this namespace has the same BMC%s", other.Name, advice)
		}
		return "A host in another namespace has the same BMC" + advice
	}
	if lifecycle.RecordedNode(host) != nil && !isEnrolling(host) {
		return "" // it has its machine
	}
	for _, node := range c.refresher.NodesWithBMC(key) {
		switch {
		case node.UUID == host.Status.Provisioning.ID, node.Name == lifecycle.NodeName(host):
			continue // it is this host's
		case node.ProvisionState == ironic.Enroll, node.ProvisionState == ironic.Verifying:
			continue // whoever has made it need not have the credentials, and nothing is done with it
		case host.Status.Provisioning.ID == "" && (node.Name == "" || node.Name == host.Name):
			continue // which the host takes over, if it may
		}
		return fmt.Sprintf("A node in Ironic that is not this host's has the BMC %s%s", key, advice)
	}
	return ""
}

// hasOtherNodeWithBMC tells whether Ironic has verified the BMC of the host's node for another
// node, too: an operator has made it, or has pointed it there.
func (c *Controller) hasOtherNodeWithBMC(host *metal3.BareMetalHost, node *ironic.Node) bool {
	key := lifecycle.KeyOfNode(node)
	for _, other := range c.refresher.NodesWithBMC(key) {
		switch {
		case other.UUID == node.UUID, other.Name == lifecycle.NodeName(host), lifecycle.KeyOfNode(&other) != key:
		case other.ProvisionState == ironic.Enroll, other.ProvisionState == ironic.Verifying:
		default:
			return true
		}
	}
	return false
}

// isEnrolling tells whether nothing but the verification of its BMC was done for a host.
func isEnrolling(host *metal3.BareMetalHost) bool {
	switch host.Status.Provisioning.State {
	case metal3.StateNone, metal3.StateUnmanaged, metal3.StateRegistering:
		return true
	}
	return false
}

// hasBMCToItself tells whether no other host or node has the BMC of host, as Ironic says now:
// what was read earlier does not have a node that the server of another cluster has created
// since. Of two servers that verify a BMC at the same moment and then ask for this, at least
// one sees the other's node.
func (c *Controller) hasBMCToItself(ctx context.Context, host *metal3.BareMetalHost) (bool, error) {
	var partial *live.PartialError // some status was not recorded; the nodes were read
	if err := c.refresher.Poll(ctx); err != nil && !errors.As(err, &partial) {
		return false, fmt.Errorf("finding out which nodes have the host's BMC: %w", err)
	}
	return c.sameBMC(host) == "", nil
}

// hasBetterClaim tells whether host has the BMC rather than other: because it alone is
// registered with it, or because it was created first.
func hasBetterClaim(host, other *metal3.BareMetalHost) bool {
	has, otherHas := isRegisteredAt(host), isRegisteredAt(other)
	if has != otherHas {
		return has
	}
	return cameBefore(host, other)
}

// isRegisteredAt tells whether Ironic has verified the credentials of the BMC in the host's
// spec. It goes by what only the server records: the state can come from an annotation.
func isRegisteredAt(host *metal3.BareMetalHost) bool {
	with := host.Status.RegisteredWith
	if with == nil || with.BMC != "" && with.BMC != lifecycle.BMCKey(host).String() {
		return false
	}
	if lifecycle.IsDetached(host) {
		return host.Status.GoodCredentials.Reference != nil
	}
	node := lifecycle.RecordedNode(host)
	return node != nil && node.ProvisionState != ironic.Enroll && node.ProvisionState != ironic.Verifying
}

// bmcIndex is the index of hosts by their BMC. A Redfish service may have thousands of
// systems, which have nothing to do with each other.
func bmcIndex(obj any) ([]string, error) {
	return lifecycle.BMCKey(obj.(*metal3.BareMetalHost)).IndexValues(), nil
}

// withBMC returns the other hosts whose BMC may be the one with the key.
func (c *Controller) withBMC(host *metal3.BareMetalHost, key bmc.Key) []*metal3.BareMetalHost {
	var found []*metal3.BareMetalHost
	for _, value := range key.LookupValues() {
		for _, other := range c.others(host, byBMC, value) {
			if lifecycle.BMCKey(other).Matches(key) {
				found = append(found, other)
			}
		}
	}
	return found
}

// planSharers has the hosts planned anew that have waited for the BMC of host.
func (c *Controller) planSharers(host *metal3.BareMetalHost) {
	for _, other := range c.withBMC(host, lifecycle.BMCKey(host)) {
		c.enqueue(other)
	}
}
