// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	api "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/validation"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/client"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
)

const (
	// secretsInterval is how often the Secrets and Ironic objects of IronicInstances are read again, and up to a fifth more. They are
	// not watched: that would take permission to read all of a namespace.
	secretsInterval = 30 * time.Second
	// secretTimeout bounds the read of one of them.
	secretTimeout = 5 * time.Second
)

// Instances lists and watches the recorded IronicInstances.
type Instances interface {
	List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// Deps are what a Fleet works with.
type Deps struct {
	Instances Instances
	// Namespace is that of the server.
	Namespace string
	// Secret reads a Secret, and IronicObject an Ironic of the Ironic Standalone Operator; nil if the server runs without a cluster.
	Secret       func(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	IronicObject func(ctx context.Context, namespace, name string) (*unstructured.Unstructured, error)
	// Flags is how the Ironic of the server's flags is reached, and Home its client.
	Flags client.Config
	Home  *client.Client
	// HostsIn returns the recorded hosts of a namespace, which must not be changed.
	HostsIn func(ctx context.Context, namespace string) (*metal3.BareMetalHostList, error)
	// Live is what Refreshers work with; Ironic and Nodes are set for each.
	Live live.Deps
}

// Member is an Ironic that can be used, as it is reached now.
type Member struct {
	// Name is that of the IronicInstance; empty for the Ironic of the server's flags.
	Name      string
	Client    *client.Client
	Refresher *live.Refresher
	// Spec is nil for the Ironic of the server's flags.
	Spec *api.IronicInstanceSpec

	connection connection
	close      func()
}

// Fleet knows all Ironics.
type Fleet struct {
	live.Passwords // of the hosts in all Ironics
	live.Prover

	deps      Deps
	connector connector
	home      *Member
	ctx       context.Context // ends with the server; observations outlive the request that started them
	instances cache.SharedIndexInformer
	changes   *live.HostChanges
	dirty     chan struct{}
	closing   sync.WaitGroup // clients and Refreshers of former Members
	state     atomic.Pointer[state]
}

// state is what a Fleet knows at a time.
type state struct {
	// synced is set when all IronicInstances have been read once.
	synced bool
	// members are those that can be used, by name.
	members map[string]*Member
	// problems are why the others cannot.
	problems map[string]*Problem
	// objects are the Ironic objects of those that have one, as they were last read.
	objects map[string]*ironicObject
	// selections are in the order of the names.
	selections []selection
	// changed is closed when there is a later state.
	changed chan struct{}
}

// New returns a Fleet whose observations are cancelled when ctx ends.
func New(ctx context.Context, deps Deps) *Fleet {
	f := &Fleet{
		Passwords: live.NewPasswords(deps.Live.Secrets), Prover: live.NewProver(deps.Live.Hosts, deps.Live.Cluster),
		deps: deps, connector: connector{deps}, ctx: ctx, changes: live.NewHostChanges(deps.Live.Hosts), dirty: make(chan struct{}, 1),
	}
	f.home = &Member{Client: deps.Home, Refresher: f.newRefresher(ctx, "", deps.Home, deps.Live.Wait), connection: connection{read: deps.Live.Wait}, close: func() {}}
	f.state.Store(&state{members: map[string]*Member{"": f.home}, changed: make(chan struct{})})
	f.instances = cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: deps.Instances.List, WatchFuncWithContext: deps.Instances.Watch,
	}, &api.IronicInstance{}, 0, nil)
	touch := func() {
		select {
		case f.dirty <- struct{}{}:
		default: // a change is about to be noticed
		}
	}
	// It does not fail before the informer runs.
	_, _ = f.instances.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { touch() }, UpdateFunc: func(_, _ any) { touch() }, DeleteFunc: func(any) { touch() },
	})
	return f
}

func (f *Fleet) newRefresher(ctx context.Context, name string, nodes live.Nodes, wait time.Duration) *live.Refresher {
	deps := f.deps.Live
	deps.Ironic, deps.Nodes, deps.Wait, deps.Changes = name, nodes, wait, f.changes
	return live.NewRefresher(ctx, deps)
}

// Run follows the IronicInstances and the hosts until ctx ends.
func (f *Fleet) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { f.changes.Run(ctx) })
	running.Go(func() { f.instances.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), f.instances.HasSynced) {
		return
	}
	for {
		f.update(ctx)
		timer := f.deps.Live.Clock.NewTimer(wait.Jitter(secretsInterval, 0.2))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-f.dirty:
			timer.Stop()
		case <-timer.C():
		}
	}
}

// Wait returns when all observations that are under way have ended. Cancel the context given to New first, and wait for the end
// of Run.
func (f *Fleet) Wait() {
	for _, m := range f.state.Load().members {
		m.Refresher.Wait()
	}
	f.closing.Wait()
}

// update makes the state what the IronicInstances and their Secrets say now.
func (f *Fleet) update(ctx context.Context) {
	before := f.state.Load()
	now := f.next(ctx, before)
	if ctx.Err() != nil || before.synced && before.sameAs(now) {
		return
	}
	f.state.Store(now)
	close(before.changed)
	f.closeFormer(ctx, before, now)
}

// next returns the state that follows from the IronicInstances as they are now.
func (f *Fleet) next(ctx context.Context, before *state) *state {
	now := &state{
		synced: true, members: map[string]*Member{"": f.home}, problems: map[string]*Problem{}, objects: map[string]*ironicObject{},
		changed: make(chan struct{}),
	}
	var all []*api.IronicInstance
	for _, obj := range f.instances.GetStore().List() {
		all = append(all, obj.(*api.IronicInstance))
	}
	slices.SortFunc(all, func(a, b *api.IronicInstance) int { return strings.Compare(a.Name, b.Name) })
	objects, members, failed := make([]*ironicObject, len(all)), make([]*Member, len(all)), make([]error, len(all))
	var reading sync.WaitGroup // of Ironic objects and Secrets, for which a cluster that hangs takes its time
	for i, instance := range all {
		reading.Go(func() { objects[i], failed[i] = f.connector.objectOf(ctx, instance, before.objects[instance.Name]) })
	}
	reading.Wait()
	endpoints := make([]string, len(all))
	for i, instance := range all {
		endpoints[i] = instance.Spec.Endpoint
		if object := objects[i]; object != nil {
			now.objects[instance.Name], endpoints[i] = object, object.endpoint()
		}
	}
	twins := f.twins(all, endpoints)
	for i, instance := range all {
		if failed[i] != nil {
			continue
		}
		if twin, has := twins[instance.Name]; has {
			failed[i] = &Problem{api.SameEndpointReason, "this is the endpoint of " + ironic.DescribeInstance(twin) + ", too"}
			continue
		}
		reading.Go(func() { members[i], failed[i] = f.member(ctx, instance, objects[i], before.members[instance.Name]) })
	}
	reading.Wait()
	for i, instance := range all {
		s, err := newSelection(instance)
		if err = cmp.Or(failed[i], err); err != nil {
			problem := new(Problem)
			if !errors.As(err, &problem) {
				problem = &Problem{api.UnusableReason, err.Error()}
			}
			now.problems[instance.Name], s.unusable = problem, true
		} else {
			now.members[instance.Name] = members[i]
			s.unusable = instance.DeletionTimestamp != nil // what is deleted gets no more hosts
		}
		now.selections = append(now.selections, s)
	}
	return now
}

// closeFormer closes what is no longer used, in the background.
func (f *Fleet) closeFormer(ctx context.Context, before, now *state) {
	for name, m := range before.members {
		if after := now.members[name]; after == nil || after.Client != m.Client {
			klog.FromContext(ctx).Info("An Ironic is no longer used, or is reached in another way", "ironic", name)
			f.closing.Go(func() {
				m.close()
				m.Refresher.Wait()
				if after == nil {
					client.ForgetMetrics(name)
					live.ForgetMetrics(name)
				}
			})
		}
	}
}

// twins returns the IronicInstances that have the endpoint of an older one, or of the server's flags, with the name of that. Of one
// Ironic, each of two would take the nodes of the other's hosts for those of nobody. Two that were written at the same time
// have passed validation.
func (f *Fleet) twins(all []*api.IronicInstance, endpoints []string) map[string]string {
	byAge := make([]int, len(all))
	for i := range all {
		byAge[i] = i
	}
	slices.SortStableFunc(byAge, func(a, b int) int { return all[a].CreationTimestamp.Compare(all[b].CreationTimestamp.Time) })
	first := map[string]string{}
	if endpoint := validation.CanonicalEndpoint(f.deps.Flags.Endpoint); endpoint != "" {
		first[endpoint] = ""
	}
	twins := map[string]string{}
	for _, i := range byAge {
		instance, endpoint := all[i], validation.CanonicalEndpoint(endpoints[i])
		if endpoint == "" {
			continue
		}
		if twin, has := first[endpoint]; has {
			twins[instance.Name] = twin
		} else {
			first[endpoint] = instance.Name
		}
	}
	return twins
}

// member returns the Member of an IronicInstance: the former one if nothing has changed.
func (f *Fleet) member(ctx context.Context, instance *api.IronicInstance, object *ironicObject, former *Member) (*Member, error) {
	wanted, err := f.connector.connectionOf(ctx, instance, object, former)
	if err != nil {
		return nil, err
	}
	spec := instance.Spec.DeepCopy()
	if former != nil && former.connection.equal(wanted) {
		if equality.Semantic.DeepEqual(former.Spec, spec) {
			return former, nil
		}
		m := *former
		m.Spec = spec
		return &m, nil
	}
	ironicClient, err := wanted.dial(instance.Name, f.deps.Flags)
	if err != nil {
		return nil, err
	}
	memberCtx, cancel := context.WithCancel(f.ctx)
	return &Member{
		Name: instance.Name, Client: ironicClient, Refresher: f.newRefresher(memberCtx, instance.Name, ironicClient, wanted.read), Spec: spec,
		connection: wanted, close: func() { cancel(); ironicClient.Close() },
	}, nil
}

// HasSynced reports whether all IronicInstances have been read.
func (f *Fleet) HasSynced() bool { return f.state.Load().synced }

// Members returns the Ironics that can be used, ordered by name, that of the server's flags first. The channel is closed when they,
// or the hosts that are their own, have changed.
func (f *Fleet) Members() (members []*Member, changed <-chan struct{}) {
	s := f.state.Load()
	for _, m := range s.members {
		members = append(members, m)
	}
	slices.SortFunc(members, func(a, b *Member) int { return cmp.Compare(a.Name, b.Name) })
	return members, s.changed
}

// SelectsByNamespace reports whether an IronicInstance selects its hosts by the labels of their namespaces.
func (f *Fleet) SelectsByNamespace() bool {
	return slices.ContainsFunc(f.state.Load().selections, func(s selection) bool { return s.namespaces != nil && !s.namespaces.Empty() })
}

// ClientOf returns the client of the Ironic that has the node of a host. The error is an *ironic.UnavailableError.
func (f *Fleet) ClientOf(host *metal3.BareMetalHost) (*client.Client, error) {
	return f.ClientOfInstance(host.Status.Record.Ironic)
}

// ClientOfInstance returns the client of the Ironic of an IronicInstance; empty is the Ironic of the server's flags. The error is an
// *ironic.UnavailableError.
func (f *Fleet) ClientOfInstance(name string) (*client.Client, error) {
	m, err := f.named(name)
	if err != nil {
		return nil, err
	}
	return m.Client, nil
}

// Known returns the names of all Ironics, with those that cannot be used.
func (f *Fleet) Known() []string {
	s := f.state.Load()
	return slices.AppendSeq(slices.Collect(maps.Keys(s.members)), maps.Keys(s.problems))
}

// Unusable returns the names of the IronicInstances that cannot be used.
func (f *Fleet) Unusable() []string { return slices.Sorted(maps.Keys(f.state.Load().problems)) }

func (f *Fleet) named(name string) (*Member, error) {
	s := f.state.Load()
	if m := s.members[name]; m != nil {
		return m, nil
	}
	return nil, &ironic.UnavailableError{Op: "find the host's Ironic", Reason: s.describe(name)}
}

// describe says why there is no Member with a name.
func (s *state) describe(name string) string {
	switch {
	case !s.synced:
		return "the IronicInstances have not been read yet"
	case s.problems[name] != nil:
		return describeUnusable(name)
	}
	return fmt.Sprintf("IronicInstance %q does not exist", name)
}

// Instance returns the Member with a name, or the Problem why there is none, for administrators.
func (f *Fleet) Instance(name string) (*Member, error) {
	s := f.state.Load()
	if m := s.members[name]; m != nil {
		return m, nil
	}
	if problem := s.problems[name]; problem != nil {
		return nil, problem
	}
	return nil, errors.New("the server has not read it yet")
}

// OwnerOf returns the name of the Ironic whose own a host is: the one that has its node, or, if it has none, the one that selects
// it. The labels of the host's namespace are nil if they are not known. If the host is no Ironic's, or that is not certain, problem
// tells its user why, and the name is empty.
func (f *Fleet) OwnerOf(host *metal3.BareMetalHost, namespace labels.Set) (name, problem string) {
	s := f.state.Load()
	switch {
	case hasNode(host) && s.members[host.Status.Record.Ironic] != nil:
		return host.Status.Record.Ironic, ""
	case hasNode(host):
		return "", s.describe(host.Status.Record.Ironic)
	case !s.synced:
		return "", s.describe("")
	}
	return choose(s.selections, host, namespace)
}

// sameAs reports whether a later state has nothing new.
func (s *state) sameAs(later *state) bool {
	same := func(a, b selection) bool {
		return a.name == b.name && a.unusable == b.unusable && equality.Semantic.DeepEqual(a.spec, b.spec)
	}
	if len(s.members) != len(later.members) || !slices.EqualFunc(s.selections, later.selections, same) {
		return false
	}
	for name, m := range s.members {
		if later.members[name] != m {
			return false
		}
	}
	for name, problem := range later.problems {
		if s.problems[name] == nil || *s.problems[name] != *problem {
			return false
		}
	}
	return maps.EqualFunc(s.objects, later.objects, func(a, b *ironicObject) bool { return equality.Semantic.DeepEqual(a, b) })
}
