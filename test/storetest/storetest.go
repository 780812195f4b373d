// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
)

// Scheme has the kinds of metal3.io.
var Scheme = runtime.NewScheme()

func init() { install.Install(Scheme) }

// Codec stores the kinds of metal3.io in plain JSON.
func Codec() runtime.Codec {
	return serializer.NewCodecFactory(Scheme).LegacyCodec(metal3.SchemeGroupVersion)
}

// Options are the options for the stores of all resources in one etcd.
type Options struct {
	Config storagebackend.Config
	// Etcd is where the objects are, below Config.Prefix.
	Etcd *etcd3testing.EtcdTestServer
	// NoCache turns the watch cache off.
	NoCache bool
}

// New starts an etcd, for stores that have the watch cache, as the server's have. The codec is that of what is stored.
func New(t *testing.T, codec runtime.Codec) Options {
	t.Helper()
	server, config := etcd3testing.NewUnsecuredEtcd3TestClientServer(t)
	config.Codec = codec
	return Options{Config: *config, Etcd: server}
}

// EachCache runs a test on one etcd twice, without and with the watch cache. What the two store is apart.
func EachCache(t *testing.T, codec runtime.Codec, test func(t *testing.T, options Options)) {
	t.Helper()
	cached := New(t, codec)
	uncached := cached
	uncached.NoCache = true
	cached.Config.Prefix += "/cached"
	t.Run("watch cache off", func(t *testing.T) { test(t, uncached) })
	t.Run("watch cache on", func(t *testing.T) { test(t, cached) })
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o Options) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	config := o.Config
	config.EventsHistoryWindow = storagebackend.DefaultEventsHistoryWindow
	decorator := genericregistry.StorageWithCacher()
	if o.NoCache {
		decorator = generic.UndecoratedStorage
	}
	return generic.RESTOptions{
		StorageConfig:           config.ForResource(resource),
		Decorator:               decorator,
		DeleteCollectionWorkers: 1,
		ResourcePrefix:          "/" + resource.Group + "/" + resource.Resource,
	}, nil
}

// Use waits until a store is ready, and destroys it when the test ends.
func Use(t *testing.T, store *genericregistry.Store) {
	t.Helper()
	t.Cleanup(store.DestroyFunc)
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 5*time.Minute, true,
		func(context.Context) (bool, error) { return store.ReadinessCheck() == nil, nil })
	if err != nil {
		t.Fatal("the store does not become ready")
	}
}

// Namespace is that of the objects of the tests.
const Namespace = "metal3"

// InNamespace returns the context of a request in Namespace.
func InNamespace(t *testing.T) context.Context {
	return genericapirequest.WithNamespace(t.Context(), Namespace)
}

// Create creates an object as a POST of a client does.
func Create[T runtime.Object](t *testing.T, store rest.Creater, obj T) T {
	t.Helper()
	created, err := store.Create(InNamespace(t), obj, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created.(T)
}

// NewHost returns a host in Namespace, after some changes.
func NewHost(name string, changes ...func(*metal3.BareMetalHost)) *metal3.BareMetalHost {
	host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: Namespace}}
	host.Spec.BMC = metal3.BMCDetails{Address: "ipmi://192.168.111.1:6233", CredentialsName: name + "-bmc"}
	for _, change := range changes {
		change(host)
	}
	return host
}

// GetHost returns the latest version of a host.
func GetHost(t *testing.T, store rest.Getter, name string) *metal3.BareMetalHost {
	t.Helper()
	obj, err := store.Get(InNamespace(t), name, &metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return obj.(*metal3.BareMetalHost)
}

// Put writes an object as a PUT of a client does.
func Put[T interface {
	runtime.Object
	metav1.Object
}](t *testing.T, store rest.Updater, obj T) (T, error) {
	written, _, err := store.Update(InNamespace(t), obj.GetName(), rest.DefaultUpdatedObjectInfo(obj),
		rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	if err != nil {
		var none T
		return none, err
	}
	return written.(T), nil
}

// NextEvent waits for an event of the watch.
func NextEvent(t *testing.T, w watch.Interface) watch.Event {
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
