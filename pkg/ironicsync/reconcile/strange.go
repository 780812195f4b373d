// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/hostindex"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// strangeness reports whether an Ironic is another one than the one in which hosts were registered, because its address was
// changed, or leads elsewhere by now. To such an Ironic, the nodes of all hosts seem to be lost, and the hosts would be
// registered in it while their own Ironic goes on to manage the machines.
type strangeness struct {
	name    string // of the Ironic
	cluster string // UID of this cluster; empty if it is not known
	nodes   allNodes
	hosts   *hostindex.Index

	// With thousands of hosts that have lost their nodes, thousands of nodes are looked at once for each observation of them.
	mu      sync.Mutex
	asOf    time.Time
	strange bool
}

// allNodes are the nodes of an Ironic as they were last read.
type allNodes interface {
	// CountNodes returns how many there are, and the time as of which these are all; zero if that is not known.
	CountNodes() (nodes int, asOf time.Time)
	// HasNodeOf reports whether the node of a host was there when all nodes were last read.
	HasNodeOf(host *metal3.BareMetalHost) bool
	// SomeNode reports whether something is so of any of them.
	SomeNode(is func(*ironic.Node) bool) bool
}

// of reports whether the Ironic, which has no node of host, is another one. unknown is set if the nodes have to be read first,
// because what was last read of them is from before the host's node was lost.
func (s *strangeness) of(host *metal3.BareMetalHost) (strange, unknown bool) {
	_, asOf := s.nodes.CountNodes()
	if asOf.IsZero() || s.nodes.HasNodeOf(host) {
		return false, lifecycle.IsNodeExpected(host)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !asOf.Equal(s.asOf) {
		s.asOf, s.strange = asOf, s.isStrange()
	}
	return s.strange, false
}

// isStrange goes by whose the nodes are: some are others', and none is of a host that has its node in this Ironic, although there
// are such hosts. An Ironic that has lost its database has no nodes, or those that were registered since.
func (s *strangeness) isStrange() bool {
	if len(s.hosts.Namespaces(s.name, registeredHosts)) == 0 {
		return false
	}
	strange := false
	ours := s.nodes.SomeNode(func(node *ironic.Node) bool {
		ours, others := s.whose(node)
		strange = strange || others
		return ours
	})
	return strange && !ours
}

// whose reports whether a node is of a host of this Ironic, or of others: of a host of another Ironic of this server, or of
// another cluster. A node that is neither can be one of an operator, or be left over from a host that is gone.
func (s *strangeness) whose(node *ironic.Node) (ours, others bool) {
	hosts := append(s.hosts.WithNode(node.UUID), s.hosts.WithUID(string(node.Marks.Host))...)
	isMarked := node.Marks != ironic.Marks{}
	namespace, name, isNamed := strings.Cut(node.Name, "~")
	if isNamed && !isMarked { // another cluster may have a host of the same name
		if host := s.hosts.Get(types.NamespacedName{Namespace: namespace, Name: name}); host != nil {
			hosts = append(hosts, host)
		}
	}
	isHere := func(host *metal3.BareMetalHost) bool { return host.Status.Record.Ironic == s.name }
	switch {
	case slices.ContainsFunc(hosts, isHere):
		return true, false
	case len(hosts) > 0:
		return false, true
	case isMarked:
		return false, s.cluster != "" && node.Marks.Cluster != "" && string(node.Marks.Cluster) != s.cluster
	}
	return false, isNamed // by the Bare Metal Operator, which does not mark nodes
}
