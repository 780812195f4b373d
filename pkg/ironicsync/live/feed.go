// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
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

// errSweepNeeded means that all nodes have to be read.
var errSweepNeeded = errors.New("more has changed than the feed of changes shows")

// observeAll records what Ironic says about all hosts. It reads the feed if that suffices,
// and all nodes otherwise.
func (r *Refresher) observeAll() error {
	began := r.clock.Now()
	r.mu.Lock()
	sweeping := r.sweeping
	r.mu.Unlock()
	if !r.index.IsFeedTrusted(began, sweeping) {
		return r.sweep()
	}
	ctx, cancel := context.WithTimeout(r.ctx, r.patience())
	defer cancel()
	if err := r.learnHosts(ctx); err != nil {
		return err
	}
	err := r.readFeed(ctx)
	if errors.Is(err, errSweepNeeded) {
		return r.sweep()
	}
	return r.observedAll(began, err)
}

// readFeed reads the feed and observes the hosts whose nodes have changed, and those that have changed themselves.
func (r *Refresher) readFeed(ctx context.Context) error {
	began := r.clock.Now()
	read := r.index.BeginFeed(began)
	changes, err := r.nodes.ChangedSince(ctx, read.Since, read.Expected)
	if err != nil {
		return err
	}
	answered := r.clock.Now()
	delivered, complete := r.index.ApplyChanges(read, changes, answered)
	if changes.Truncated || !complete {
		return errSweepNeeded
	}
	var dues []dueHost
	readsNeeded := 0
	for _, candidate := range r.index.DueInFeed(read) {
		host := candidate.Host
		node, generation := r.index.NodeOf(host)
		switch {
		case host.Status.Record.IsLater():
			dues = append(dues, dueHost{host: host}) // of which nothing is read
		case node != nil && node.Unreadable != "":
			dues = append(dues, dueHost{host: host, unreadable: node.Unreadable})
		case node != nil && delivered[node.UUID] && candidate.KnownBefore:
			dues = append(dues, dueHost{host: host, node: node, generation: generation, changed: changedAt(node, changes, answered)})
		case node != nil && r.isAsRecorded(host, node, answered):
			r.index.SetRecorded(host, generation)
		case node != nil && r.index.IsPending(host, generation):
			dues = append(dues, dueHost{host: host, node: node, earlier: true, generation: generation})
		default:
			readsNeeded++
			dues = append(dues, dueHost{host: host, readNode: true, generation: generation})
		}
	}
	if readsNeeded > maxReobserved {
		return errSweepNeeded
	}
	return r.observeMany(ctx, dues, began)
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

// sweep reads all nodes and records what they say about each host.
func (r *Refresher) sweep() error {
	began := r.clock.Now()
	err := r.sweepSince(began)
	took := r.clock.Since(began)
	if partial := new(PartialError); err != nil && !errors.As(err, &partial) {
		took = math.MaxInt64
	}
	r.sweepTook.Store(int64(took))
	return err
}

func (r *Refresher) sweepSince(began time.Time) error {
	ctx, cancel := context.WithTimeout(r.ctx, sweepTimeout)
	defer cancel()
	// The hosts are read before Ironic is asked, as in ObserveHost.
	if err := r.learnHosts(ctx); err != nil {
		return err
	}
	if r.index.CountHosts() == 0 {
		others, err := r.haveOthers(ctx)
		if err != nil || !others {
			return r.observedAll(began, err) // no host has a node, or is about to get one
		}
	}
	sweep := r.index.BeginSweep(began)
	nodes, err := r.readAllNodes(ctx, &sweep)
	if err != nil {
		return err
	}
	// A sweep that has been superseded by a later one records what that one has read, as far as nobody has yet: its
	// readers are told that all of it is recorded.
	missed, _ := r.index.ApplySweep(sweep, nodes, r.clock.Now())
	r.reportUnreadable(ctx)
	if missed > 0 {
		feedMisses.WithLabelValues(r.ironic).Add(float64(missed))
		klog.FromContext(ctx).Info("Changes were not in Ironic's feed of changes, as the clocks of its conductors differ; it is read further back from now on",
			"nodes", missed, "overlap", r.index.Overlap().String())
	}
	var dues []dueHost
	for _, candidate := range r.index.DueInSweep(sweep) {
		node, generation := r.index.NodeOf(candidate.Host)
		due := dueHost{host: candidate.Host, node: node, generation: generation, readNode: !candidate.KnownBefore}
		if node != nil {
			due.unreadable = node.Unreadable
		}
		dues = append(dues, due)
	}
	return r.observedAll(began, r.observeMany(ctx, dues, began))
}

// reportUnreadable tells operators of the nodes that Ironic cannot show. Hosts that have one of them say so themselves.
func (r *Refresher) reportUnreadable(ctx context.Context) {
	nodes := r.index.Unreadable()
	unreadableNodes.WithLabelValues(r.ironic).Set(float64(len(nodes)))
	r.mu.Lock()
	changed := !slices.Equal(r.unreadable, nodes)
	r.unreadable = nodes
	r.mu.Unlock()
	switch {
	case changed && len(nodes) > 0:
		klog.FromContext(ctx).Info("Ironic fails to show some nodes; its log has the reason. All others are read without them", "nodes", nodes)
	case changed:
		klog.FromContext(ctx).Info("Ironic shows all nodes again")
	}
}

// readAllNodes reads the nodes for a sweep, and the part of the feed that belongs to it.
func (r *Refresher) readAllNodes(ctx context.Context, sweep *index.Sweep) ([]ironic.Node, error) {
	if sweep.First {
		// Set the starting point of the feed before the nodes are read, so that later reads
		// of the feed find every change from here on, however long the sweep takes.
		read := r.index.BeginFeed(r.clock.Now())
		newest, err := r.nodes.ChangedSince(ctx, endOfTime, 1)
		if err != nil {
			return nil, err
		}
		r.index.ApplyChanges(read, newest, r.clock.Now())
		return r.nodes.ListNodes(ctx)
	}
	nodes, err := r.nodes.ListNodes(ctx)
	if err != nil {
		return nil, err
	}
	// Changes that the sweep has read must be in the feed by now. Those that are not are
	// counted as missed by ApplySweep.
	read := r.index.BeginFeed(r.clock.Now())
	changes, err := r.nodes.ChangedSince(ctx, read.Since, read.Expected)
	if err != nil {
		sweep.Unchecked = true
		return nodes, nil
	}
	r.index.ApplyChanges(read, changes, r.clock.Now())
	sweep.Unchecked = changes.Truncated
	return nodes, nil
}

// endOfTime is later than any updated_at. Reading the feed since then returns no nodes, but
// tells the latest updated_at and the time on Ironic's clock.
var endOfTime = time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)

// observedAll notes the end of an observation of all hosts: when it began. An observation that failed as a whole is not noted, nor is one
// for those hosts for which it failed. It returns err.
func (r *Refresher) observedAll(began time.Time, err error) error {
	partial := new(PartialError)
	if err != nil && !errors.As(err, &partial) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if began.After(r.seenAll) {
		unseen := make(map[types.NamespacedName]time.Time, len(partial.Hosts))
		for key := range partial.Hosts {
			unseen[key] = r.lastSeenLocked(key)
		}
		r.seenAll, r.unseen = began, unseen
		for key, seen := range r.seen {
			if seen.Before(began) {
				delete(r.seen, key)
			}
		}
	}
	return err
}

// isAsRecorded reports whether an observation of the node would leave the host's status as it
// is recorded.
func (r *Refresher) isAsRecorded(host *metal3.BareMetalHost, node *ironic.Node, now time.Time) bool {
	seen := r.observationOf(host, node)
	if seen.Node == nil || seen.NeedsInventory(host) {
		return false
	}
	_, changed := lifecycle.Observe(host, seen, now)
	return !changed
}
