package baremetalhost_test

import (
	"context"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	etcd3testing "k8s.io/apiserver/pkg/storage/etcd3/testing"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/install"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost"
)

const namespace = "metal3"

var scheme = runtime.NewScheme()

func init() { install.Install(scheme) }

// eachCache runs a test on stores in one real etcd: with the watch cache off, and
// on.
func eachCache(t *testing.T, test func(t *testing.T, store *genericregistry.Store)) {
	t.Helper()
	_, config := etcd3testing.NewUnsecuredEtcd3TestClientServer(t)
	for _, cache := range []string{"off", "on"} {
		t.Run("watch cache "+cache, func(t *testing.T) { test(t, newStore(t, *config, cache == "on")) })
	}
}

// plainCodec decodes hosts without upgrading their records.
func plainCodec() runtime.Codec {
	return serializer.NewCodecFactory(scheme).LegacyCodec(metal3.SchemeGroupVersion)
}

func newStore(t *testing.T, config storagebackend.Config, cached bool) *genericregistry.Store {
	t.Helper()
	decorator := generic.UndecoratedStorage
	if cached {
		decorator = genericregistry.StorageWithCacher()
		config.Prefix += "/cached"
	}
	config.EventsHistoryWindow = storagebackend.DefaultEventsHistoryWindow
	if config.Codec == nil {
		config.Codec = plainCodec()
	}
	store, err := baremetalhost.NewStore(scheme, generic.RESTOptions{
		StorageConfig:           config.ForResource(metal3.Resource("baremetalhosts")),
		Decorator:               decorator,
		DeleteCollectionWorkers: 1,
		ResourcePrefix:          "/metal3.io/baremetalhosts",
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.DestroyFunc)
	eventually(t, "the store is ready", func() bool { return store.ReadinessCheck() == nil })
	return store
}

// inNamespace is the context of a request in the namespace of the tests.
func inNamespace(t *testing.T) context.Context {
	return genericapirequest.WithNamespace(t.Context(), namespace)
}

func newHost(name string, change ...func(*metal3.BareMetalHost)) *metal3.BareMetalHost {
	host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
	host.Spec.BMC = metal3.BMCDetails{Address: "ipmi://192.168.111.1:6233", CredentialsName: name + "-bmc"}
	for _, c := range change {
		c(host)
	}
	return host
}

func create(t *testing.T, store rest.Creater, host *metal3.BareMetalHost) *metal3.BareMetalHost {
	t.Helper()
	obj, err := store.Create(inNamespace(t), host, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return obj.(*metal3.BareMetalHost)
}

func get(t *testing.T, store rest.Getter, name string) *metal3.BareMetalHost {
	t.Helper()
	obj, err := store.Get(inNamespace(t), name, &metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return obj.(*metal3.BareMetalHost)
}

func list(t *testing.T, store rest.Lister, options *metainternalversion.ListOptions) *metal3.BareMetalHostList {
	t.Helper()
	obj, err := store.List(inNamespace(t), options)
	if err != nil {
		t.Fatalf("list %+v: %v", options, err)
	}
	return obj.(*metal3.BareMetalHostList)
}

// put writes host as a client's PUT does.
func put(ctx context.Context, store rest.Updater, host *metal3.BareMetalHost) (*metal3.BareMetalHost, error) {
	obj, _, err := store.Update(ctx, host.Name, rest.DefaultUpdatedObjectInfo(host),
		rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	if err != nil {
		return nil, err
	}
	return obj.(*metal3.BareMetalHost), nil
}

// record writes a status past the strategies.
func record(t *testing.T, store *genericregistry.Store, name string, change func(*metal3.BareMetalHostStatus)) *metal3.BareMetalHost {
	t.Helper()
	host := get(t, store, name)
	change(&host.Status)
	recorded, err := baremetalhost.NewHosts(store).Record(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	return recorded
}

func openWatch(t *testing.T, store rest.Watcher, options *metainternalversion.ListOptions) watch.Interface {
	t.Helper()
	w, err := store.Watch(inNamespace(t), options)
	if err != nil {
		t.Fatalf("watch %+v: %v", options, err)
	}
	t.Cleanup(w.Stop)
	return w
}

// nextEvent waits for an event of the watch.
func nextEvent(t *testing.T, w watch.Interface) watch.Event {
	t.Helper()
	select {
	case e, ok := <-w.ResultChan():
		if !ok || e.Type == watch.Error {
			t.Fatalf("the watch ended: %+v", e)
		}
		return e
	case <-time.After(5 * time.Minute):
		t.Fatal("no event")
	}
	panic("not reached")
}

// hostIn is the host of an event. The watch cache wraps it.
func hostIn(e watch.Event) *metal3.BareMetalHost {
	if cached, ok := e.Object.(runtime.CacheableObject); ok {
		return cached.GetObject().(*metal3.BareMetalHost)
	}
	return e.Object.(*metal3.BareMetalHost)
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 5*time.Minute, true,
		func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		t.Fatalf("never came true: %s", what)
	}
}

// scripted is a Refresher whose Ironic is a script: the test says what the error
// of each host is, and each refresh records it.
type scripted struct {
	hosts *baremetalhost.Hosts

	mu        sync.Mutex
	errors    map[string]string
	refreshes int
}

func newScripted(store *genericregistry.Store) *scripted {
	return &scripted{hosts: baremetalhost.NewHosts(store), errors: map[string]string{}}
}

// set changes what Ironic says of a host.
func (s *scripted) set(name, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errors[name] = text
}

func (s *scripted) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refreshes
}

func (s *scripted) ask(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refreshes++
	return s.errors[name]
}

func (s *scripted) RefreshHost(ctx context.Context, namespace, name string) error {
	for {
		host, err := s.hosts.Get(ctx, namespace, name)
		if err != nil {
			return err
		}
		if err := s.observe(ctx, host); !apierrors.IsConflict(err) {
			return err
		}
	}
}

func (s *scripted) ReadHost(ctx context.Context, namespace, name string) (*metal3.BareMetalHost, error) {
	return nil, s.RefreshHost(ctx, namespace, name)
}

func (s *scripted) RedactPassword(context.Context, *metal3.BareMetalHost, *ironic.Node) error {
	return nil
}

func (s *scripted) RefreshAll(ctx context.Context, _ string) error {
	all, err := s.hosts.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range all.Items {
		host := &all.Items[i]
		err := s.observe(ctx, host)
		if apierrors.IsConflict(err) {
			err = s.RefreshHost(ctx, host.Namespace, host.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *scripted) observe(ctx context.Context, host *metal3.BareMetalHost) error {
	now := s.ask(host.Name)
	if host.Status.ErrorMessage == now {
		return nil
	}
	host.Status.ErrorMessage = now
	_, err := s.hosts.Record(ctx, host)
	return err
}
