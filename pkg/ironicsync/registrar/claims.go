// SPDX-License-Identifier: Apache-2.0

package registrar

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/hostindex"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
)

// Nodes are the nodes in Ironic as they were last observed.
type Nodes interface {
	// Poll observes all nodes.
	Poll(ctx context.Context) error
	// NodesWithBMC returns the observed nodes whose BMC may be the one with the key, and the time as of
	// which these are all. While asOf is zero, that is not known.
	NodesWithBMC(key bmc.Key) (nodes []ironic.Node, asOf time.Time)
}

// Claims decides which host may have a node, and which host may have a BMC.
type Claims struct {
	hosts *hostindex.Index
	nodes Nodes
	// elsewhere reports the nodes of all other Ironics whose BMC may be the one with the key.
	elsewhere func(key bmc.Key) lifecycle.Elsewhere
}

// NewClaims returns Claims of the given hosts on the nodes of an Ironic. elsewhere tells of the nodes of all other Ironics whose
// BMC may be the one with the key.
func NewClaims(hosts *hostindex.Index, nodes Nodes, elsewhere func(key bmc.Key) lifecycle.Elsewhere) *Claims {
	return &Claims{hosts, nodes, elsewhere}
}

// without returns the hosts without host.
func without(host *metal3.BareMetalHost, hosts []*metal3.BareMetalHost) []*metal3.BareMetalHost {
	var others []*metal3.BareMetalHost
	for _, other := range hosts {
		if other.Namespace != host.Namespace || other.Name != host.Name {
			others = append(others, other)
		}
	}
	return others
}

// IsNodeOfAnother reports whether another host owns the node: the node bears its name or is
// marked with its UID, or its status has the node, which this host has neither by name nor
// by mark. The marks of hosts that are gone do not count.
func (c *Claims) IsNodeOfAnother(host *metal3.BareMetalHost, node *lifecycle.Node) bool {
	if ironic.IsNameOfAnother(node.Name, host.Namespace, host.Name) {
		return true
	}
	others := without(host, append(c.hosts.WithUID(node.MarkedHost), c.hosts.WithNode(node.UUID)...))
	return slices.ContainsFunc(others, func(other *metal3.BareMetalHost) bool { return lifecycle.HasNodeOf(other, host, node) })
}

// canAdopt reports whether a node that was not created for the host may become its node: no host has it,
// and Ironic talks to the host's BMC for it. (Whoever knows a MAC address of a machine does not get its node, and that Ironic
// does not say which BMC a node has is no proof that it is this one.) Nothing was tried with it for another user of Ironic.
func (c *Claims) canAdopt(host *metal3.BareMetalHost, node *ironic.Node) bool {
	return !c.IsNodeOfAnother(host, lifecycle.NodeFromIronic(node)) && lifecycle.KeyOfNode(node).Matches(lifecycle.BMCKey(host)) &&
		!lifecycle.HasFailedForAnother(host, node)
}

// RivalsOf returns what is known of others that may have the BMC of a host, or its machine.
func (c *Claims) RivalsOf(host *metal3.BareMetalHost) lifecycle.Rivals {
	key := lifecycle.BMCKey(host)
	rivals := lifecycle.Rivals{SameBMC: c.SharingBMC(host), Alike: c.hosts.Alike(host), OfSpec: c.nodesWithBMC(key)}
	rivals.OfNode = rivals.OfSpec
	if node := lifecycle.NodeOf(&host.Status); node != nil && node.BMC != key {
		rivals.OfNode = c.nodesWithBMC(node.BMC)
	}
	return rivals
}

func (c *Claims) nodesWithBMC(key bmc.Key) lifecycle.NodesWithBMC {
	nodes, asOf := c.nodes.NodesWithBMC(key)
	return lifecycle.NodesWithBMC{Nodes: nodes, AsOf: asOf, Elsewhere: c.elsewhere(key)}
}

// HasBMCToItself reports whether no other host or node has the BMC of host, as Ironic says now:
// what was read earlier does not have a node that the server of another cluster has created
// since. Of two servers that verify a BMC at the same moment and then ask for this, at least
// one sees the other's node.
func (c *Claims) HasBMCToItself(ctx context.Context, host *metal3.BareMetalHost) (bool, error) {
	if err := c.observeNodes(ctx); err != nil {
		return false, err
	}
	return lifecycle.ClaimOf(host, c.RivalsOf(host)).SameBMC == "", nil
}

func (c *Claims) observeNodes(ctx context.Context) error {
	var partial *live.PartialError // some status was not recorded; the nodes were read
	if err := c.nodes.Poll(ctx); err != nil && !errors.As(err, &partial) {
		return fmt.Errorf("finding out which nodes have the host's BMC: %w", err)
	}
	return nil
}

// SharingBMC returns the other hosts whose BMC may be that of host, or the one that it keeps.
func (c *Claims) SharingBMC(host *metal3.BareMetalHost) []*metal3.BareMetalHost {
	return without(host, slices.Concat(c.hosts.WithBMC(lifecycle.BMCKey(host)), c.hosts.WithBMC(lifecycle.KeptBMC(host))))
}

// describeOwner names the owner of a node to the user of host, who may not be allowed to read other
// namespaces, and knows no nodes but those of hosts. The log names the node to operators.
func (c *Claims) describeOwner(ctx context.Context, host *metal3.BareMetalHost, uuid string) string {
	klog.FromContext(ctx).Info("Another node has the MAC address", "other", uuid)
	owners := c.hosts.WithNode(uuid)
	if len(owners) == 0 {
		return "a node in Ironic that no host has"
	}
	return describe(owners[0], host)
}

// describeOther names another host whose machine was found to have a network card with the MAC address to the user of host; empty if
// there is none. (What only the spec, an annotation or an object says of a host can be anything.)
func (c *Claims) describeOther(host *metal3.BareMetalHost, mac string) string {
	for _, other := range without(host, c.hosts.WithMAC(mac)) {
		if lifecycle.WasInspected(other) && !other.IsDetached() && lifecycle.HasNIC(other.Status.HardwareDetails, mac) {
			return describe(other, host)
		}
	}
	return ""
}

// describe names a host to the user of another one.
func describe(other, host *metal3.BareMetalHost) string {
	if other.Namespace == host.Namespace {
		return fmt.Sprintf("host %s/%s", other.Namespace, other.Name)
	}
	return "a host in another namespace"
}
