// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3"
)

// Kind is a kind that metal3-apiserver serves.
type Kind struct {
	// Resource is its plural name, as in baremetalhosts. Kind is its name in objects, as in
	// BareMetalHost.
	Resource, Kind string
	// HasStatus is set if the kind has a status subresource.
	HasStatus bool
	// ClusterScoped is set if objects are in no namespace.
	ClusterScoped bool

	version schema.GroupVersion
	store   *genericregistry.Store
}

// CRD is the name of the kind's CustomResourceDefinition.
func (k *Kind) CRD() string { return k.Resource + "." + v1alpha1.GroupName }

func (k *Kind) resource(version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: v1alpha1.GroupName, Version: version, Resource: k.Resource}
}

// Kinds returns all kinds that metal3-apiserver serves. Hosts come first, because they own
// objects of the other kinds. The result cannot be used to read or write objects.
func Kinds(scheme *runtime.Scheme) ([]*Kind, error) { return kindsOf(scheme, noStorage{}) }

// kindsOf gets the kinds from the routing table of the server, and creates their stores.
func kindsOf(scheme *runtime.Scheme, options generic.RESTOptionsGetter) ([]*Kind, error) {
	all, err := metal3.NewStores(scheme, options, nil)
	if err != nil {
		return nil, err
	}
	stores := map[string]*genericregistry.Store{all.Hosts.DefaultQualifiedResource.Resource: all.Hosts}
	for resource, kind := range all.Kinds {
		stores[resource] = kind.Store
	}
	var kinds []*Kind
	for resource, store := range stores {
		hasStatus := store == all.Hosts || all.Kinds[resource].HasStatus()
		kind, err := kindOf(scheme, resource, hasStatus, store)
		if err != nil {
			return nil, err
		}
		kinds = append(kinds, kind)
	}
	slices.SortFunc(kinds, func(a, b *Kind) int {
		if isHost := a.store == all.Hosts; isHost != (b.store == all.Hosts) {
			return map[bool]int{true: -1, false: 1}[isHost]
		}
		return cmp.Compare(a.Resource, b.Resource)
	})
	return kinds, nil
}

func kindOf(scheme *runtime.Scheme, resource string, hasStatus bool, store *genericregistry.Store) (*Kind, error) {
	gvks, _, err := scheme.ObjectKinds(store.NewFunc())
	if err != nil {
		return nil, err
	}
	// The internal version is the same type.
	gvks = slices.DeleteFunc(gvks, func(gvk schema.GroupVersionKind) bool { return gvk.Version == runtime.APIVersionInternal })
	return &Kind{
		Resource: resource, Kind: gvks[0].Kind, HasStatus: hasStatus, ClusterScoped: !store.CreateStrategy.NamespaceScoped(),
		version: gvks[0].GroupVersion(), store: store,
	}, nil
}

// noStorage provides options for stores that can neither be read nor written.
type noStorage struct{}

func (noStorage) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	return generic.RESTOptions{
		StorageConfig:           &storagebackend.ConfigForResource{GroupResource: resource},
		ResourcePrefix:          resource.Resource,
		DeleteCollectionWorkers: 1,
		Decorator: func(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error), func() runtime.Object,
			func() runtime.Object, storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers,
		) (storage.Interface, factory.DestroyFunc, error) {
			return nil, func() {}, nil
		},
	}, nil
}
