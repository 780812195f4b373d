// SPDX-License-Identifier: Apache-2.0

package index

import (
	"maps"
	"slices"
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
	// background, unless sweeps of this Ironic take so long that it has to be older.
	sweepInterval = 25 * time.Second
	// sweepShare is how many times as long as it took a sweep is old when the next one begins, so
	// that sweeps take a tenth of Ironic's time at most.
	sweepShare = 10
	// maxSweepInterval limits that: a deleted node must not go unnoticed for longer.
	maxSweepInterval = 5 * time.Minute
	// sweepGrace is how long after the interval the feed suffices while no sweep has begun. After that, a
	// read of all hosts waits for one. A deleted node is noticed within this time and the interval.
	sweepGrace = 5 * time.Second
	// sweepingGrace replaces sweepGrace while a sweep is under way in the background: a sweep of a
	// slow Ironic can take long.
	sweepingGrace = 95 * time.Second
	// minOverlap is the initial overlap. Two of its three seconds are needed because
	// updated_at on MySQL, and the Date header that tells the time on Ironic's clock, count
	// whole seconds. The rest allows for conductors whose clocks differ.
	minOverlap = 3 * time.Second
	// maxOverlap limits the growth of the overlap after missed changes.
	maxOverlap = time.Minute
)

// Index is what this replica knows about Ironic's nodes, and which hosts' recorded statuses
// agree with it; see the package's documentation. It is safe for concurrent use.
type Index struct {
	mu    sync.Mutex
	nodes map[string]*seenNode // by UUID
	// byBMC holds the UUIDs of the nodes by the host and port of their BMC.
	byBMC map[string]map[string]bool
	// restless holds the UUIDs of the nodes of which mayChangeUnseen is true.
	restless map[string]bool
	// hosts are those that have their nodes in the Ironic, as far as the Index was told, and byNode their UIDs by the UUIDs of
	// their nodes.
	hosts  map[types.UID]*knownHost
	byNode map[string]map[types.UID]bool
	// due holds the hosts that may not show what their node says, so that what has not changed need not be looked at.
	due map[types.UID]bool
	// eventsUntil is the resourceVersion up to which the Index was told of all that became of hosts. It is 0 until all hosts were
	// listed: an event says nothing of the hosts that it is not about.
	eventsUntil uint64
	// gone holds, until then, the versions in which hosts have gone, by UID: the list may be older.
	gone map[types.UID]uint64
	// recorded holds the hosts, by UID, whose recorded status is what their node says.
	recorded map[types.UID]hostVersion
	// pending holds the hosts, by UID, whose node was read but not yet recorded in their
	// status. The host was read before the node, so the node may be recorded without being
	// read again.
	pending map[types.UID]hostVersion
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
	sweepTook  time.Duration
	// doubted is when a node was found missing, by our clock, that the last sweep had found; the feed does not show what else is.
	doubted time.Time
	// completeFrom is the number of the first sweep that finds all changes that were cut off the
	// feed so far.
	completeFrom uint64
	// asOf is the time, by our clock, at which all nodes were known; zero if they never were.
	asOf time.Time

	// forgotten holds the nodes, by UUID, that this process has deleted since the last sweep. Reads that had begun by then
	// may still show them.
	forgotten map[string]readsBegun

	// inventoryMissing reports since when the inventories of finished inspections have been
	// missing, by the UUID of the node.
	inventoryMissing map[string]noticed
	// setBack reports since when nodes have been in a state that dates from before the one that is recorded.
	setBack map[string]noticed
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

// readsBegun is how many reads of the feed, and how many sweeps, had begun at some time.
type readsBegun struct{ feeds, sweeps uint64 }

// hostVersion is a version of a host, together with the generation of its node's entry in
// Index.nodes that belongs to it.
type hostVersion struct {
	resourceVersion string
	generation      uint64
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

// New returns an Index that knows nothing.
func New() *Index {
	return &Index{
		nodes: map[string]*seenNode{}, byBMC: map[string]map[string]bool{},
		restless: map[string]bool{}, hosts: map[types.UID]*knownHost{}, gone: map[types.UID]uint64{}, byNode: map[string]map[types.UID]bool{}, due: map[types.UID]bool{},
		recorded: map[types.UID]hostVersion{}, pending: map[types.UID]hostVersion{}, forgotten: map[string]readsBegun{},
		inventoryMissing: map[string]noticed{}, setBack: map[string]noticed{}, overlap: minOverlap, completeFrom: 1,
	}
}

// IsFeedTrusted reports whether reading the feed suffices for an observation of all hosts.
// sweeping reports whether a sweep is under way in the background.
func (x *Index) IsFeedTrusted(now time.Time, sweeping bool) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	grace := sweepGrace
	if sweeping {
		grace = sweepingGrace
	}
	return !x.swept.IsZero() && !x.doubted.After(x.swept) && x.isComplete() && now.Sub(x.swept) < x.sweepEvery()+grace
}

// IsSweepDue reports whether the next sweep should begin in the background.
func (x *Index) IsSweepDue(now time.Time) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return now.Sub(x.swept) >= x.sweepEvery()
}

// sweepEvery is the age of the last sweep at which the next one is due. x.mu is held.
func (x *Index) sweepEvery() time.Duration {
	return min(max(sweepInterval, sweepShare*x.sweepTook), maxSweepInterval)
}

// Overlap returns how far before the newest known change the feed is read again.
func (x *Index) Overlap() time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.overlap
}

// FeedRead is a read of the feed that has begun.
type FeedRead struct {
	// Since is the earliest updated_at to read, by Ironic's clock.
	Since time.Time
	// Expected is the estimated number of nodes, which determines the size of the first page.
	Expected int

	number uint64
	began  time.Time // by our clock
}

// BeginFeed begins a read of the feed. A change may become visible up to overlap later than
// one with a later updated_at, so the feed is read from that much before the newest known
// change. The longer that change has been known, the less has to be read again.
func (x *Index) BeginFeed(now time.Time) FeedRead {
	x.mu.Lock()
	defer x.mu.Unlock()
	back := max(x.overlap-now.Sub(x.newestSince), 0)
	x.feeds++
	return FeedRead{number: x.feeds, began: now, Since: x.newest.Add(-back), Expected: x.lastChanges + 1}
}

// ApplyChanges updates the index with what a read of the feed has shown. It returns the UUIDs of the nodes in it, and
// whether that leads on from the last sweep without a gap.
func (x *Index) ApplyChanges(read FeedRead, changes *ironic.Changes, now time.Time) (delivered map[string]bool, complete bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delivered = make(map[string]bool, len(changes.Nodes))
	newest := changes.Newest
	for i := range changes.Nodes {
		node := &changes.Nodes[i]
		if began, forgotten := x.forgotten[node.UUID]; forgotten && read.number <= began.feeds {
			continue // it was deleted since
		}
		delete(x.forgotten, node.UUID) // it exists again
		delivered[node.UUID] = true
		seen := x.nodes[node.UUID]
		if seen != nil && seen.feed > read.number {
			continue // a read that began later has been applied already
		}
		x.set(node)
		seen = x.nodes[node.UUID]
		seen.feed, seen.sweeps = read.number, x.sweeps
	}
	// A conductor's clock may be ahead, or a single updated_at wrong. If the feed were read
	// only from such a time on, the changes made by all other conductors would be missed. Ironic reads its database when it is
	// asked, and may take long to answer: what changes meanwhile is not in the answer.
	askedAt := changes.AnsweredAt.Add(read.began.Sub(now))
	if ahead := askedAt.Add(time.Second); !changes.AnsweredAt.IsZero() && newest.After(ahead) {
		newest = ahead
	}
	switch {
	case newest.After(x.newest):
		x.newest, x.newestSince = newest, now
	case !changes.AnsweredAt.IsZero() && changes.AnsweredAt.Add(x.overlap).Before(x.newest):
		// Ironic's clock was set back, and what changes now is older than what was read last. A sweep finds what has
		// changed since. If this is one of several API servers whose clocks differ, the overlap soon allows for that.
		x.newest, x.newestSince = askedAt, now
		x.overlap = min(2*x.overlap, maxOverlap)
		x.completeFrom = x.sweeps + 1
	}
	x.lastChanges = len(changes.Nodes)
	if changes.Truncated {
		x.completeFrom = x.sweeps + 1
	}
	if x.isComplete() && x.isIdentified() {
		x.asOf = latest(x.asOf, read.began)
	}
	return delivered, x.isComplete()
}

// set stores the node. x.mu is held.
func (x *Index) set(node *ironic.Node) {
	seen := x.nodes[node.UUID]
	if seen != nil && node.Unreadable != "" {
		node = lastRead(&seen.node, node)
	}
	if seen == nil {
		seen = &seenNode{}
		x.nodes[node.UUID] = seen
	}
	if seen.generation == 0 || !seen.node.SameContent(node) {
		x.generation++
		seen.generation = x.generation
		x.nodeChanged(node.UUID)
	}
	if mayChangeUnseen(node) {
		x.restless[node.UUID] = true
	} else {
		delete(x.restless, node.UUID)
	}
	if seen.node.Address != node.Address {
		x.indexBMC(&seen.node, false)
		x.indexBMC(node, true)
	}
	seen.node = *node
}

// indexBMC adds the node to byBMC, or removes it from there. x.mu is held.
func (x *Index) indexBMC(node *ironic.Node, add bool) {
	for _, value := range lifecycle.ToldKeyOfNode(node).IndexValues() {
		nodes := x.byBMC[value]
		switch {
		case add && nodes == nil:
			x.byBMC[value] = map[string]bool{node.UUID: true}
		case add:
			nodes[node.UUID] = true
		default:
			delete(nodes, node.UUID)
			if len(nodes) == 0 {
				delete(x.byBMC, value)
			}
		}
	}
}

// isComplete reports whether reads of the feed lead on from a sweep without a gap: a sweep has ended, and
// no read of the feed that was applied since it began was truncated. x.mu is held.
func (x *Index) isComplete() bool { return x.sweepEnded >= x.completeFrom }

// ForgetNode removes a node that was deleted from Ironic, which the feed does not show. Reads that have begun already do not bring
// it back.
func (x *Index) ForgetNode(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.forgotten[id] = readsBegun{x.feeds, x.sweeps}
	if seen := x.nodes[id]; seen != nil {
		x.remove(seen)
	}
}

// remove removes a node. x.mu is held.
func (x *Index) remove(seen *seenNode) {
	id := seen.node.UUID
	x.indexBMC(&seen.node, false)
	delete(x.nodes, id)
	delete(x.restless, id)
	x.nodeChanged(id)
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

// isIdentified reports whether it is known of all nodes which BMC they have. x.mu is held.
func (x *Index) isIdentified() bool {
	for id := range x.restless {
		if isUnidentified(&x.nodes[id].node) { // it never was read
			return false
		}
	}
	return true
}

// Unreadable returns the UUIDs of the nodes that Ironic cannot show, in order.
func (x *Index) Unreadable() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	var ids []string
	for id := range x.restless {
		if x.nodes[id].node.Unreadable != "" {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Doubt tells the Index that Ironic did not have a node at a time, so that feeds do not suffice until the next sweep if the
// Index has it.
func (x *Index) Doubt(id string, at time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.nodes[id] != nil {
		x.doubted = latest(x.doubted, at)
	}
}

// Some reports whether something is so of any of the nodes.
func (x *Index) Some(is func(*ironic.Node) bool) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, seen := range x.nodes {
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
func (x *Index) NodesWithBMC(key bmc.Key) (nodes []ironic.Node, asOf time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, value := range key.LookupValues() {
		for id := range x.byBMC[value] {
			if seen := x.nodes[id]; seen != nil && lifecycle.ToldKeyOfNode(&seen.node).Matches(key) {
				nodes = append(nodes, seen.node)
			}
		}
	}
	return nodes, x.asOf
}

// Sweep is a sweep that has begun.
type Sweep struct {
	// First is set if no sweep has ended before, so that the nodes are not known yet.
	First bool
	// Unchecked is set by the caller if the feed could not be read completely, so that a change
	// which is not in it cannot be counted as missed.
	Unchecked bool

	number uint64
	began  time.Time // by our clock
}

// CountNodes returns how many nodes there are, and the time as of which these are all; see NodesWithBMC.
func (x *Index) CountNodes() (nodes int, asOf time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.nodes), x.asOf
}

// BeginSweep begins a sweep, before the hosts are read from etcd and the nodes from Ironic.
func (x *Index) BeginSweep(now time.Time) Sweep {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sweeps++
	return Sweep{number: x.sweeps, began: now, First: x.swept.IsZero()}
}

// ApplySweep updates the index with the nodes that a sweep has read, except those that the
// feed has shown since the sweep began, and removes nodes that no longer exist. It returns
// the number of changes that the feed should have shown and did not; if there are any, the
// overlap is doubled. A sweep is superseded, and not applied, if another one that began
// later has ended.
func (x *Index) ApplySweep(sweep Sweep, nodes []ironic.Node, now time.Time) (missed int, superseded bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.sweepEnded > sweep.number {
		return 0, true
	}
	x.sweepEnded, x.swept, x.sweepTook = sweep.number, sweep.began, now.Sub(sweep.began)
	listed := make(map[string]bool, len(nodes))
	for i := range nodes {
		node := &nodes[i]
		if began, forgotten := x.forgotten[node.UUID]; forgotten && sweep.number <= began.sweeps {
			continue // it was deleted since
		}
		listed[node.UUID] = true
		seen := x.nodes[node.UUID]
		if seen != nil && seen.sweeps >= sweep.number {
			continue // the feed has shown newer contents
		}
		if seen != nil && !sweep.First && !sweep.Unchecked && isMissedChange(&seen.node, node) {
			missed++
		}
		x.set(node)
	}
	for id, seen := range x.nodes {
		if !listed[id] && seen.sweeps < sweep.number {
			x.remove(seen)
		}
	}
	maps.DeleteFunc(x.forgotten, func(_ string, began readsBegun) bool { return began.sweeps < sweep.number })
	for _, all := range []map[string]noticed{x.inventoryMissing, x.setBack} {
		maps.DeleteFunc(all, func(id string, _ noticed) bool { return x.nodes[id] == nil })
	}
	if missed > 0 {
		x.overlap = min(2*x.overlap, maxOverlap)
	}
	if x.isIdentified() {
		x.asOf = latest(x.asOf, sweep.began)
	}
	return missed, false
}

// isMissedChange reports whether the feed should have shown that a node is other than it was. It need not show that Ironic cannot show
// the node any more, or can again.
func isMissedChange(was, is *ironic.Node) bool {
	return was.Unreadable == "" && is.Unreadable == "" && !was.SameContent(is)
}

// NodeOf returns a copy of the host's node as it was last read, and the generation of its
// entry. The node is nil if it is not known. What it points to must not be changed. A node that Ironic cannot show
// (Unreadable) says nothing of the host.
func (x *Index) NodeOf(host *metal3.BareMetalHost) (*ironic.Node, uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	seen := x.nodes[host.Status.Provisioning.ID]
	if seen == nil {
		return nil, 0
	}
	node := seen.node
	return &node, seen.generation
}

// Has reports whether the node has the contents of its entry at the generation.
func (x *Index) Has(node *ironic.Node, generation uint64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	seen := x.nodes[node.UUID]
	return seen != nil && seen.generation == generation && seen.node.SameContent(node)
}

// IsRecorded reports whether this version of the host shows its node as it is in the index at
// the generation.
func (x *Index) IsRecorded(host *metal3.BareMetalHost, generation uint64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.recorded[host.UID] == hostVersion{host.ResourceVersion, generation}
}

// SetRecorded notes that this version of the host shows its node as it was at the generation.
func (x *Index) SetRecorded(host *metal3.BareMetalHost, generation uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.know(host, false)
	if x.hosts[host.UID] == nil {
		return // it was deleted
	}
	x.recorded[host.UID] = hostVersion{host.ResourceVersion, generation}
	delete(x.pending, host.UID)
}

// SetPending notes that the node of this version of the host was read, at the generation, but not yet
// recorded. If an observation ends before it has recorded all hosts, the next one records the rest
// without reading their nodes again.
func (x *Index) SetPending(host *metal3.BareMetalHost, generation uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.know(host, false)
	if x.hosts[host.UID] != nil { // it was not deleted
		x.pending[host.UID] = hostVersion{host.ResourceVersion, generation}
	}
}

// IsPending reports whether SetPending has noted this version of the host with this generation.
func (x *Index) IsPending(host *metal3.BareMetalHost, generation uint64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.pending[host.UID] == hostVersion{host.ResourceVersion, generation}
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
func (x *Index) InventoryMissing(node *ironic.Node, now time.Time) time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	missing := noticedFor(x.inventoryMissing, node.UUID, *node.InspectionFinishedAt, now)
	noted := x.inventoryMissing[node.UUID]
	noted.next = now.Add(min(max(missing/inventoryShare, minInventoryPause), maxInventoryPause))
	x.inventoryMissing[node.UUID] = noted
	return missing
}

// IsInventoryDue reports whether Ironic is to be asked for the inventory of the node's last inspection.
func (x *Index) IsInventoryDue(node *ironic.Node, now time.Time) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	noted, known := x.inventoryMissing[node.UUID]
	return !known || !noted.about.Equal(*node.InspectionFinishedAt) || !now.Before(noted.next)
}

// SetBackFor returns for how long the node has been in a state that dates from before the one that is recorded.
func (x *Index) SetBackFor(node *ironic.Node, now time.Time) time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	return noticedFor(x.setBack, node.UUID, *node.ProvisionUpdatedAt, now)
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
