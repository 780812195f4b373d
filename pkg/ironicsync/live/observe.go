// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// ObserveHost reads the node of one host from Ironic and records the resulting status. The
// status is written only if the host has not been written since it was read, which was before
// Ironic was asked; otherwise both are read again. So an older observation never replaces a
// newer one, with any number of replicas.
func (r *Refresher) ObserveHost(ctx context.Context, namespace, name string) error {
	_, _, err := r.observeAndGet(ctx, namespace, name, nil)
	return IgnoreNotFound(err)
}

// observeAndGet does what ObserveHost does, and returns the host as it is recorded now and the observed node, which is nil if
// there is none. The host is read from etcd and its node from Ironic, one after the other. If cached is the host as it was known
// before the call, both are read at the same time, as far as readHost allows.
func (r *Refresher) observeAndGet(ctx context.Context, namespace, name string, cached *metal3.BareMetalHost) (*metal3.BareMetalHost, *ironic.Node, error) {
	for race := 0; ; race++ {
		began := r.clock.Now()
		host, read, err := r.readHost(ctx, namespace, name, cached)
		if err != nil || host.Status.Provisioning.ID == "" {
			return host, nil, err // the host has no node yet, so there is nothing to observe
		}
		if host.Status.Record.IsLater() {
			return nil, nil, &LaterError{host.Status.Record.WhyLeftAlone()}
		}
		if !r.has(host) {
			return nil, nil, &ElsewhereError{Namespace: namespace, Name: name, Ironic: host.Status.Record.Ironic}
		}
		if read == nil {
			read = r.readNode(ctx, host)
		}
		if read.err != nil && !ironic.IsNotFound(read.err) {
			return nil, nil, read.err
		}
		recorded, observation, err := r.observe(ctx, host, read.node, true)
		if err == nil {
			r.keepRecent(recorded, observation.Node, began)
		}
		if err == nil || !apierrors.IsConflict(err) || race == MaxRaces {
			return recorded, observation.Node, err
		}
		cached = nil // a later version is recorded
	}
}

// nodeRead is the result of reading the node of a host.
type nodeRead struct {
	node *ironic.Node
	err  error
}

// has reports whether a host has its node in the Ironic that is observed. Another Ironic would say that there is no such
// node, and the host would be taken for one that has lost its machine.
func (r *Refresher) has(host *metal3.BareMetalHost) bool {
	return host.Status.Provisioning.ID != "" && host.Status.Record.Ironic == r.ironic
}

func (r *Refresher) readNode(ctx context.Context, host *metal3.BareMetalHost) *nodeRead {
	began := r.clock.Now()
	node, err := r.nodes.GetNode(ctx, host.Status.Provisioning.ID)
	if ironic.IsNotFound(err) {
		r.index.Doubt(host.Status.Provisioning.ID, began)
	}
	return &nodeRead{node, err}
}

// readHost reads a host from etcd and, at the same time, the node of the cached host, if it has one.
// That read of the node is returned only if the host in etcd is still the cached one, so that the
// returned host was known before Ironic was asked. Otherwise the nodeRead is nil.
func (r *Refresher) readHost(ctx context.Context, namespace, name string, cached *metal3.BareMetalHost) (host *metal3.BareMetalHost, read *nodeRead, err error) {
	if cached == nil || !r.has(cached) || cached.Status.Record.IsLater() {
		host, err = r.hosts.Get(ctx, namespace, name)
		return host, nil, err
	}
	nodeCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	done, unchanged := make(chan struct{}), false
	go func() {
		defer close(done)
		host, err = r.hosts.Get(ctx, namespace, name)
		if unchanged = err == nil && host.UID == cached.UID && host.ResourceVersion == cached.ResourceVersion; !unchanged {
			cancel()
		}
	}()
	// Ironic takes longer than etcd, so it is asked here and not in the new goroutine, which may
	// begin only when this one blocks.
	read = r.readNode(nodeCtx, cached)
	<-done
	if !unchanged {
		read = nil
	}
	return host, read, err
}

// observe records the observation of a host's node, and returns the host as it is recorded
// then. The host must have been read before the node. The node is nil if Ironic has none;
// observe redacts passwords in it. With readInventory, the inventory of a finished inspection
// is read if it has not been yet.
func (r *Refresher) observe(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, readInventory bool) (*metal3.BareMetalHost, lifecycle.Observation, error) {
	seen := r.observationOf(host, node)
	if seen.IsConcealed(host) {
		recorded, err := r.record(ctx, host, seen)
		return recorded, seen, err
	}
	if seen.Node != nil {
		if err := r.RedactPassword(ctx, host, node); err != nil {
			withhold(host, node, err)
		}
		if readInventory && r.isInventoryDue(host, seen) {
			// A slow or large inventory must not use up the time for the other hosts.
			inventoryCtx, cancel := context.WithTimeout(ctx, inventoryTimeout)
			seen.Inspected = r.readInventory(r.Guard(inventoryCtx, host), host, node)
			cancel()
		}
	}
	if seen.Node != nil && lifecycle.IsSetBack(host, seen.Node) && r.index.SetBackFor(seen.Node, r.clock.Now()) < setBackGrace {
		return host, seen, errSetBack
	}
	recorded, err := r.record(ctx, host, seen)
	if seen.Inspected != nil && seen.Inspected.Hardware != nil && err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		// The inventory may be why etcd refuses the host. Record everything else.
		seen.Inspected = &lifecycle.Inspected{Problem: fmt.Sprintf("it cannot be recorded: %v", err)}
		recorded, err = r.record(ctx, host, seen)
	}
	return recorded, seen, err
}

// observationOf returns what a node says of a host before anything else is read. A node that was made for another host
// is none of this host's.
func (r *Refresher) observationOf(host *metal3.BareMetalHost, node *ironic.Node) lifecycle.Observation {
	seen := lifecycle.Observation{CallbackTimeout: r.callbackTimeout, Cluster: r.cluster()}
	if node != nil && !node.IsAnothers(host.Namespace, host.Name) {
		seen.Node = node
	}
	return seen
}

// setBackGrace is how long Ironic must say of a node that it is in an earlier state again, until that is believed: one member
// of a Galera cluster shows for a moment what another one has replaced.
const setBackGrace = 2 * time.Second

// errSetBack is that a node seems to be in an earlier state again.
var errSetBack = errors.New("Ironic has answered with an earlier state of the node than before: a replica of its database may lag behind")

// record writes the host's status if the observation changes it, and returns the host as it
// is recorded then.
func (r *Refresher) record(ctx context.Context, host *metal3.BareMetalHost, observation lifecycle.Observation) (*metal3.BareMetalHost, error) {
	status, changed := lifecycle.Observe(host, observation, r.clock.Now())
	if !changed {
		return host, nil
	}
	updated := host.DeepCopy()
	updated.Status = status
	return r.hosts.Record(ctx, updated)
}

// dueHost is a host that has to be observed.
type dueHost struct {
	host *metal3.BareMetalHost
	// node is the host's node if it was read after the host; nil if Ironic has none.
	node *ironic.Node
	// readNode is set if the node has to be read first, because the one in the index may be
	// older than what is recorded.
	readNode bool
	// earlier is set if the node was read by an earlier observation that ended before it had
	// recorded it, and the feed has shown no change since.
	earlier bool
	// unreadable is why Ironic cannot show the node; empty if it can. It was just asked.
	unreadable string
	// generation is that of the index's entry for the node.
	generation uint64
	// changed is when the node was changed, by our clock; zero if that is not known.
	changed time.Time
}

// observeMany records observations of several hosts. A failure for one host does not affect
// the others: the error is a *PartialError, or that of ctx. The nodes were not read before
// the time began.
func (r *Refresher) observeMany(ctx context.Context, hosts []dueHost, began time.Time) error {
	failed := map[types.NamespacedName]error{}
	hosts = slices.DeleteFunc(hosts, func(d dueHost) bool {
		key := types.NamespacedName{Namespace: d.host.Namespace, Name: d.host.Name}
		switch record := &d.host.Status.Record; {
		case record.IsLater():
			failed[key] = &LaterError{record.WhyLeftAlone()}
		case d.unreadable != "":
			failed[key] = &ironic.UnavailableError{Op: "get node " + d.host.Status.Provisioning.ID, Reason: d.unreadable}
		}
		return failed[key] != nil
	})
	for _, d := range hosts {
		if d.node != nil && !d.readNode {
			r.index.SetPending(d.host, d.generation)
		}
	}
	var mu sync.Mutex
	inventories := 0
	mayReadInventory := func(d dueHost) bool {
		mu.Lock()
		defer mu.Unlock()
		if d.node == nil || inventories >= inventoriesPerBulk || !r.isInventoryDue(d.host, r.observationOf(d.host, d.node)) {
			return false
		}
		inventories++
		return true
	}
	workqueue.ParallelizeUntil(ctx, recorders, len(hosts), func(n int) {
		d := hosts[n]
		recorded, node, again, err := r.observeDue(ctx, d, mayReadInventory(d), began)
		switch {
		case apierrors.IsNotFound(err): // the host was deleted meanwhile
		case err != nil:
			mu.Lock()
			defer mu.Unlock()
			failed[types.NamespacedName{Namespace: d.host.Namespace, Name: d.host.Name}] = err
		case node == nil && d.node == nil, node != nil && !isWithheld(node) && !r.observationOf(recorded, node).NeedsInventory(recorded) && (!again || r.index.Has(node, d.generation)):
			r.index.SetRecorded(recorded, d.generation)
		default:
			r.index.KnowHosts(recorded) // the watch will tell of this version a moment later
		}
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(failed) > 0 {
		return &PartialError{Hosts: failed}
	}
	return nil
}

// observeDue records the observation of one of several hosts, and returns the host as it is recorded then, and the node
// that it shows. If again is set, the node was read again and may be newer than that of the index: what was
// read between two reads of the feed, such as a lock, must not pass for what the feed has shown, because it would stay
// recorded.
func (r *Refresher) observeDue(ctx context.Context, d dueHost, readInventory bool, began time.Time) (recorded *metal3.BareMetalHost, shown *ironic.Node, again bool, err error) {
	if d.readNode {
		recorded, shown, err = r.observeAndGet(ctx, d.host.Namespace, d.host.Name, nil)
		return recorded, shown, true, err
	}
	node := d.node
	if node != nil {
		// Passwords are redacted in a copy: the index keeps the node as Ironic returned it,
		// to compare it with what Ironic returns later.
		copied := *node
		node = &copied
	}
	recorded, seen, err := r.observe(ctx, d.host, node, readInventory)
	if err == nil && !d.earlier {
		r.keepRecent(recorded, seen.Node, began)
	}
	if err == nil && !d.changed.IsZero() && recorded.ResourceVersion != d.host.ResourceVersion {
		changeDelay.WithLabelValues(r.ironic).Observe(r.clock.Since(d.changed).Seconds())
	}
	if apierrors.IsConflict(err) {
		return r.observeAfterConflict(ctx, d)
	}
	return recorded, seen.Node, false, err
}

// observeAfterConflict observes a host that was written after it had been read. If it was
// written by another observation of this replica that knew the same contents of the node,
// nothing is left to do.
func (r *Refresher) observeAfterConflict(ctx context.Context, d dueHost) (recorded *metal3.BareMetalHost, shown *ironic.Node, again bool, err error) {
	host, err := r.hosts.Get(ctx, d.host.Namespace, d.host.Name)
	if err != nil || r.index.IsRecorded(host, d.generation) {
		return host, d.node, false, err
	}
	recorded, shown, err = r.observeAndGet(ctx, d.host.Namespace, d.host.Name, nil)
	return recorded, shown, true, err
}

// inventoryGrace is how long an inspected node may have no inventory: Ironic sets the node to
// manageable a moment before it stores the inventory.
const inventoryGrace = 30 * time.Second

// formerInventoryGrace is how long what an inspection is said to have found must be the same as what is recorded, until
// it is believed that the hardware has not changed: until Ironic stores the new inventory, it answers with that of the
// inspection before.
const formerInventoryGrace = 5 * time.Second

// inventoryPatience is how long a host waits for an inventory that Ironic has and does not give, before it goes on without it.
const inventoryPatience = 5 * time.Minute

// inventoryTimeout bounds the read of one inventory.
const inventoryTimeout = 700 * time.Millisecond

// fakeDriver is the driver whose inspection succeeds without storing an inventory.
const fakeDriver = "fake-hardware"

// isInventoryDue reports whether the inventory of the node's last inspection is to be read now.
func (r *Refresher) isInventoryDue(host *metal3.BareMetalHost, seen lifecycle.Observation) bool {
	return seen.NeedsInventory(host) && r.index.IsInventoryDue(seen.Node, r.clock.Now())
}

// readInventory reads the inventory of a finished inspection. If it cannot be read now, the
// result is nil, the rest of the node is recorded all the same, and a later observation tries
// again.
func (r *Refresher) readInventory(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node) *lifecycle.Inspected {
	raw, err := r.nodes.GetInventory(ctx, node.UUID)
	switch {
	case ironic.IsNotIronic(err):
		return &lifecycle.Inspected{Problem: err.Error()} // the answer is malformed, and will stay so
	case err != nil:
		missing := r.index.InventoryMissing(node, r.clock.Now())
		klog.FromContext(ctx).V(2).Info("The inventory of a host cannot be read now", "host", klog.KObj(host), "node", node.UUID, "err", err)
		switch {
		case ironic.IsNotFound(err) && (node.Driver == fakeDriver || missing > inventoryGrace):
			return &lifecycle.Inspected{} // there will be none
		case ironic.IsNotFound(err), missing <= inventoryGrace:
			return nil
		}
		return &lifecycle.Inspected{Problem: err.Error(), Pending: true, Overdue: missing > inventoryPatience}
	}
	hardware, unread, err := lifecycle.HardwareFrom(raw, host.Status.HardwareDetails)
	if err != nil {
		// Reading it again would not help: there is no usable inventory until the next inspection.
		return &lifecycle.Inspected{Problem: err.Error()}
	}
	inspectedBefore := host.Status.Ironic != nil && host.Status.Ironic.InspectionFinishedAt != nil
	if inspectedBefore && equality.Semantic.DeepEqual(hardware, host.Status.HardwareDetails) && r.index.InventoryMissing(node, r.clock.Now()) < formerInventoryGrace {
		return nil // it may be that of the inspection before
	}
	return &lifecycle.Inspected{Hardware: hardware, Unread: unread}
}
