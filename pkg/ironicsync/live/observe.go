package live

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// ObserveHost asks Ironic about one host and records what it says. The
// compare-and-swap is on the revision that was read before Ironic was asked: when
// it fails, somebody else wrote meanwhile, and Ironic is asked again. So an older
// observation never replaces a newer one, with any number of replicas.
func (r *Refresher) ObserveHost(ctx context.Context, namespace, name string) error {
	_, _, err := r.ObserveAndGet(ctx, namespace, name)
	return IgnoreNotFound(err)
}

// ObserveAndGet is ObserveHost, and returns the host as it is recorded now and the node
// that was observed; nil when there is none.
func (r *Refresher) ObserveAndGet(ctx context.Context, namespace, name string) (*metal3.BareMetalHost, *ironic.Node, error) {
	for race := 0; ; race++ {
		began := r.clock.Now()
		host, err := r.hosts.Get(ctx, namespace, name)
		if err != nil || host.Status.Provisioning.ID == "" {
			return host, nil, err // not in Ironic: all there is to know is recorded
		}
		node, err := r.nodes.GetNode(ctx, host.Status.Provisioning.ID)
		if err != nil && !ironic.IsNotFound(err) {
			return nil, nil, err
		}
		recorded, observation, err := r.observe(ctx, host, node, true)
		if err == nil {
			r.keepLook(recorded, observation.Node, began)
		}
		if err == nil || !apierrors.IsConflict(err) || race == MaxRaces {
			return recorded, observation.Node, err
		}
	}
}

// observe records what a node says of a host that was read before the node was. It
// returns the host as it is recorded then. The node is nil where Ironic has none; it is
// changed. Where the inventory of an inspection is due, it is read if readInventory is set.
func (r *Refresher) observe(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, readInventory bool) (*metal3.BareMetalHost, lifecycle.Observation, error) {
	seen := lifecycle.Observation{CallbackTimeout: r.CallbackTimeout}
	if node != nil && !node.IsAnothers(host.Namespace, host.Name) {
		seen.Node = node
		if err := r.RedactPassword(ctx, host, node); err != nil {
			withhold(host, node, err)
		}
		if readInventory && lifecycle.NeedsInventory(host, node) {
			// Slow or large ones are not to use up the time of all hosts.
			inventoryCtx, cancel := context.WithTimeout(ctx, inventoryTimeout)
			seen.Inspected = r.readInventory(inventoryCtx, host, node)
			cancel()
		}
	}
	recorded, err := r.record(ctx, host, seen)
	if seen.Inspected != nil && seen.Inspected.Hardware != nil && err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		// It may be this inventory that etcd does not take. All else about the host is to be seen.
		seen.Inspected = &lifecycle.Inspected{Problem: fmt.Sprintf("it cannot be recorded: %v", err)}
		recorded, err = r.record(ctx, host, seen)
	}
	return recorded, seen, err
}

// record writes the host's status if the observation changes it, and returns the
// host as it is then.
func (r *Refresher) record(ctx context.Context, host *metal3.BareMetalHost, observation lifecycle.Observation) (*metal3.BareMetalHost, error) {
	status, changed := lifecycle.Observe(host, observation, r.clock.Now())
	if !changed {
		return host, nil
	}
	updated := host.DeepCopy()
	updated.Status = status
	return r.hosts.Record(ctx, updated)
}

// due is a host that has to be observed, with its node where that was read after the
// host was.
type due struct {
	host *metal3.BareMetalHost
	// node is the node as it was read; nil where Ironic has none.
	node *ironic.Node
	// ask is set where the node has to be read: what is known of it may be older than
	// what is recorded.
	ask bool
	// earlier is set where the node was read by an earlier observation, which has not
	// recorded it, and has not changed since.
	earlier bool
	// generation is that of the view's entry for the node.
	generation uint64
}

// observeMany records observations of several hosts. What goes wrong with one of them
// keeps no other from being observed; the error is a *PartialError, or that ctx ended.
// Their nodes were read from the time began on.
func (r *Refresher) observeMany(ctx context.Context, hosts []due, began time.Time) error {
	r.view.setPending(hosts)
	var mu sync.Mutex
	failed := map[types.NamespacedName]error{}
	inventories := 0
	mayReadInventory := func(d due) bool {
		mu.Lock()
		defer mu.Unlock()
		if d.node == nil || inventories >= inventoriesPerBulk || !lifecycle.NeedsInventory(d.host, d.node) {
			return false
		}
		inventories++
		return true
	}
	workqueue.ParallelizeUntil(ctx, recorders, len(hosts), func(n int) {
		d := hosts[n]
		var recorded *metal3.BareMetalHost
		var err error
		var seen lifecycle.Observation
		if d.ask {
			recorded, _, err = r.ObserveAndGet(ctx, d.host.Namespace, d.host.Name)
		} else {
			node := d.node
			if node != nil {
				// A copy: passwords are struck out of it, and the view keeps what Ironic says.
				copied := *node
				node = &copied
			}
			recorded, seen, err = r.observe(ctx, d.host, node, mayReadInventory(d))
			if err == nil && !d.earlier {
				r.keepLook(recorded, seen.Node, began)
			}
			if apierrors.IsConflict(err) { // somebody wrote meanwhile
				recorded, err = r.observeAfterConflict(ctx, d)
			}
		}
		switch {
		case apierrors.IsNotFound(err): // deleted meanwhile
		case err != nil:
			mu.Lock()
			defer mu.Unlock()
			failed[types.NamespacedName{Namespace: d.host.Namespace, Name: d.host.Name}] = err
		case seen.Node == nil || !isWithheld(seen.Node) && !lifecycle.NeedsInventory(recorded, seen.Node):
			r.view.setObserved(recorded, d.generation)
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

// observeAfterConflict observes a host that somebody wrote while its node was read. If that
// was another bulk observation of ours, it has recorded what is known of the node.
func (r *Refresher) observeAfterConflict(ctx context.Context, d due) (*metal3.BareMetalHost, error) {
	host, err := r.hosts.Get(ctx, d.host.Namespace, d.host.Name)
	if err != nil || r.view.isObserved(host, d.generation) {
		return host, err
	}
	recorded, _, err := r.ObserveAndGet(ctx, d.host.Namespace, d.host.Name)
	return recorded, err
}

// inventoryGrace is how long an inspected node may be without inventory: Ironic
// sets it manageable a moment before it stores the inventory.
const inventoryGrace = 30 * time.Second

// inventoryTimeout bounds the read of one inventory.
const inventoryTimeout = 700 * time.Millisecond

// fakeDriver inspects nothing, and leaves no inventory.
const fakeDriver = "fake-hardware"

// readInventory reads the inventory of a finished inspection. One that cannot be had now
// takes nothing from what the node says: the result is nil, and the next observation asks
// again.
func (r *Refresher) readInventory(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node) *lifecycle.Inspected {
	raw, err := r.nodes.GetInventory(ctx, node.UUID)
	switch {
	case ironic.IsNotFound(err):
		if node.Driver == fakeDriver || r.view.inventoryMissingFor(node, r.clock.Now()) > inventoryGrace {
			return &lifecycle.Inspected{} // there will be none
		}
		return nil
	case ironic.IsNotIronic(err):
		return &lifecycle.Inspected{Problem: err.Error()} // as it is stored, nobody can read it
	case err != nil:
		klog.FromContext(ctx).V(2).Info("The inventory of a host cannot be read now", "host", klog.KObj(host), "node", node.UUID, "err", err)
		if ctx.Err() == nil && r.view.inventoryMissingFor(node, r.clock.Now()) > inventoryGrace {
			return &lifecycle.Inspected{Problem: err.Error(), Pending: true}
		}
		return nil
	}
	hardware, err := lifecycle.HardwareFrom(raw)
	if err != nil {
		// It will not get better by itself: until the next inspection there is none.
		return &lifecycle.Inspected{Problem: err.Error()}
	}
	return &lifecycle.Inspected{Hardware: hardware}
}
