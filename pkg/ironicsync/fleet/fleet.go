// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/panics"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/secrets"
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
	// Secret reads a Secret, and IronicObject an Ironic of the Ironic Standalone Operator.
	Secret       secrets.Reader
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
	known          // which Ironics there are
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
}

// New returns a Fleet whose observations are cancelled when ctx ends.
func New(ctx context.Context, deps Deps) *Fleet {
	f := &Fleet{
		Passwords: live.NewPasswords(deps.Live.Secrets), Prover: live.NewProver(deps.Live.Hosts, deps.Live.Cluster),
		deps: deps, connector: connector{deps}, ctx: ctx, changes: live.NewHostChanges(deps.Live.Hosts), dirty: make(chan struct{}, 1),
	}
	f.home = &Member{Client: deps.Home, Refresher: f.newRefresher(ctx, "", deps.Home, deps.Live.Wait, nil), connection: connection{read: deps.Live.Wait}, close: func() {}}
	f.state.Store(&state{members: map[string]*Member{"": f.home}, histories: map[string]*live.History{}, changed: make(chan struct{})})
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

func (f *Fleet) newRefresher(ctx context.Context, name string, nodes live.Nodes, wait time.Duration, history *live.History) *live.Refresher {
	deps := f.deps.Live
	deps.Ironic, deps.Nodes, deps.Wait, deps.Changes, deps.History = name, nodes, wait, f.changes, history
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

// allInstances returns the IronicInstances, ordered by name.
func (f *Fleet) allInstances() []*api.IronicInstance {
	var all []*api.IronicInstance
	for _, obj := range f.instances.GetStore().List() {
		all = append(all, obj.(*api.IronicInstance))
	}
	slices.SortFunc(all, func(a, b *api.IronicInstance) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// next returns the state that follows from the IronicInstances as they are now.
func (f *Fleet) next(ctx context.Context, before *state) *state {
	now := &state{
		synced: true, members: map[string]*Member{"": f.home}, problems: map[string]*Problem{}, objects: map[string]*ironicObject{},
		histories: map[string]*live.History{}, changed: make(chan struct{}),
	}
	all := f.allInstances()
	objects, members, failed := make([]*ironicObject, len(all)), make([]*Member, len(all)), make([]error, len(all))
	var reading sync.WaitGroup // of Ironic objects and Secrets, for which a cluster that hangs takes its time
	for i, instance := range all {
		reading.Go(func() {
			objects[i], failed[i] = orPanic(ctx, instance, func() (*ironicObject, error) {
				return f.connector.objectOf(ctx, instance, before.objects[instance.Name])
			})
		})
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
		reading.Go(func() {
			members[i], failed[i] = orPanic(ctx, instance, func() (*Member, error) {
				return f.member(ctx, instance, objects[i], before)
			})
		})
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
			if history := before.histories[instance.Name]; history != nil {
				now.histories[instance.Name] = history
			}
		} else {
			now.members[instance.Name], now.histories[instance.Name] = members[i], members[i].Refresher.History()
			s.unusable = instance.DeletionTimestamp != nil // what is deleted gets no more hosts
		}
		now.selections = append(now.selections, s)
	}
	return now
}

// orPanic returns what find returns. A panic is a problem of that IronicInstance: what its Secret or its Ironic object contains does not
// end the server, whose other replicas would read it, too.
func orPanic[T any](ctx context.Context, instance *api.IronicInstance, find func() (*T, error)) (found *T, err error) {
	defer panics.Catch(ctx, func(error) { found, err = nil, &Problem{api.UnusableReason, panics.ErrBug.Error()} }, "ironicInstance", instance.Name)
	return find()
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

// member returns the Member of an IronicInstance: the one of before if nothing has changed.
func (f *Fleet) member(ctx context.Context, instance *api.IronicInstance, object *ironicObject, before *state) (*Member, error) {
	former := before.members[instance.Name]
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
	refresher := f.newRefresher(memberCtx, instance.Name, ironicClient, wanted.read, before.histories[instance.Name])
	return &Member{
		Name: instance.Name, Client: ironicClient, Refresher: refresher, Spec: spec,
		connection: wanted, close: func() { cancel(); ironicClient.Close() },
	}, nil
}
