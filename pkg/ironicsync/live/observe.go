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
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live/index"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/panics"
)

// observer reads hosts and their nodes, and records what the nodes say.
type observer struct {
	Passwords // of what is observed

	ironic          string
	hosts           Hosts
	nodes           Nodes
	clock           clock.WithDelayedExecution
	callbackTimeout time.Duration
	cluster         func() string

	index  *index.Index       // what this replica knows about Ironic's nodes
	recent recentObservations // the latest observations of hosts
}

// ObserveHost reads the node of one host from Ironic and records the resulting status. The
// status is written only if the host has not been written since it was read, which was before
// Ironic was asked; otherwise both are read again. So an older observation never replaces a
// newer one, with any number of replicas.
func (o *observer) ObserveHost(ctx context.Context, namespace, name string) error {
	_, _, err := o.observeAndGet(ctx, namespace, name, nil)
	return IgnoreNotFound(err)
}

// observeAndGet does what ObserveHost does, and returns the host as it is recorded now and the observed node, which is nil if
// there is none. The host is read from etcd and its node from Ironic, one after the other. If cached is the host as it was known
// before the call, both are read at the same time, as far as readHost allows.
func (o *observer) observeAndGet(ctx context.Context, namespace, name string, cached *metal3.BareMetalHost) (*metal3.BareMetalHost, *ironic.Node, error) {
	for race := 0; ; race++ {
		began := o.clock.Now()
		host, read, err := o.readHost(ctx, namespace, name, cached)
		if err != nil || host.Status.Provisioning.ID == "" {
			return host, nil, err // the host has no node yet, so there is nothing to observe
		}
		if host.Status.Record.IsLater() {
			return nil, nil, &LaterError{host.Status.Record.WhyLeftAlone()}
		}
		if !o.has(host) {
			return nil, nil, &ElsewhereError{Namespace: namespace, Name: name, Ironic: host.Status.Record.Ironic}
		}
		if read == nil {
			read = o.readNode(ctx, host)
		}
		if read.err != nil && !ironic.IsNotFound(read.err) {
			return nil, nil, read.err
		}
		recorded, observation, err := o.observe(ctx, host, read.node, always)
		if err == nil {
			o.keepRecent(recorded, observation.Node, began)
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
func (o *observer) has(host *metal3.BareMetalHost) bool {
	return host.Status.Provisioning.ID != "" && host.Status.Record.Ironic == o.ironic
}

func (o *observer) readNode(ctx context.Context, host *metal3.BareMetalHost) *nodeRead {
	began := o.clock.Now()
	node, err := o.nodes.GetNode(ctx, host.Status.Provisioning.ID)
	if ironic.IsNotFound(err) {
		o.index.Doubt(host.Status.Provisioning.ID, began)
	}
	return &nodeRead{node, err}
}

// readHost reads a host from etcd and, at the same time, the node of the cached host, if it has one.
// That read of the node is returned only if the host in etcd is still the cached one, so that the
// returned host was known before Ironic was asked. Otherwise the nodeRead is nil.
func (o *observer) readHost(ctx context.Context, namespace, name string, cached *metal3.BareMetalHost) (host *metal3.BareMetalHost, read *nodeRead, err error) {
	if cached == nil || !o.has(cached) || cached.Status.Record.IsLater() {
		host, err = o.hosts.Get(ctx, namespace, name)
		return host, nil, err
	}
	nodeCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	done, unchanged := make(chan struct{}), false
	go func() {
		defer close(done)
		host, err = o.hosts.Get(ctx, namespace, name)
		if unchanged = err == nil && host.UID == cached.UID && host.ResourceVersion == cached.ResourceVersion; !unchanged {
			cancel()
		}
	}()
	// Ironic takes longer than etcd, so it is asked here and not in the new goroutine, which may
	// begin only when this one blocks.
	read = o.readNode(nodeCtx, cached)
	<-done
	if !unchanged {
		read = nil
	}
	return host, read, err
}

func always() bool { return true }

// observe records the observation of a host's node, and returns the host as it is recorded
// then. The host must have been read before the node. The node is nil if Ironic has none;
// observe redacts passwords in it. If the inventory of a finished inspection has not been read
// yet, it is, unless mayReadInventory says that it is for later.
//
// A panic is an error of this host: what Ironic and a BMC say of one machine does not end the server, whose other replicas would read
// it, too.
func (o *observer) observe(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, mayReadInventory func() bool) (recorded *metal3.BareMetalHost, seen lifecycle.Observation, err error) {
	defer panics.Catch(ctx, func(bug error) { recorded, err = host, bug }, "host", klog.KObj(host))
	seen = o.observationOf(host, node)
	if seen.IsConcealed(host) {
		recorded, err := o.record(ctx, host, seen)
		return recorded, seen, err
	}
	if seen.Node != nil {
		if err := o.RedactPassword(ctx, host, node); err != nil {
			withhold(host, node, err)
		}
		if o.isInventoryDue(host, seen) && mayReadInventory() {
			// A slow or large inventory must not use up the time for the other hosts.
			inventoryCtx, cancel := context.WithTimeout(ctx, inventoryTimeout)
			seen.Inspected = o.readInventory(o.Guard(inventoryCtx, host), host, node)
			cancel()
		}
	}
	switch {
	case seen.Node == nil:
	case !lifecycle.IsSetBack(host, seen.Node):
		o.index.NotSetBack(seen.Node.UUID)
	case o.index.SetBackFor(seen.Node, o.clock.Now()) < setBackGrace:
		return host, seen, errSetBack
	}
	recorded, err = o.record(ctx, host, seen)
	if seen.Inspected != nil && seen.Inspected.Hardware != nil && err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		// The inventory may be why etcd refuses the host. Record everything else.
		seen.Inspected = &lifecycle.Inspected{Problem: fmt.Sprintf("it cannot be recorded: %v", err)}
		recorded, err = o.record(ctx, host, seen)
	}
	return recorded, seen, err
}

// observationOf returns what a node says of a host before anything else is read. A node that was made for another host
// is none of this host's.
func (o *observer) observationOf(host *metal3.BareMetalHost, node *ironic.Node) lifecycle.Observation {
	seen := lifecycle.Observation{CallbackTimeout: o.callbackTimeout, Cluster: o.cluster()}
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
func (o *observer) record(ctx context.Context, host *metal3.BareMetalHost, observation lifecycle.Observation) (*metal3.BareMetalHost, error) {
	status, changed := lifecycle.Observe(host, observation, o.clock.Now())
	if !changed {
		return host, nil
	}
	updated := host.DeepCopy()
	updated.Status = status
	return o.hosts.Record(ctx, updated)
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
func (o *observer) observeMany(ctx context.Context, hosts []dueHost, began time.Time) error {
	failed := map[types.NamespacedName]error{}
	hosts = slices.DeleteFunc(hosts, func(d dueHost) bool {
		key := types.NamespacedName{Namespace: d.host.Namespace, Name: d.host.Name}
		switch record := &d.host.Status.Record; {
		case record.IsLater():
			failed[key] = &LaterError{record.WhyLeftAlone()}
		case d.unreadable != "":
			failed[key] = &ironic.UnavailableError{Op: "get node " + d.host.Status.Provisioning.ID, Class: ironic.ClassOfNode, Reason: d.unreadable}
		}
		return failed[key] != nil
	})
	for _, d := range hosts {
		if d.node != nil && !d.readNode {
			o.index.SetPending(d.host, d.generation)
		}
	}
	var mu sync.Mutex
	inventories := 0
	mayReadInventory := func() bool {
		mu.Lock()
		defer mu.Unlock()
		inventories++
		return inventories <= inventoriesPerBulk
	}
	workqueue.ParallelizeUntil(ctx, recorders, len(hosts), func(n int) {
		d := hosts[n]
		recorded, node, again, err := o.observeDue(ctx, d, mayReadInventory, began)
		switch {
		case apierrors.IsNotFound(err): // the host was deleted meanwhile
		case err != nil:
			mu.Lock()
			defer mu.Unlock()
			failed[types.NamespacedName{Namespace: d.host.Namespace, Name: d.host.Name}] = err
		case node == nil && d.node == nil, node != nil && !isWithheld(node) && !o.observationOf(recorded, node).NeedsInventory(recorded) && (!again || o.index.Has(node, d.generation)):
			o.index.SetRecorded(recorded, d.generation)
		default:
			o.index.KnowHosts(recorded) // the watch will tell of this version a moment later
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
func (o *observer) observeDue(ctx context.Context, d dueHost, mayReadInventory func() bool, began time.Time) (recorded *metal3.BareMetalHost, shown *ironic.Node, again bool, err error) {
	if d.readNode {
		recorded, shown, err = o.observeAndGet(ctx, d.host.Namespace, d.host.Name, nil)
		return recorded, shown, true, err
	}
	node := d.node
	if node != nil {
		// Passwords are redacted in a copy: the index keeps the node as Ironic returned it,
		// to compare it with what Ironic returns later.
		copied := *node
		node = &copied
	}
	recorded, seen, err := o.observe(ctx, d.host, node, mayReadInventory)
	if err == nil && !d.earlier {
		o.keepRecent(recorded, seen.Node, began)
	}
	if err == nil && !d.changed.IsZero() && recorded.ResourceVersion != d.host.ResourceVersion {
		changeDelay.WithLabelValues(o.ironic).Observe(o.clock.Since(d.changed).Seconds())
	}
	if apierrors.IsConflict(err) {
		return o.observeAfterConflict(ctx, d)
	}
	return recorded, seen.Node, false, err
}

// observeAfterConflict observes a host that was written after it had been read. If it was
// written by another observation of this replica that knew the same contents of the node,
// nothing is left to do.
func (o *observer) observeAfterConflict(ctx context.Context, d dueHost) (recorded *metal3.BareMetalHost, shown *ironic.Node, again bool, err error) {
	host, err := o.hosts.Get(ctx, d.host.Namespace, d.host.Name)
	if err != nil || o.index.IsRecorded(host, d.generation) {
		return host, d.node, false, err
	}
	recorded, shown, err = o.observeAndGet(ctx, d.host.Namespace, d.host.Name, nil)
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
func (o *observer) isInventoryDue(host *metal3.BareMetalHost, seen lifecycle.Observation) bool {
	return seen.NeedsInventory(host) && o.index.IsInventoryDue(seen.Node, o.clock.Now())
}

// readInventory reads the inventory of a finished inspection. If it cannot be read now, the
// result is nil, the rest of the node is recorded all the same, and a later observation tries
// again.
func (o *observer) readInventory(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node) *lifecycle.Inspected {
	raw, err := o.nodes.GetInventory(ctx, node.UUID)
	switch {
	case ironic.IsNotIronic(err):
		return &lifecycle.Inspected{Problem: err.Error()} // the answer is malformed, and will stay so
	case err != nil:
		missing := o.index.InventoryMissing(node, o.clock.Now())
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
	if inspectedBefore && equality.Semantic.DeepEqual(hardware, host.Status.HardwareDetails) && o.index.InventoryMissing(node, o.clock.Now()) < formerInventoryGrace {
		return nil // it may be that of the inspection before
	}
	return &lifecycle.Inspected{Hardware: hardware, Unread: unread}
}

// isAsRecorded reports whether an observation of the node would leave the host's status as it
// is recorded. If that cannot be told for a panic, the observation is made, and has it as its error.
func (o *observer) isAsRecorded(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, now time.Time) (is bool) {
	defer panics.Catch(ctx, nil, "host", klog.KObj(host))
	seen := o.observationOf(host, node)
	if seen.Node == nil || seen.NeedsInventory(host) {
		return false
	}
	_, changed := lifecycle.Observe(host, seen, now)
	return !changed
}
