// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// HostChanges tells the Refreshers of all Ironics of all hosts and of what changes about them, so that no observation has to list
// a fleet of which hardly anything changes. One watch serves all Refreshers.
type HostChanges struct {
	hosts Hosts
	// synced is closed when all hosts that there were have been read once.
	synced chan struct{}

	mu         sync.Mutex
	refreshers map[*Refresher]bool
}

// NewHostChanges returns HostChanges that tell of nothing until Run is called.
func NewHostChanges(hosts Hosts) *HostChanges {
	return &HostChanges{hosts: hosts, synced: make(chan struct{}), refreshers: map[*Refresher]bool{}}
}

// Run watches the hosts until ctx ends. A watch that has ended begins again, after a while if that fails.
func (c *HostChanges) Run(ctx context.Context) {
	cache.NewReflectorWithOptions(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return c.hosts.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return c.hosts.Watch(ctx, options)
		},
	}, &metal3.BareMetalHost{}, c, cache.ReflectorOptions{}).RunWithContext(ctx)
}

// add has a Refresher be told of changes until its context ends.
func (c *HostChanges) add(r *Refresher) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refreshers[r] = true
	context.AfterFunc(r.ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.refreshers, r)
	})
}

// Add reports a new host.
func (c *HostChanges) Add(obj any) error { return c.changed(obj, false) }

// Update reports another version of a host.
func (c *HostChanges) Update(obj any) error { return c.changed(obj, false) }

// Delete reports that a host was deleted.
func (c *HostChanges) Delete(obj any) error { return c.changed(obj, true) }

// Resync does nothing: Refreshers forget no host.
func (*HostChanges) Resync() error { return nil }

func (c *HostChanges) changed(obj any, deleted bool) error {
	host, is := obj.(*metal3.BareMetalHost)
	if !is {
		return fmt.Errorf("a watch of BareMetalHosts tells of a %T", obj)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for r := range c.refreshers {
		r.index.HostChanged(host, deleted || !r.has(host))
	}
	return nil
}

// Replace reports all hosts.
func (c *HostChanges) Replace(objects []any, resourceVersion string) error {
	hosts := make([]*metal3.BareMetalHost, 0, len(objects))
	for _, obj := range objects {
		host, is := obj.(*metal3.BareMetalHost)
		if !is {
			return fmt.Errorf("a list of BareMetalHosts has a %T", obj)
		}
		hosts = append(hosts, host)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for r := range c.refreshers {
		r.index.ReplaceHosts(r.own(hosts), resourceVersion)
		r.told.Store(true)
	}
	select {
	case <-c.synced:
	default:
		close(c.synced)
	}
	return nil
}

// own returns those of the hosts that have their nodes in the Ironic.
func (o *observer) own(hosts []*metal3.BareMetalHost) (own []*metal3.BareMetalHost) {
	for _, host := range hosts {
		if o.has(host) {
			own = append(own, host)
		}
	}
	return own
}

// learnHosts makes sure that the index knows all hosts. At the start it waits until HostChanges have told of them: to list them at the
// same time, for each Ironic, would hold that up. A Refresher that is newer than that has not been told of the hosts that were there
// before, and lists them once.
func (b *bulk) learnHosts(ctx context.Context) error {
	if b.changes != nil {
		waiting, cancel := context.WithTimeout(ctx, b.patience)
		defer cancel()
		select {
		case <-b.changes.synced:
		case <-waiting.Done():
			return &ironic.UnavailableError{Op: "observe", Reason: "the server has just started and not yet read all hosts from etcd"}
		}
	}
	if b.told.Load() {
		return nil
	}
	list, err := b.hosts.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	b.index.ReplaceHosts(b.own(PointersOf(list)), list.ResourceVersion)
	b.told.Store(b.changes != nil) // of what has changed since the list
	return nil
}

// learnOnes makes sure that the index knows the hosts that readers wait for one by one, as they are in etcd: what tells
// of changes may be behind. Who waits for all hosts has read them; see RefreshAll.
func (b *bulk) learnOnes(ctx context.Context, ones []types.NamespacedName) error {
	if b.changes == nil {
		return nil // all were just listed
	}
	ctx, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	failed := make([]error, len(ones))
	workqueue.ParallelizeUntil(ctx, recorders, len(ones), func(i int) {
		host, err := b.hosts.Get(ctx, ones[i].Namespace, ones[i].Name)
		if err != nil {
			failed[i] = IgnoreNotFound(err)
			return
		}
		b.index.KnowHosts(b.own([]*metal3.BareMetalHost{host})...)
	})
	return cmp.Or(append(failed, ctx.Err())...)
}

// someHosts is how many hosts are looked at for one that may get its node in this Ironic.
const someHosts = 100

// haveOthers reports whether the nodes of this Ironic matter to hosts that have theirs elsewhere, or none: they may get theirs in it, or
// it may have a node with the BMC of a host of another Ironic.
func (b *bulk) haveOthers(ctx context.Context) (bool, error) {
	list, err := b.hosts.List(ctx, metav1.ListOptions{Limit: someHosts})
	if err != nil {
		return false, err
	}
	for i := range list.Items {
		if host := &list.Items[i]; !b.has(host) && (host.Status.Provisioning.ID != "" || host.Spec.BMC.Address != "") {
			return true, nil
		}
	}
	return list.Continue != "", nil // so many hosts without a machine are no reason to look at all
}

// PointersOf returns the hosts of a list, without copying them.
func PointersOf(list *metal3.BareMetalHostList) []*metal3.BareMetalHost {
	hosts := make([]*metal3.BareMetalHost, len(list.Items))
	for i := range list.Items {
		hosts[i] = &list.Items[i]
	}
	return hosts
}
