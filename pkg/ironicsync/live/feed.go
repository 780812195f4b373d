package live

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// A read of all hosts need not read all nodes, which costs Ironic some 0.15 ms for each.
// It goes by the feed: the nodes that have changed, newest first, until it meets what
// this replica has seen already. What the feed cannot show is that a node was deleted,
// and a change by a conductor whose clock lags by more than the overlap that is read
// back. So all nodes are read from time to time (a sweep), which also checks the feed.

// maxReobserved bounds the hosts that are asked for one by one beside the feed: new
// ones, and those that somebody else has written. Where there are more, a sweep is cheaper.
const maxReobserved = 32

// errSweepNeeded tells that the feed does not suffice.
var errSweepNeeded = errors.New("more has changed than the feed of changes shows")

// observeAll asks Ironic what has changed, or for all nodes where that does not suffice,
// and records what it says of each host.
func (r *Refresher) observeAll() error {
	began := r.clock.Now()
	r.mu.Lock()
	sweeping := r.sweeping
	r.mu.Unlock()
	if !r.view.isFeedTrusted(began, sweeping) {
		return r.sweep()
	}
	ctx, cancel := context.WithTimeout(r.ctx, r.patience())
	defer cancel()
	hosts, err := r.hosts.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	err = r.readFeed(ctx, hosts.Items)
	if errors.Is(err, errSweepNeeded) {
		return r.sweep()
	}
	return r.observedAll(began, len(hosts.Items), err)
}

// readFeed observes the hosts whose nodes have changed. The hosts were read before.
func (r *Refresher) readFeed(ctx context.Context, hosts []metal3.BareMetalHost) error {
	began := r.clock.Now()
	read := r.view.beginFeed(began)
	changes, err := r.nodes.ChangedSince(ctx, read.since, read.expected)
	if err != nil {
		return err
	}
	delivered := r.view.applyChanges(read, changes, r.clock.Now())
	if changes.Truncated {
		return errSweepNeeded
	}
	var dues []due
	asks := 0
	now := r.clock.Now()
	for i := range hosts {
		host := &hosts[i]
		if host.Status.Provisioning.ID == "" {
			continue
		}
		node, generation := r.view.lookUp(host)
		if r.view.isObserved(host, generation) && (node == nil || !changesByItself(node)) {
			continue
		}
		switch {
		case node != nil && delivered[node.UUID]:
			dues = append(dues, due{host: host, node: node, generation: generation})
		case node != nil && isAsRecorded(host, node, r.CallbackTimeout, now):
			r.view.setObserved(host, generation)
		case node != nil && r.view.isPending(host, generation):
			dues = append(dues, due{host: host, node: node, earlier: true, generation: generation})
		default:
			asks++
			dues = append(dues, due{host: host, ask: true, generation: generation})
		}
	}
	if asks > maxReobserved {
		return errSweepNeeded
	}
	return r.observeMany(ctx, dues, began)
}

// sweep reads all nodes, and records what they say of each host.
func (r *Refresher) sweep() error {
	ctx, cancel := context.WithTimeout(r.ctx, sweepTimeout)
	defer cancel()
	began := r.clock.Now()
	// Read before Ironic is asked, as in ObserveHost.
	hosts, err := r.hosts.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if !anyInIronic(hosts.Items) {
		return r.observedAll(began, len(hosts.Items), nil) // there is nothing to ask
	}
	mark := r.view.beginSweep()
	if mark.first {
		// What changes from here on is found by the feed, however long the sweep takes.
		read := r.view.beginFeed(r.clock.Now())
		newest, err := r.nodes.ChangedSince(ctx, endOfTime, 1)
		if err != nil {
			return err
		}
		r.view.applyChanges(read, newest, r.clock.Now())
	}
	nodes, err := r.nodes.ListNodes(ctx)
	if err != nil {
		return err
	}
	if !mark.first {
		// What has changed before the nodes were read is in the feed now, unless it failed to show it.
		read := r.view.beginFeed(r.clock.Now())
		if changes, err := r.nodes.ChangedSince(ctx, read.since, read.expected); err == nil {
			r.view.applyChanges(read, changes, r.clock.Now())
			mark.unchecked = changes.Truncated
		} else {
			mark.unchecked = true
		}
	}
	missed, superseded := r.view.applySweep(mark, nodes, hosts.Items, began)
	if superseded {
		return nil // another sweep began later and has ended: what it recorded is newer
	}
	if missed > 0 {
		feedMisses.Add(float64(missed))
		klog.FromContext(ctx).Info("Changes were not in Ironic's feed of changes, as the clocks of its conductors differ; it is read further back from now on",
			"nodes", missed, "overlap", r.view.currentOverlap().String())
	}
	var dues []due
	for i := range hosts.Items {
		host := &hosts.Items[i]
		if host.Status.Provisioning.ID == "" {
			continue
		}
		node, generation := r.view.lookUp(host)
		if !r.view.isObserved(host, generation) || node != nil && changesByItself(node) {
			dues = append(dues, due{host: host, node: node, generation: generation})
		}
	}
	return r.observedAll(began, len(hosts.Items), r.observeMany(ctx, dues, began))
}

// endOfTime is later than anything has changed.
var endOfTime = time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)

// observedAll notes that an observation of all hosts that began at a time has ended.
func (r *Refresher) observedAll(began time.Time, hosts int, err error) error {
	if partial := new(PartialError); err != nil && !errors.As(err, &partial) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = hosts
	if began.After(r.seenAll) {
		r.seenAll = began
		for key, seen := range r.seen {
			if seen.Before(began) {
				delete(r.seen, key)
			}
		}
	}
	return err
}

// isAsRecorded tells whether what is known of a node is what its host shows already.
func isAsRecorded(host *metal3.BareMetalHost, node *ironic.Node, callbackTimeout time.Duration, now time.Time) bool {
	if node.IsAnothers(host.Namespace, host.Name) || lifecycle.NeedsInventory(host, node) {
		return false
	}
	_, changed := lifecycle.Observe(host, lifecycle.Observation{Node: node, CallbackTimeout: callbackTimeout}, now)
	return !changed
}

// changesByItself tells whether the status changes by the passing of time: the ramdisk
// of such a node is timed out by us (lifecycle.Observation.CallbackTimeout).
func changesByItself(node *ironic.Node) bool { return node.IsOwnParent() }

func anyInIronic(hosts []metal3.BareMetalHost) bool {
	for i := range hosts {
		if hosts[i].Status.Provisioning.ID != "" {
			return true
		}
	}
	return false
}
