// SPDX-License-Identifier: Apache-2.0

package index

import (
	"maps"
	"time"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// notices are the part of an Index that knows since when something is so of nodes that may pass.
type notices struct {
	*shared

	// inventoryMissing has since when the inventories of finished inspections have been missing,
	// by the UUID of the node.
	inventoryMissing map[string]noticed
	// setBack has since when nodes have been in a state that dates from before the one that is recorded.
	setBack map[string]noticed
}

func newNotices(all *shared) notices {
	return notices{shared: all, inventoryMissing: map[string]noticed{}, setBack: map[string]noticed{}}
}

// noticed is something about a node that may pass, such as a missing inventory, and since when it is known, by our
// clock. Ironic's clock, which has set about, may differ from ours.
type noticed struct {
	about, since time.Time
	// next is when Ironic is asked again for what is missing.
	next time.Time
}

// noticedFor returns for how long something about a node has been noticed.
func noticedFor(all map[string]noticed, uuid string, about, now time.Time) time.Duration {
	first, known := all[uuid]
	if !known || !first.about.Equal(about) {
		first = noticed{about: about, since: now}
		all[uuid] = first
	}
	return now.Sub(first.since)
}

const (
	// An inventory that Ironic did not give is asked for again after a share of the time for which it has been missing, and after
	// a pause within these bounds: no more often if there are many readers, and soon at first, because Ironic ends an inspection
	// before it stores the inventory.
	inventoryShare    = 8
	minInventoryPause = 500 * time.Millisecond
	maxInventoryPause = 5 * time.Minute
)

// InventoryMissing notes that Ironic was asked in vain for the inventory of the node's last inspection. It returns for how long that
// has been so.
func (n *notices) InventoryMissing(node *ironic.Node, now time.Time) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	missing := noticedFor(n.inventoryMissing, node.UUID, *node.InspectionFinishedAt, now)
	noted := n.inventoryMissing[node.UUID]
	noted.next = now.Add(min(max(missing/inventoryShare, minInventoryPause), maxInventoryPause))
	n.inventoryMissing[node.UUID] = noted
	return missing
}

// IsInventoryDue reports whether Ironic is to be asked for the inventory of the node's last inspection.
func (n *notices) IsInventoryDue(node *ironic.Node, now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	noted, known := n.inventoryMissing[node.UUID]
	return !known || !noted.about.Equal(*node.InspectionFinishedAt) || !now.Before(noted.next)
}

// SetBackFor returns for how long the node has been in a state that dates from before the one that is recorded.
func (n *notices) SetBackFor(node *ironic.Node, now time.Time) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return noticedFor(n.setBack, node.UUID, *node.ProvisionUpdatedAt, now)
}

// NotSetBack notes that the node is in the state that is recorded, or in a later one: an earlier one that is seen after that is seen for the
// first time.
func (n *notices) NotSetBack(uuid string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.setBack, uuid)
}

// keep forgets all nodes but those that are there. n.mu is held.
func (n *notices) keep(isThere func(uuid string) bool) {
	for _, all := range []map[string]noticed{n.inventoryMissing, n.setBack} {
		maps.DeleteFunc(all, func(id string, _ noticed) bool { return !isThere(id) })
	}
}
