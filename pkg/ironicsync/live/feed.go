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
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live/index"
)

// Reading all nodes costs Ironic some 0.15 ms for each of them, so most observations of
// all hosts read the feed instead: the nodes ordered by updated_at, newest first, down to
// the ones that this replica has seen already. Package index says what the feed does not show,
// and when all nodes are read as well.

// maxReobserved bounds the hosts whose nodes are requested one by one in addition to the
// feed: new hosts, and hosts that somebody else has written. If there are more, a sweep is
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

// readFeed reads the feed and observes the hosts whose nodes have changed. The hosts must
// have been read from etcd before the call.
func (r *Refresher) readFeed(ctx context.Context, hosts []metal3.BareMetalHost) error {
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
	for i := range hosts {
		host := &hosts[i]
		if host.Status.Provisioning.ID == "" {
			continue
		}
		node, generation := r.index.NodeOf(host)
		if r.index.IsRecorded(host, generation) && (node == nil || !changesByItself(node)) {
			continue
		}
		switch {
		case node != nil && delivered[node.UUID]:
			dues = append(dues, dueHost{host: host, node: node, generation: generation, changed: changedAt(node, changes, answered)})
		case node != nil && isAsRecorded(host, node, r.callbackTimeout, answered):
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
	ctx, cancel := context.WithTimeout(r.ctx, sweepTimeout)
	defer cancel()
	began := r.clock.Now()
	// The hosts are read before Ironic is asked, as in ObserveHost.
	hosts, err := r.hosts.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if !anyInIronic(hosts.Items) {
		return r.observedAll(began, len(hosts.Items), nil) // no host has a node, or is about to get one
	}
	sweep := r.index.BeginSweep(began)
	nodes, err := r.readAllNodes(ctx, &sweep)
	if err != nil {
		return err
	}
	// A sweep that has been superseded by a later one records what that one has read, as far as nobody has yet: its
	// readers are told that all of it is recorded.
	missed, _ := r.index.ApplySweep(sweep, nodes, hosts.Items)
	if missed > 0 {
		feedMisses.Add(float64(missed))
		klog.FromContext(ctx).Info("Changes were not in Ironic's feed of changes, as the clocks of its conductors differ; it is read further back from now on",
			"nodes", missed, "overlap", r.index.Overlap().String())
	}
	var dues []dueHost
	for i := range hosts.Items {
		host := &hosts.Items[i]
		if host.Status.Provisioning.ID == "" {
			continue
		}
		node, generation := r.index.NodeOf(host)
		if !r.index.IsRecorded(host, generation) || node != nil && changesByItself(node) {
			dues = append(dues, dueHost{host: host, node: node, generation: generation})
		}
	}
	return r.observedAll(began, len(hosts.Items), r.observeMany(ctx, dues, began))
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

// observedAll notes the end of an observation of all hosts: when it began, and how many
// hosts there are. An observation that failed as a whole is not noted. It returns err.
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

// isAsRecorded tells whether an observation of the node would leave the host's status as it
// is recorded.
func isAsRecorded(host *metal3.BareMetalHost, node *ironic.Node, callbackTimeout time.Duration, now time.Time) bool {
	if node.IsAnothers(host.Namespace, host.Name) || lifecycle.NeedsInventory(host, node) {
		return false
	}
	_, changed := lifecycle.Observe(host, lifecycle.Observation{Node: node, CallbackTimeout: callbackTimeout}, now)
	return !changed
}

// changesByItself tells whether the status of the node's host can change although the node
// does not. Ironic does not time out the ramdisk of a node that it does not poll, so
// lifecycle.Observe does (see lifecycle.Observation.CallbackTimeout).
func changesByItself(node *ironic.Node) bool { return node.IsNotPolled() }

func anyInIronic(hosts []metal3.BareMetalHost) bool {
	for i := range hosts {
		if hosts[i].Status.Provisioning.ID != "" || hosts[i].Spec.BMC.Address != "" {
			return true
		}
	}
	return false
}
