// SPDX-License-Identifier: Apache-2.0

package index

import (
	"slices"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// knownNodes are the part of an Index that knows the nodes.
type knownNodes struct {
	*shared
	// changed is told, while mu is held, of each node that has other contents than before, or is gone.
	changed func(uuid string)

	nodes map[string]*seenNode // by UUID
	// byBMC holds the UUIDs of the nodes by the host and port of their BMC.
	byBMC map[string]map[string]bool
	// restless holds the UUIDs of the nodes of which mayChangeUnseen is true.
	restless map[string]bool
	// generation is that of the entry of nodes that has changed last.
	generation uint64
	// asOf is the time, by our clock, at which all nodes were known; zero if they never were.
	asOf time.Time
}

func newKnownNodes(all *shared, changed func(uuid string)) knownNodes {
	return knownNodes{shared: all, changed: changed, nodes: map[string]*seenNode{}, byBMC: map[string]map[string]bool{}, restless: map[string]bool{}}
}

// seenNode is a node as it was last read.
type seenNode struct {
	node ironic.Node
	// generation changes whenever the contents of the node change.
	generation uint64
	// feed is the number of the latest read of the feed that contained the node; 0 if none
	// did. (The node's updated_at does not tell which contents are newer: it goes back when
	// a conductor's clock is corrected.)
	feed uint64
	// sweeps is the number of sweeps that had begun when the feed last contained the node.
	sweeps uint64
}

// set stores the node. n.mu is held.
func (n *knownNodes) set(node *ironic.Node) {
	seen := n.nodes[node.UUID]
	if seen != nil && node.Unreadable != "" {
		node = lastRead(&seen.node, node)
	}
	if seen == nil {
		seen = &seenNode{}
		n.nodes[node.UUID] = seen
	}
	if seen.generation == 0 || !seen.node.SameContent(node) {
		n.generation++
		seen.generation = n.generation
		n.changed(node.UUID)
	}
	if mayChangeUnseen(node) {
		n.restless[node.UUID] = true
	} else {
		delete(n.restless, node.UUID)
	}
	if seen.node.Address != node.Address {
		n.indexBMC(&seen.node, false)
		n.indexBMC(node, true)
	}
	seen.node = *node
}

// indexBMC adds the node to byBMC, or removes it from there. n.mu is held.
func (n *knownNodes) indexBMC(node *ironic.Node, add bool) {
	for _, value := range lifecycle.ToldKeyOfNode(node).IndexValues() {
		nodes := n.byBMC[value]
		switch {
		case add && nodes == nil:
			n.byBMC[value] = map[string]bool{node.UUID: true}
		case add:
			nodes[node.UUID] = true
		default:
			delete(nodes, node.UUID)
			if len(nodes) == 0 {
				delete(n.byBMC, value)
			}
		}
	}
}

// remove removes a node. n.mu is held.
func (n *knownNodes) remove(seen *seenNode) {
	id := seen.node.UUID
	n.indexBMC(&seen.node, false)
	delete(n.nodes, id)
	delete(n.restless, id)
	n.changed(id)
}

// lastRead returns a node that Ironic cannot show as it was last read, with what Ironic shows of it all the same. What has become of
// its state since is not known.
func lastRead(was, is *ironic.Node) *ironic.Node {
	node := *was
	node.Unreadable, node.ProvisionState = is.Unreadable, ""
	if !isUnidentified(is) {
		node.Name, node.Driver, node.Address, node.Marks = is.Name, is.Driver, is.Address, is.Marks
	}
	return &node
}

// isUnidentified reports whether Ironic does not even say whose a node is, and which BMC it has: each node has a driver.
func isUnidentified(node *ironic.Node) bool { return node.Unreadable != "" && node.Driver == "" }

// isIdentified reports whether it is known of all nodes which BMC they have. n.mu is held.
func (n *knownNodes) isIdentified() bool {
	for id := range n.restless {
		if isUnidentified(&n.nodes[id].node) { // it never was read
			return false
		}
	}
	return true
}

// Unreadable returns the UUIDs of the nodes that Ironic cannot show, in order.
func (n *knownNodes) Unreadable() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var ids []string
	for id := range n.restless {
		if n.nodes[id].node.Unreadable != "" {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Some reports whether something is so of any of the nodes.
func (n *knownNodes) Some(is func(*ironic.Node) bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, seen := range n.nodes {
		if is(&seen.node) {
			return true
		}
	}
	return false
}

// NodesWithBMC returns the nodes whose BMC address matches the key, and the age of that knowledge:
// no node is missing that had this address at asOf, by our clock, except those that nothing has been
// done with since their creation (they are Enroll) and changes that come late in the feed. It may
// have nodes that were deleted since the last sweep. While asOf is zero, no sweep has been completed,
// and which nodes have this BMC is not known. A node that Ironic cannot show is taken to have the address
// that was last read; as long as none ever was, asOf stays what it is.
func (n *knownNodes) NodesWithBMC(key bmc.Key) (nodes []ironic.Node, asOf time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, value := range key.LookupValues() {
		for id := range n.byBMC[value] {
			if seen := n.nodes[id]; seen != nil && lifecycle.ToldKeyOfNode(&seen.node).Matches(key) {
				nodes = append(nodes, seen.node)
			}
		}
	}
	return nodes, n.asOf
}

// CountNodes returns how many nodes there are, and the time as of which these are all; see NodesWithBMC.
func (n *knownNodes) CountNodes() (nodes int, asOf time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.nodes), n.asOf
}

// NodeOf returns a copy of the host's node as it was last read, and the generation of its
// entry. The node is nil if it is not known. What it points to must not be changed. A node that Ironic cannot show
// (Unreadable) says nothing of the host.
func (n *knownNodes) NodeOf(host *metal3.BareMetalHost) (*ironic.Node, uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	seen := n.nodes[host.Status.Provisioning.ID]
	if seen == nil {
		return nil, 0
	}
	node := seen.node
	return &node, seen.generation
}

// Has reports whether the node has the contents of its entry at the generation.
func (n *knownNodes) Has(node *ironic.Node, generation uint64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	seen := n.nodes[node.UUID]
	return seen != nil && seen.generation == generation && seen.node.SameContent(node)
}

// mayChangeUnseen reports whether the status of the node's host can change although the node does not. Ironic does not time out the
// ramdisk of a node that it does not poll, nor all the work of a conductor that has died, so lifecycle.Observe does (see
// lifecycle.Observation.CallbackTimeout). Ironic 29.0 polls hardly any node, so those at rest must not be looked at each time.
// Of a node that Ironic cannot show, nothing else tells when it can again.
func mayChangeUnseen(node *ironic.Node) bool {
	return node.Unreadable != "" || node.IsNotPolled() && node.ProvisionState.IsInTransit() || node.Reservation == "" && (node.ProvisionState.IsWorked() || node.TargetPowerState != "")
}
