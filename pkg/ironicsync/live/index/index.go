// SPDX-License-Identifier: Apache-2.0

package index

import (
	"maps"
	"slices"
	"sync"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
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
//
// It has three parts: hosts.go, nodes.go and notices.go. The Index itself knows the reads of the feed and the sweeps, and what each
// changes about the parts.
type Index struct {
	*shared
	knownHosts
	knownNodes
	notices

	// newest is the latest updated_at seen in the feed, except that times ahead of Ironic's
	// clock are limited to that clock. newestSince is when it was first seen, by our clock;
	// it is only compared with other times of our clock.
	newest      time.Time
	newestSince time.Time
	// latestFeed is the number of the latest read of the feed that was applied. One that began before it may be answered after it.
	latestFeed uint64
	// overlap is how far before newest the feed is read again, because changes do not
	// become visible in the order of their updated_at.
	overlap     time.Duration
	lastChanges int // number of nodes in the last read of the feed

	sweepEnded uint64    // number of the latest sweep that has ended
	swept      time.Time // when that sweep began; zero if there was none
	sweepTook  time.Duration
	// doubted is when a node was found missing, by our clock, that the last sweep had found; the feed does not show what else is.
	doubted time.Time
	// completeFrom is the number of the first sweep that finds all changes that were cut off the
	// feed so far.
	completeFrom uint64

	// forgotten holds the nodes, by UUID, that this process has deleted since the last sweep. Reads that had begun by then
	// may still show them.
	forgotten map[string]readsBegun
}

// shared is what all parts of an Index have in common.
type shared struct {
	mu sync.Mutex // guards the Index with all its parts
	// begun is how many reads have begun.
	begun readsBegun
}

// readsBegun is how many reads of the feed, and how many sweeps, had begun at some time.
type readsBegun struct{ feeds, sweeps uint64 }

// New returns an Index that knows nothing.
func New() *Index {
	all := &shared{}
	x := &Index{shared: all, knownHosts: newKnownHosts(all), notices: newNotices(all), forgotten: map[string]readsBegun{}, overlap: minOverlap, completeFrom: 1}
	x.knownNodes = newKnownNodes(all, x.nodeChanged)
	return x
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
	sweeps uint64    // that had begun by then
}

// BeginFeed begins a read of the feed. A change may become visible up to overlap later than
// one with a later updated_at, so the feed is read from that much before the newest known
// change. The longer that change has been known, the less has to be read again.
func (x *Index) BeginFeed(now time.Time) FeedRead {
	x.mu.Lock()
	defer x.mu.Unlock()
	back := max(x.overlap-now.Sub(x.newestSince), 0)
	x.begun.feeds++
	return FeedRead{number: x.begun.feeds, began: now, sweeps: x.begun.sweeps, Since: x.newest.Add(-back), Expected: x.lastChanges + 1}
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
		seen.feed, seen.sweeps = read.number, read.sweeps
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
	case read.number > x.latestFeed && !changes.AnsweredAt.IsZero() && changes.AnsweredAt.Add(x.overlap).Before(x.newest):
		// Ironic's clock was set back, and what changes now is older than what was read last. A sweep finds what has
		// changed since. If this is one of several API servers whose clocks differ, the overlap soon allows for that.
		x.newest, x.newestSince = askedAt, now
		x.overlap = min(2*x.overlap, maxOverlap)
		x.completeFrom = x.begun.sweeps + 1
	}
	x.latestFeed = max(x.latestFeed, read.number)
	x.lastChanges = len(changes.Nodes)
	if changes.Truncated {
		x.completeFrom = x.begun.sweeps + 1
	}
	if x.isComplete() && x.isIdentified() {
		x.asOf = latest(x.asOf, read.began)
	}
	return delivered, x.isComplete()
}

// isComplete reports whether reads of the feed lead on from a sweep without a gap: a sweep has ended, and
// no read of the feed that was applied since it began was truncated. x.mu is held.
func (x *Index) isComplete() bool { return x.sweepEnded >= x.completeFrom }

// ForgetNode removes a node that was deleted from Ironic, which the feed does not show. Reads that have begun already do not bring
// it back.
func (x *Index) ForgetNode(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.forgotten[id] = x.begun
	if seen := x.nodes[id]; seen != nil {
		x.remove(seen)
	}
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

// BeginSweep begins a sweep, before the hosts are read from etcd and the nodes from Ironic.
func (x *Index) BeginSweep(now time.Time) Sweep {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.begun.sweeps++
	return Sweep{number: x.begun.sweeps, began: now, First: x.swept.IsZero()}
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
	x.notices.keep(func(id string) bool { return x.nodes[id] != nil })
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

// Candidate is a host that may not show what its node says.
type Candidate struct {
	Host *metal3.BareMetalHost
	// KnownBefore is set if this version of the host was known before the read began. Only then can what that read says
	// of the node be recorded in it: otherwise it may be older than what the host shows.
	KnownBefore bool
}

// DueInFeed returns the hosts that may not show what their nodes say, after a read of the feed was applied.
func (x *Index) DueInFeed(read FeedRead) []Candidate {
	return x.dueHosts(func(k *knownHost) bool { return k.known.feeds < read.number })
}

// DueInSweep is DueInFeed after a sweep.
func (x *Index) DueInSweep(sweep Sweep) []Candidate {
	return x.dueHosts(func(k *knownHost) bool { return k.known.sweeps < sweep.number })
}

func (x *Index) dueHosts(knownBefore func(*knownHost) bool) (all []Candidate) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for id := range x.restless {
		x.nodeChanged(id)
	}
	for _, uid := range slices.Collect(maps.Keys(x.due)) {
		known := x.hosts[uid]
		seen := x.nodes[known.host.Status.Provisioning.ID]
		version := hostVersion{resourceVersion: known.host.ResourceVersion}
		if seen != nil {
			version.generation = seen.generation
		}
		if x.recorded[uid] == version && (seen == nil || !mayChangeUnseen(&seen.node)) {
			delete(x.due, uid)
			continue
		}
		all = append(all, Candidate{known.host, knownBefore(known)})
	}
	return all
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
