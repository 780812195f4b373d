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
	// sweepInterval is how old the last sweep may be before the next one begins, in the
	// background. After feedTrust a read of all hosts waits for a sweep, so that a node
	// that was deleted shows within that time; but while one is under way, as that of a
	// slow Ironic is for long, reads go by the feed for slowTrust.
	sweepInterval = 25 * time.Second
	feedTrust     = 30 * time.Second
	slowTrust     = 2 * time.Minute
	// leastOverlap is how far the feed is read back: updated_at counts whole seconds on
	// MySQL, and so does the clock by which times ahead are told; what is left is for
	// conductors whose clocks differ. mostOverlap is how far it grows when that is not
	// enough.
	leastOverlap = 3 * time.Second
	mostOverlap  = time.Minute
)

// view is what a replica has seen of Ironic's nodes.
type view struct {
	mu    sync.Mutex
	nodes map[string]*seenNode // by UUID
	// byBMC has the UUIDs of the nodes by the host and port of their BMC.
	byBMC map[string]map[string]bool
	// observed has the resourceVersion of each host, by UID, whose status is known to be
	// what its node says, and the generation of the node's entry then.
	observed map[types.UID]observedHost
	// pending has the resourceVersion of each host, by UID, that was read before its node's
	// entry had the generation, and is still to be observed by that entry.
	pending map[types.UID]observedHost
	// generation counts the changes of entries.
	generation uint64

	// newest is the latest updated_at in the feed that is not ahead of Ironic's clock,
	// newestSince when it was first seen by our clock, of which only durations are used.
	newest      time.Time
	newestSince time.Time
	overlap     time.Duration
	lastChanges int    // nodes that the feed brought last
	feeds       uint64 // reads of the feed begun

	sweeps     uint64    // sweeps begun
	sweepEnded uint64    // the latest of them that has ended
	swept      time.Time // when that one began; zero: never

	// inventoryMissing is when the inventory of a finished inspection was first missed,
	// by node.
	inventoryMissing map[string]missingInventory
}

type seenNode struct {
	node       ironic.Node
	generation uint64
	// feed is the number of the read of the feed that has brought the node last; 0 is none.
	// (Its updated_at is no measure: it goes back when a conductor's clock is put right.)
	feed uint64
	// sweeps is the number of sweeps that had begun when the feed last brought the node.
	sweeps uint64
}

type observedHost struct {
	resourceVersion string
	generation      uint64
}

type missingInventory struct {
	finished time.Time // Ironic's
	since    time.Time // ours
}

func newView() *view {
	return &view{
		nodes: map[string]*seenNode{}, byBMC: map[string]map[string]bool{},
		observed: map[types.UID]observedHost{}, pending: map[types.UID]observedHost{},
		inventoryMissing: map[string]missingInventory{}, overlap: leastOverlap,
	}
}

// isFeedTrusted tells whether a read of all hosts may go by the feed.
func (v *view) isFeedTrusted(now time.Time, sweeping bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	age := now.Sub(v.swept)
	return !v.swept.IsZero() && (age < feedTrust || sweeping && age < slowTrust)
}

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

// feedRead is the beginning of a read of the feed.
type feedRead struct {
	number uint64
	// since is the moment, of Ironic's time, from which on the feed has to be read.
	since time.Time
	// expected is how many nodes to expect.
	expected int
}

// beginFeed begins a read of the feed. A change can become visible after one with a later
// updated_at, by as much as the overlap; so when the newest one has been known for that
// long, nothing older can come any more.
func (v *view) beginFeed(now time.Time) feedRead {
	v.mu.Lock()
	defer v.mu.Unlock()
	back := max(v.overlap-now.Sub(v.newestSince), 0)
	v.feeds++
	return feedRead{number: v.feeds, since: v.newest.Add(-back), expected: v.lastChanges + 1}
}

// applyChanges takes over what the feed shows. It returns the nodes in it.
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
			continue // one that began later was faster
		}
		v.set(node)
		seen = v.nodes[node.UUID]
		seen.feed, seen.sweeps = read.number, v.sweeps
	}
	// One conductor's clock, or one mistaken entry, may be ahead: what the others do
	// comes later in the feed, and is not to be missed.
	if ahead := changes.AnsweredAt.Add(time.Second); !changes.AnsweredAt.IsZero() && newest.After(ahead) {
		newest = ahead
	}
	if newest.After(v.newest) {
		v.newest, v.newestSince = newest, now
	}
	v.lastChanges = len(changes.Nodes)
	return delivered
}

// set makes node the entry of its UUID. v.mu is held.
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

// index adds the node to byBMC, or removes it. v.mu is held.
func (v *view) index(node *ironic.Node, add bool) {
	key := lifecycle.KeyOfNode(node)
	if key.IsZero() {
		return
	}
	nodes := v.byBMC[key.Service]
	switch {
	case add && nodes == nil:
		v.byBMC[key.Service] = map[string]bool{node.UUID: true}
	case add:
		nodes[node.UUID] = true
	default:
		delete(nodes, node.UUID)
		if len(nodes) == 0 {
			delete(v.byBMC, key.Service)
		}
	}
}

// forget drops a node that is known to be gone.
func (v *view) forget(id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if seen := v.nodes[id]; seen != nil {
		v.index(&seen.node, false)
		delete(v.nodes, id)
	}
}

// withBMC returns the nodes whose BMC may be the one with the key.
func (v *view) withBMC(key bmc.Key) []ironic.Node {
	v.mu.Lock()
	defer v.mu.Unlock()
	var nodes []ironic.Node
	for id := range v.byBMC[key.Service] {
		if seen := v.nodes[id]; seen != nil && lifecycle.KeyOfNode(&seen.node).Matches(key) {
			nodes = append(nodes, seen.node)
		}
	}
	return nodes
}

// sweepMark is the beginning of a sweep.
type sweepMark struct {
	number uint64
	// first is set when nothing is known yet.
	first bool
	// unchecked is set when the feed could not be read to its end, so that what it does
	// not show tells nothing.
	unchecked bool
}

func (v *view) beginSweep() sweepMark {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.sweeps++
	return sweepMark{number: v.sweeps, first: v.swept.IsZero()}
}

// applySweep takes over the nodes that a sweep has read, but for what the feed has shown
// since the sweep began, and forgets what is gone. It returns how many changes the feed
// should have shown, and did not: then it is read further back from now on. A sweep is
// superseded when another one that began later has ended.
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
			continue // the feed has shown it since
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
		v.overlap = min(2*v.overlap, mostOverlap)
	}
	live := make(map[types.UID]bool, len(hosts))
	for i := range hosts {
		live[hosts[i].UID] = true
	}
	maps.DeleteFunc(v.observed, func(uid types.UID, _ observedHost) bool { return !live[uid] })
	maps.DeleteFunc(v.pending, func(uid types.UID, _ observedHost) bool { return !live[uid] })
	return missed, false
}

// lookUp returns what is known of a host's node, nil where none is, and the generation
// of that knowledge. The node must not be changed.
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

// isObserved tells whether the host, at its resourceVersion, shows what is known of its node.
func (v *view) isObserved(host *metal3.BareMetalHost, generation uint64) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.observed[host.UID] == observedHost{host.ResourceVersion, generation}
}

func (v *view) setObserved(host *metal3.BareMetalHost, generation uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.observed[host.UID] = observedHost{host.ResourceVersion, generation}
	delete(v.pending, host.UID)
}

// setPending notes hosts that were read before what is known of their nodes. An observation
// that ends before all of them are recorded leaves the rest to the next one, which need not
// read these nodes again.
func (v *view) setPending(hosts []due) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, d := range hosts {
		if d.node != nil && !d.ask {
			v.pending[d.host.UID] = observedHost{d.host.ResourceVersion, d.generation}
		}
	}
}

// isPending tells whether the host, at its resourceVersion, was read before what is known of
// its node.
func (v *view) isPending(host *metal3.BareMetalHost, generation uint64) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.pending[host.UID] == observedHost{host.ResourceVersion, generation}
}

// inventoryMissingFor tells for how long the inventory of the node's last inspection has
// been missed. That is not asked of Ironic's clock: it may differ from ours.
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
