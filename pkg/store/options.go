// SPDX-License-Identifier: Apache-2.0

package store

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

// wrapped are the options of a store whose storage is wrapped, outside of its watch cache. The wrapper has a method Unwrap, by which
// the watch cache is found.
type wrapped struct {
	generic.RESTOptionsGetter
	wrap func(storage.Interface) storage.Interface
}

// GetRESTOptions returns the options for the store of a resource.
func (w wrapped) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := w.RESTOptionsGetter.GetRESTOptions(resource, example)
	decorate := options.Decorator
	options.Decorator = func(config *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string, error),
		newFunc, newList func() runtime.Object, attributes storage.AttrFunc, trigger storage.IndexerFuncs, indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		inner, destroy, err := decorate(config, prefix, key, newFunc, newList, attributes, trigger, indexers)
		return w.wrap(inner), destroy, err
	}
	return options, err
}
