// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	etcd3testing "k8s.io/apiserver/pkg/storage/etcd3/testing"
	"k8s.io/apiserver/pkg/storage/storagebackend"
)

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

// Get returns the latest version of an object.
func Get(t *testing.T, store rest.Getter, name string) runtime.Object {
	t.Helper()
	obj, err := store.Get(InNamespace(t), name, &metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return obj
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
