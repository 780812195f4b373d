// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// NodeGetter reads nodes from Ironic.
type NodeGetter interface {
	GetNode(ctx context.Context, idOrName string) (*ironic.Node, error)
}

// Prove tells why nothing may be asked of a node on behalf of a host, because it is not proven that it is the host's; empty if it
// is. The node must be as Ironic has just returned it.
type Prove func(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node) (why string, err error)

// UnprovenError says that it is not proven that a node is the host's.
type UnprovenError struct{ why string }

// Error implements error. The text is for the user of the host, and reveals nothing of a node of others.
func (e *UnprovenError) Error() string { return e.why }

// Nodes gives access to the nodes of hosts. I has the requests to Ironic that a controller makes.
type Nodes[I NodeGetter] struct {
	// Ironic returns the Ironic that has the node of a host.
	Ironic func(host *metal3.BareMetalHost) (I, error)
	Prove  Prove
	// Guard returns a context for requests about a host, in whose errors there is no password of its BMC.
	Guard func(ctx context.Context, host *metal3.BareMetalHost) context.Context
	// Fence has the term of leadership in which the controller runs.
	Fence ironic.Fence
}

// Proven returns the Ironic of a host, and the host's node as that has it now. The error is an *UnprovenError if it may not
// be the host's: what is recorded of a node proves nothing, because the node may have been given to another host since.
func (n *Nodes[I]) Proven(ctx context.Context, host *metal3.BareMetalHost) (client I, node *ironic.Node, err error) {
	if client, err = n.Ironic(host); err != nil {
		return client, nil, err
	}
	if node, err = client.GetNode(ctx, host.Status.Provisioning.ID); err != nil {
		return client, nil, err
	}
	why, err := n.Prove(ctx, host, node)
	switch {
	case err != nil:
		return client, nil, err
	case why != "":
		return client, nil, &UnprovenError{why}
	}
	return client, node, nil
}

// Hosts are the recorded hosts.
type Hosts interface {
	Getter[*metal3.BareMetalHost]
	// Cached returns the host as the watch cache has it, which must not be changed; nil if that does not have it.
	Cached(ctx context.Context, namespace, name string) *metal3.BareMetalHost
}

// IronicOf returns, for objects with the names of hosts, the name of the Ironic that has a host's node, as far as is known
// without asking etcd; empty for that of the server's flags, and for a host that does not exist.
func IronicOf(hosts Hosts) func(ctx context.Context, key types.NamespacedName) string {
	return func(ctx context.Context, key types.NamespacedName) string {
		if host := hosts.Cached(ctx, key.Namespace, key.Name); host != nil {
			return host.Status.Record.Ironic
		}
		return ""
	}
}
