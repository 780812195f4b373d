// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	api "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	metal3api "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/fleet"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/reconcile"
	ironicregistry "github.com/metal3-io/metal3-apiserver/pkg/registry/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/store"
)

// newFleet returns what knows all Ironics: that of the flags, and those of the recorded IronicInstances.
func (c *completedConfig) newFleet(ctx context.Context, instances fleet.Instances, hosts *store.Hosts, deps live.Deps) *fleet.Fleet {
	deps.Hosts = hosts
	return fleet.New(ctx, fleet.Deps{
		Instances: instances, Namespace: c.LeaderElection.ResourceNamespace, HostsIn: hosts.ListIn, Flags: c.IronicFlags, Home: c.Ironic, Live: deps,
		Secret: c.cluster.readSecret,
		IronicObject: func(ctx context.Context, namespace, name string) (*unstructured.Unstructured, error) {
			return c.cluster.dynamic.Resource(fleet.IronicObjects).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		},
	})
}

// nodesOf returns what lists the nodes of all Ironics. One that cannot be used is listed as one that is away, so that nobody takes
// the nodes of the others for all.
func nodesOf(f *fleet.Fleet) func() []ironicregistry.NamedNodes {
	return func() (all []ironicregistry.NamedNodes) {
		members, _ := f.Members()
		for _, m := range members {
			all = append(all, ironicregistry.NamedNodes{Name: m.Name, Nodes: m.Client})
		}
		for _, name := range f.Unusable() {
			all = append(all, ironicregistry.NamedNodes{Name: name, Nodes: unusableNodes{}})
		}
		return all
	}
}

// unusableNodes are those of an IronicInstance that the server cannot use.
type unusableNodes struct{}

func (unusableNodes) err() error {
	return &ironic.UnavailableError{Op: "list nodes", Reason: "the server cannot use it; its conditions say why"}
}

func (n unusableNodes) GetNode(context.Context, string) (*ironic.Node, error) { return nil, n.err() }

func (n unusableNodes) ListNodes(context.Context) ([]ironic.Node, error) { return nil, n.err() }

func (n unusableNodes) ListPorts(context.Context, ironic.PortFilter) ([]ironic.Port, error) {
	return nil, n.err()
}

// shownInstances are the Ironics as administrators see them.
type shownInstances struct{ fleet *fleet.Fleet }

// Of returns what asks the Ironic of an instance, or why the server cannot use the instance.
func (s shownInstances) Of(name string) (ironicregistry.Ironic, ironicregistry.Known, error) {
	described := s.fleet.Describe(name)
	known := ironicregistry.Known{Endpoint: described.Endpoint, IronicReady: described.IronicReady}
	m, err := s.fleet.Instance(name)
	if problem := new(fleet.Problem); errors.As(err, &problem) {
		return nil, known, &ironicregistry.NotAcceptedError{Reason: problem.Reason, Message: problem.Message}
	}
	if err != nil {
		return nil, known, &ironicregistry.NotAcceptedError{Reason: api.NotKnownYetReason, Message: err.Error()}
	}
	known.ObservedAt = m.Refresher.LastObserved()
	if nodes, asOf := m.Refresher.CountNodes(); !asOf.IsZero() {
		known.Nodes = new(int32(nodes))
	}
	return m.Client, known, nil
}

// settleTime is for how long labels of namespaces are gathered before hosts are planned again: at the start, each namespace is news.
const settleTime = 200 * time.Millisecond

// ledIronics are the Ironics as the leader drives them.
type ledIronics struct {
	fleet    *fleet.Fleet
	settings reconcile.Settings
	// namespaces has the labels of the cluster's Namespaces. It may know none, if this server may not read them.
	namespaces cache.SharedIndexInformer
	relabelled chan struct{}

	mu sync.Mutex
	// members keep their identity as long as their Ironic is reached in the same way.
	members map[*fleet.Member]*reconcile.Member
	changed chan struct{}
}

func newLedIronics(f *fleet.Fleet, settings reconcile.Settings, namespaces cache.SharedIndexInformer) (*ledIronics, error) {
	l := &ledIronics{fleet: f, settings: settings, namespaces: namespaces, relabelled: make(chan struct{}, 1), changed: make(chan struct{})}
	touch := func() {
		if !f.SelectsByNamespace() {
			return // then nothing depends on their labels
		}
		select {
		case l.relabelled <- struct{}{}:
		default: // a change is about to be noticed
		}
	}
	_, err := namespaces.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { touch() },
		UpdateFunc: func(old, obj any) {
			before, _ := old.(*metav1.PartialObjectMetadata)
			after, _ := obj.(*metav1.PartialObjectMetadata)
			if before == nil || after == nil || !equality.Semantic.DeepEqual(before.Labels, after.Labels) {
				touch()
			}
		},
	})
	return l, err
}

// HasSynced reports whether all Ironics are known. The labels of namespaces, which this server may not be permitted to read, are
// needed only for hosts that an IronicInstance selects by them.
func (l *ledIronics) HasSynced() bool { return l.fleet.HasSynced() }

// Run closes the channels of Members until ctx ends.
func (l *ledIronics) Run(ctx context.Context) error {
	for {
		// What changes after this is noticed in the next round.
		_, changed := l.fleet.Members()
		l.mu.Lock()
		close(l.changed)
		l.changed = make(chan struct{})
		l.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-l.relabelled:
			if !l.settle(ctx) {
				return nil
			}
		}
	}
}

// settle waits until no more news of namespaces has to be expected at once. It returns false if ctx ends before.
func (l *ledIronics) settle(ctx context.Context) bool {
	settled := time.NewTimer(settleTime)
	defer settled.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-settled.C:
		return true
	}
}

// Members returns the Ironics that can be used.
func (l *ledIronics) Members() (members []*reconcile.Member, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, _ := l.fleet.Members()
	known := map[*fleet.Member]*reconcile.Member{}
	for _, m := range now {
		led := l.members[m]
		if led == nil {
			led = &reconcile.Member{Name: m.Name, Ironic: m.Client, Refresher: m.Refresher, Settings: settingsOf(m.Spec, l.settings)}
		}
		known[m] = led
		members = append(members, led)
	}
	l.members = known
	return members, l.changed
}

// Known returns the names of all Ironics, with those that cannot be used.
func (l *ledIronics) Known() []string { return l.fleet.Known() }

// settingsOf returns the settings with what an IronicInstance has of its own.
func settingsOf(spec *api.IronicInstanceSpec, settings reconcile.Settings) reconcile.Settings {
	if spec == nil {
		return settings
	}
	if limit := spec.ProvisioningLimit; limit != nil {
		settings.ProvisioningLimit = int(*limit)
	}
	settings.ConductorGroups = spec.ConductorGroups
	if r := spec.Ramdisk; r != nil {
		settings.Ramdisk.Images = deploy.Images{KernelURL: r.KernelURL, RamdiskURL: r.RamdiskURL, ISOURL: r.ISOURL}
		settings.Ramdisk.ByArch = nil
		if r.KernelParams != "" {
			settings.Ramdisk.KernelParams = r.KernelParams
		}
	}
	return settings
}

// OwnerOf returns the name of the Ironic whose own a host is, or why it is none's.
func (l *ledIronics) OwnerOf(host *metal3api.BareMetalHost) (name, problem string) {
	var namespace labels.Set
	if obj, exists, err := l.namespaces.GetStore().GetByKey(host.Namespace); err == nil && exists {
		if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
			namespace = labels.Set(m.Labels)
			if namespace == nil {
				namespace = labels.Set{} // it is known to have none
			}
		}
	}
	return l.fleet.OwnerOf(host, namespace)
}
