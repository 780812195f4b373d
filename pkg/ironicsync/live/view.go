package live

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

const (
	// sweepInterval is the age of the last sweep at which the next one begins in the
	// background.
	sweepInterval = 25 * time.Second
	// maxSweepAge is the age of the last sweep at which the feed no longer suffices, and a
	// read of all hosts waits for a sweep. A deleted node is noticed within this time.
	maxSweepAge = 30 * time.Second
	// maxSweepAgeWhileSweeping replaces maxSweepAge while a sweep is under way in the
	// background: a sweep of a slow Ironic can take long.
	maxSweepAgeWhileSweeping = 2 * time.Minute
	// minOverlap is the initial overlap. Two of its three seconds are needed because
	// updated_at on MySQL, and the Date header that tells the time on Ironic's clock, count
	// whole seconds. The rest allows for conductors whose clocks differ.
	minOverlap = 3 * time.Second
	// maxOverlap limits the growth of the overlap after missed changes.
	maxOverlap = time.Minute
)

// view is what this replica knows about Ironic's nodes, and which hosts' recorded statuses
// agree with it.
type view struct {
	mu    sync.Mutex
	nodes map[string]*seenNode // by UUID
	// byBMC holds the UUIDs of the nodes by the host and port of their BMC.
	byBMC map[string]map[string]bool
	// observed holds the hosts, by UID, whose recorded status is what their node says.
	observed map[types.UID]observedHost
	// pending holds the hosts, by UID, whose node was read but not yet recorded in their
	// status. The host was read before the node, so the node may be recorded without being
	// read again.
	pending map[types.UID]observedHost
	// generation is that of the entry of nodes that has changed last.
	generation uint64

	// newest is the latest updated_at seen in the feed, except that times ahead of Ironic's
	// clock are limited to that clock. newestSince is when it was first seen, by our clock;
	// it is only compared with other times of our clock.
	newest      time.Time
	newestSince time.Time
	// overlap is how far before newest the feed is read again, because changes do not
	// become visible in the order of their updated_at.
	overlap     time.Duration
	lastChanges int    // number of nodes in the last read of the feed
	feeds       uint64 // number of reads of the feed that have begun

	sweeps     uint64    // number of sweeps that have begun
	sweepEnded uint64    // number of the latest sweep that has ended
	swept      time.Time // when that sweep began; zero if there was none

	// inventoryMissing tells since when the inventories of finished inspections have been
	// missing, by the UUID of the node.
	inventoryMissing map[string]missingInventory
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

// observedHost is a version of a host, together with the generation of its node's entry in
// view.nodes that belongs to it.
type observedHost struct {
	resourceVersion string
	generation      uint64
}

type missingInventory struct {
	finished time.Time // end of the inspection, by Ironic's clock
	since    time.Time // when the inventory was first found missing, by our clock
}

func newView() *view {
	return &view{
		nodes: map[string]*seenNode{}, byBMC: map[string]map[string]bool{},
		observed: map[types.UID]observedHost{}, pending: map[types.UID]observedHost{},
		inventoryMissing: map[string]missingInventory{}, overlap: minOverlap,
	}
}

// isFeedTrusted tells whether reading the feed suffices for an observation of all hosts.
// sweeping tells whether a sweep is under way in the background.
func (v *view) isFeedTrusted(now time.Time, sweeping bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	age := now.Sub(v.swept)
	return !v.swept.IsZero() && (age < maxSweepAge || sweeping && age < maxSweepAgeWhileSweeping)
}

// isSweepDue tells whether the next sweep should begin in the background.
func (v *view) isSweepDue(now time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return now.Sub(v.swept) >= sweepInterval
}

func (v *view) currentOverlap() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.overlap
}

// feedRead describes a read of the feed that has begun.
type feedRead struct {
	number uint64
	// since is the earliest updated_at to read, by Ironic's clock.
	since time.Time
	// expected is the estimated number of nodes, which determines the size of the first page.
	expected int
}

// beginFeed begins a read of the feed. A change may become visible up to overlap later than
// one with a later updated_at, so the feed is read from that much before the newest known
// change. The longer that change has been known, the less has to be read again.
func (v *view) beginFeed(now time.Time) feedRead {
	v.mu.Lock()
	defer v.mu.Unlock()
	back := max(v.overlap-now.Sub(v.newestSince), 0)
	v.feeds++
	return feedRead{number: v.feeds, since: v.newest.Add(-back), expected: v.lastChanges + 1}
}

// applyChanges updates the view with what a read of the feed has shown. It returns the UUIDs
// of the nodes in it.
func (v *view) applyChanges(read feedRead, changes *ironic.Changes, now time.Time) (delivered map[string]bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delivered = make(map[string]bool, len(changes.Nodes))
	newest := changes.Newest
	for i := range changes.Nodes {
		node := &changes.Nodes[i]
		delivered[node.UUID] = true
		seen := v.nodes[node.UUID]
		if seen != nil && seen.feed > read.number {
			continue // a read that began later has been applied already
		}
		v.set(node)
		seen = v.nodes[node.UUID]
		seen.feed, seen.sweeps = read.number, v.sweeps
	}
	// A conductor's clock may be ahead, or a single updated_at wrong. If the feed were read
	// only from such a time on, the changes made by all other conductors would be missed.
	if ahead := changes.AnsweredAt.Add(time.Second); !changes.AnsweredAt.IsZero() && newest.After(ahead) {
		newest = ahead
	}
	if newest.After(v.newest) {
		v.newest, v.newestSince = newest, now
	}
	v.lastChanges = len(changes.Nodes)
	return delivered
}

// set stores the node in the view. v.mu is held.
func (v *view) set(node *ironic.Node) {
	seen := v.nodes[node.UUID]
	if seen == nil {
		seen = &seenNode{}
		v.nodes[node.UUID] = seen
	}
	if seen.generation == 0 || !seen.node.SameContent(node) {
		v.generation++
		seen.generation = v.generation
	}
	if seen.node.Address != node.Address {
		v.index(&seen.node, false)
		v.index(node, true)
	}
	seen.node = *node
}

// index adds the node to byBMC, or removes it from there. v.mu is held.
func (v *view) index(node *ironic.Node, add bool) {
	for _, value := range lifecycle.KeyOfNode(node).IndexValues() {
		nodes := v.byBMC[value]
		switch {
		case add && nodes == nil:
			v.byBMC[value] = map[string]bool{node.UUID: true}
		case add:
			nodes[node.UUID] = true
		default:
			delete(nodes, node.UUID)
			if len(nodes) == 0 {
				delete(v.byBMC, value)
			}
		}
	}
}

// forget removes a node that was deleted from Ironic.
func (v *view) forget(id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if seen := v.nodes[id]; seen != nil {
		v.index(&seen.node, false)
		delete(v.nodes, id)
	}
}

// withBMC returns the nodes whose BMC address matches the key.
func (v *view) withBMC(key bmc.Key) []ironic.Node {
	v.mu.Lock()
	defer v.mu.Unlock()
	var nodes []ironic.Node
	for _, value := range key.LookupValues() {
		for id := range v.byBMC[value] {
			if seen := v.nodes[id]; seen != nil && lifecycle.KeyOfNode(&seen.node).Matches(key) {
				nodes = append(nodes, seen.node)
			}
		}
	}
	return nodes
}

// sweepMark describes a sweep that has begun.
type sweepMark struct {
	number uint64
	// first is set if no sweep has ended before, so that the nodes are not known yet.
	first bool
	// unchecked is set if the feed could not be read completely, so that a change which is
	// not in it cannot be counted as missed.
	unchecked bool
}

func (v *view) beginSweep() sweepMark {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.sweeps++
	return sweepMark{number: v.sweeps, first: v.swept.IsZero()}
}

// applySweep updates the view with the nodes that a sweep has read, except those that the
// feed has shown since the sweep began, and removes nodes that no longer exist. It returns
// the number of changes that the feed should have shown and did not; if there are any, the
// overlap is doubled. A sweep is superseded, and not applied, if another one that began
// later has ended.
func (v *view) applySweep(mark sweepMark, nodes []ironic.Node, hosts []metal3.BareMetalHost, began time.Time) (missed int, superseded bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.sweepEnded > mark.number {
		return 0, true
	}
	v.sweepEnded, v.swept = mark.number, began
	there := make(map[string]bool, len(nodes))
	for i := range nodes {
		node := &nodes[i]
		there[node.UUID] = true
		seen := v.nodes[node.UUID]
		if seen != nil && seen.sweeps >= mark.number {
			continue // the feed has shown newer contents
		}
		if seen != nil && !mark.first && !mark.unchecked && !seen.node.SameContent(node) {
			missed++
		}
		v.set(node)
	}
	maps.DeleteFunc(v.nodes, func(id string, seen *seenNode) bool {
		gone := !there[id] && seen.sweeps < mark.number
		if gone {
			v.index(&seen.node, false)
		}
		return gone
	})
	maps.DeleteFunc(v.inventoryMissing, func(id string, _ missingInventory) bool { return v.nodes[id] == nil })
	if missed > 0 {
		v.overlap = min(2*v.overlap, maxOverlap)
	}
	live := make(map[types.UID]bool, len(hosts))
	for i := range hosts {
		live[hosts[i].UID] = true
	}
	maps.DeleteFunc(v.observed, func(uid types.UID, _ observedHost) bool { return !live[uid] })
	maps.DeleteFunc(v.pending, func(uid types.UID, _ observedHost) bool { return !live[uid] })
	return missed, false
}

// lookUp returns a copy of the host's node as it was last read, and the generation of its
// entry. The node is nil if it is not known. What it points to must not be changed.
func (v *view) lookUp(host *metal3.BareMetalHost) (*ironic.Node, uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	seen := v.nodes[host.Status.Provisioning.ID]
	if seen == nil {
		return nil, 0
	}
	node := seen.node
	return &node, seen.generation
}

// isObserved tells whether this version of the host shows its node as it is in the view at
// the generation.
func (v *view) isObserved(host *metal3.BareMetalHost, generation uint64) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.observed[host.UID] == observedHost{host.ResourceVersion, generation}
}

// setObserved notes that this version of the host shows its node as it was at the generation.
func (v *view) setObserved(host *metal3.BareMetalHost, generation uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.observed[host.UID] = observedHost{host.ResourceVersion, generation}
	delete(v.pending, host.UID)
}

// setPending notes hosts whose nodes have been read but not yet recorded. If an observation
// ends before it has recorded all of them, the next one records the rest without reading
// their nodes again.
func (v *view) setPending(hosts []dueHost) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, d := range hosts {
		if d.node != nil && !d.readNode {
			v.pending[d.host.UID] = observedHost{d.host.ResourceVersion, d.generation}
		}
	}
}

// isPending tells whether setPending has noted this version of the host with this generation.
func (v *view) isPending(host *metal3.BareMetalHost, generation uint64) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.pending[host.UID] == observedHost{host.ResourceVersion, generation}
}

// inventoryMissingFor returns for how long the inventory of the node's last inspection has
// been missing. It counts from the first call, by our clock, because Ironic's clock, which
// set InspectionFinishedAt, may differ from ours.
func (v *view) inventoryMissingFor(node *ironic.Node, now time.Time) time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	missing, known := v.inventoryMissing[node.UUID]
	if !known || !missing.finished.Equal(*node.InspectionFinishedAt) {
		missing = missingInventory{finished: *node.InspectionFinishedAt, since: now}
		v.inventoryMissing[node.UUID] = missing
	}
	return now.Sub(missing.since)
}
