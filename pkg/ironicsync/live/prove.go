// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// Prover finds out whose a node is that Ironic has just returned.
type Prover struct {
	hosts   Hosts
	cluster func() string
}

// NewProver returns a Prover of nodes of the hosts. Cluster is that of Deps.
func NewProver(hosts Hosts, cluster func() string) Prover {
	return Prover{hosts, cluster}
}

// WhyUnproven tells the user of a host why nothing may be shown of a node that Ironic has just returned, or done with it,
// on the host's behalf; see lifecycle.WhyUnproven. It is empty if the node is the host's, whatever is recorded.
func (p Prover) WhyUnproven(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node) (why string, err error) {
	if why := lifecycle.WhyUnproven(host, node, p.cluster()); why != "" {
		return why, nil
	}
	return p.whyAnothers(ctx, host, node)
}

// WhyUnconfirmable tells the user of a host why nobody can confirm that the node is the host's; empty if a person can.
func (p Prover) WhyUnconfirmable(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node) (why string, err error) {
	if why := lifecycle.WhyUnconfirmable(host, node); why != "" {
		return why, nil
	}
	return p.whyAnothers(ctx, host, node)
}

// whyAnothers says that another host of this cluster has the node. The hosts are listed only for a node that does not say
// whose it is, by its name and its marks.
func (p Prover) whyAnothers(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node) (why string, err error) {
	seen := lifecycle.NodeFromIronic(node)
	if !lifecycle.MayBeOfAnotherHost(host, seen) {
		return "", nil
	}
	hosts, err := p.hosts.List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("finding out whether another host has node %s: %w", node.UUID, err)
	}
	for i := range hosts.Items {
		if other := &hosts.Items[i]; other.UID != host.UID && lifecycle.HasNodeOf(other, host, seen) {
			return lifecycle.NodeOfAnotherHost, nil
		}
	}
	return "", nil
}
