// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live/index"
)

// Reading all nodes costs Ironic some 0.15 ms for each of them, so most observations of
// all hosts read the feed instead: the nodes ordered by updated_at, newest first, down to
// the ones that this replica has seen already. Package index says what the feed does not show,
// and when all nodes are read as well.

// maxReobserved bounds the hosts whose nodes are requested one by one in addition to the
// feed: new hosts, and hosts that were written past this Refresher. If there are more, a sweep is
// cheaper.
const maxReobserved = 32

// feedTimeout bounds the one request for the feed that may take longer than readers wait. Who polls waits for it, also if nothing will
// ever come.
const feedTimeout = 10 * time.Second

// bulk observes all hosts at once: see observeAll.
type bulk struct {
	*observer
	ctx context.Context // ends with the server; observations outlive the reader that started them
	// patience is how long an observation may delay readers that arrived after it had begun. The
	// rest of their waiting time is left for the observation that they wait for.
	patience time.Duration

	changes *HostChanges // may be nil
	// told is set when the index knows all hosts, and changes tells of all that becomes of them.
	told       atomic.Bool
	history    *History
	progress   progress
	background sync.WaitGroup // sweeps for which no reader waits
	// sweepTook is how long the latest sweep took, in nanoseconds, which is very long if it failed.
	sweepTook atomic.Int64
	// awaited is set while the feed is waited for for longer than readers wait.
	awaited atomic.Bool
}

// errSweepNeeded means that all nodes have to be read.
var errSweepNeeded = errors.New("more has changed than the feed of changes shows")

// observeAll records what Ironic says about all hosts. It reads the feed if that suffices,
// and all nodes otherwise.
func (b *bulk) observeAll() error {
	began := b.clock.Now()
	if !b.index.IsFeedTrusted(began, b.progress.isSweeping()) {
		return b.sweep()
	}
	err := b.readFeed()
	if errors.Is(err, errSweepNeeded) {
		return b.sweep()
	}
	return b.observedAll(began, err)
}

// readFeed reads the feed and observes the hosts whose nodes have changed, and those that have changed themselves.
func (b *bulk) readFeed() error {
	if err := b.learnInTime(); err != nil {
		return err
	}
	began := b.clock.Now()
	read := b.index.BeginFeed(began)
	changes, err := b.changedSince(read)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(b.ctx, b.patience)
	defer cancel()
	answered := b.clock.Now()
	delivered, complete := b.index.ApplyChanges(read, changes, answered)
	if changes.Truncated || !complete {
		return errSweepNeeded
	}
	var dues []dueHost
	readsNeeded := 0
	for _, candidate := range b.index.DueInFeed(read) {
		host := candidate.Host
		node, generation := b.index.NodeOf(host)
		switch {
		case host.Status.Record.IsLater():
			dues = append(dues, dueHost{host: host}) // of which nothing is read
		case node != nil && node.Unreadable != "":
			dues = append(dues, dueHost{host: host, unreadable: node.Unreadable})
		case node != nil && delivered[node.UUID] && candidate.KnownBefore:
			dues = append(dues, dueHost{host: host, node: node, generation: generation, changed: changedAt(node, changes, answered)})
		case node != nil && b.isAsRecorded(ctx, host, node, answered):
			b.index.SetRecorded(host, generation)
		case node != nil && b.index.IsPending(host, generation):
			dues = append(dues, dueHost{host: host, node: node, earlier: true, generation: generation})
		default:
			readsNeeded++
			dues = append(dues, dueHost{host: host, readNode: true, generation: generation})
		}
	}
	if readsNeeded > maxReobserved {
		return errSweepNeeded
	}
	return b.observeMany(ctx, dues, began)
}

// learnInTime learns which hosts there are, while readers wait.
func (b *bulk) learnInTime() error {
	ctx, cancel := context.WithTimeout(b.ctx, b.patience)
	defer cancel()
	return b.learnHosts(ctx)
}

// changedSince requests the feed. An Ironic that is merely slow works on for a request that was given up, and has to do it all again for
// the next one, so it has longer for an answer than readers wait. But it is not waited for twice: what follows beside a request that
// hangs, maybe because its connection is dead, ends with its readers.
func (b *bulk) changedSince(read index.FeedRead) (*ironic.Changes, error) {
	limit := b.patience
	if b.awaited.CompareAndSwap(false, true) {
		defer b.awaited.Store(false)
		limit = max(feedTimeout, b.patience)
	}
	ctx, cancel := context.WithTimeout(b.ctx, limit)
	defer cancel()
	return b.nodes.ChangedSince(ctx, read.Since, read.Expected)
}

// changedAt returns when a node in the feed was changed, by our clock, or the zero time if that is
// not known. What is subtracted is how long ago that was by Ironic's clock when it answered, so
// that the difference between both clocks does not matter.
func changedAt(node *ironic.Node, changes *ironic.Changes, answered time.Time) time.Time {
	if node.UpdatedAt == nil || changes.AnsweredAt.IsZero() {
		return time.Time{}
	}
	// The Date header counts whole seconds.
	return answered.Add(-max(changes.AnsweredAt.Sub(*node.UpdatedAt), 0))
}

// sweep reads all nodes and records what they say about each host. Readers wait for ones.
func (b *bulk) sweep(ones ...types.NamespacedName) error {
	began := b.clock.Now()
	err := b.sweepSince(began, ones)
	took := b.clock.Since(began)
	if partial := new(PartialError); err != nil && !errors.As(err, &partial) {
		took = math.MaxInt64
	}
	b.sweepTook.Store(int64(took))
	return err
}

func (b *bulk) sweepSince(began time.Time, ones []types.NamespacedName) error {
	ctx, cancel := context.WithTimeout(b.ctx, sweepTimeout)
	defer cancel()
	// The hosts are read before Ironic is asked, as in ObserveHost.
	if err := b.learnHosts(ctx); err != nil {
		return err
	}
	if err := b.learnOnes(ctx, ones); err != nil {
		return err
	}
	if b.index.CountHosts() == 0 {
		others, err := b.haveOthers(ctx)
		if err != nil || !others {
			return b.observedAll(began, err) // no host has a node, or is about to get one
		}
	}
	sweep := b.index.BeginSweep(began)
	nodes, err := b.readAllNodes(ctx, &sweep)
	if err != nil {
		return err
	}
	// A sweep that has been superseded by a later one records what that one has read, as far as nobody has yet: its
	// readers are told that all of it is recorded.
	missed, _ := b.index.ApplySweep(sweep, nodes, b.clock.Now())
	b.reportUnreadable(ctx)
	if missed > 0 {
		feedMisses.WithLabelValues(b.ironic).Add(float64(missed))
		klog.FromContext(ctx).Info("Changes were not in Ironic's feed of changes, as the clocks of its conductors differ; it is read further back from now on",
			"nodes", missed, "overlap", b.index.Overlap().String())
	}
	var dues []dueHost
	for _, candidate := range b.index.DueInSweep(sweep) {
		node, generation := b.index.NodeOf(candidate.Host)
		due := dueHost{host: candidate.Host, node: node, generation: generation, readNode: !candidate.KnownBefore}
		if node != nil {
			due.unreadable = node.Unreadable
		}
		dues = append(dues, due)
	}
	return b.observedAll(began, b.observeMany(ctx, dues, began))
}

// reportUnreadable tells operators of the nodes that Ironic cannot show. Hosts that have one of them say so themselves.
func (b *bulk) reportUnreadable(ctx context.Context) {
	nodes := b.index.Unreadable()
	unreadableNodes.WithLabelValues(b.ironic).Set(float64(len(nodes)))
	changed := b.progress.setUnreadable(nodes)
	switch {
	case changed && len(nodes) > 0:
		klog.FromContext(ctx).Info("Ironic fails to show some nodes; its log has the reason. All others are read without them", "nodes", nodes)
	case changed:
		klog.FromContext(ctx).Info("Ironic shows all nodes again")
	}
}

// readAllNodes reads the nodes for a sweep, and the part of the feed that belongs to it.
func (b *bulk) readAllNodes(ctx context.Context, sweep *index.Sweep) ([]ironic.Node, error) {
	if sweep.First {
		// Set the starting point of the feed before the nodes are read, so that later reads
		// of the feed find every change from here on, however long the sweep takes.
		read := b.index.BeginFeed(b.clock.Now())
		newest, err := b.nodes.ChangedSince(ctx, endOfTime, 1)
		if err != nil {
			return nil, err
		}
		b.index.ApplyChanges(read, newest, b.clock.Now())
		return b.nodes.ListNodes(ctx)
	}
	nodes, err := b.nodes.ListNodes(ctx)
	if err != nil {
		return nil, err
	}
	// Changes that the sweep has read must be in the feed by now. Those that are not are
	// counted as missed by ApplySweep.
	read := b.index.BeginFeed(b.clock.Now())
	changes, err := b.nodes.ChangedSince(ctx, read.Since, read.Expected)
	if err != nil {
		sweep.Unchecked = true
		return nodes, nil
	}
	b.index.ApplyChanges(read, changes, b.clock.Now())
	sweep.Unchecked = changes.Truncated
	return nodes, nil
}

// endOfTime is later than any updated_at. Reading the feed since then returns no nodes, but
// tells the latest updated_at and the time on Ironic's clock.
var endOfTime = time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)

// observedAll notes the end of an observation of all hosts: when it began. An observation that failed as a whole is not noted, nor is one
// for those hosts for which it failed. It returns err.
func (b *bulk) observedAll(began time.Time, err error) error {
	partial := new(PartialError)
	if err != nil && !errors.As(err, &partial) {
		return err
	}
	b.history.sawAll(began, partial.Hosts)
	return err
}

// sweepIfDue begins a sweep in the background before the last one is so old that readers would have
// to wait for the next.
func (b *bulk) sweepIfDue() {
	if !b.progress.beginSweep(func() bool { return b.index.IsSweepDue(b.clock.Now()) }) {
		return
	}
	b.background.Go(func() {
		defer b.progress.endSweep()
		if err := b.sweep(); err != nil && b.ctx.Err() == nil {
			klog.FromContext(b.ctx).V(2).Info("Reading all nodes failed; lists go by the feed of changes for as long as they may", "err", err)
		}
	})
}
