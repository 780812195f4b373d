// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	storeerr "k8s.io/apiserver/pkg/storage/errors"
)

// ListLatest lists the latest state. A list from the watch cache waits until the cache has seen
// everything that was written to etcd, including writes to other keys, which the cache learns from
// progress notifications. The cache itself requests one only every 100 ms, so ListLatest requests
// one at once.
func ListLatest(ctx context.Context, store *genericregistry.Store, options *metainternalversion.ListOptions) (runtime.Object, error) {
	if cache := watchCache(store); cache != nil {
		if err := cache.RequestWatchProgress(ctx); err != nil {
			return nil, storeerr.InterpretListError(err, store.DefaultQualifiedResource)
		}
	}
	return store.List(ctx, options)
}

// watchCache returns the watch cache of a store, or nil if it has none.
func watchCache(store *genericregistry.Store) *cacher.CacheDelegator {
	return watchCacheIn(store.Storage.Storage)
}

func watchCacheIn(inner storage.Interface) *cacher.CacheDelegator {
	for {
		wrapper, ok := inner.(interface{ Unwrap() storage.Interface })
		if !ok {
			cache, _ := inner.(*cacher.CacheDelegator)
			return cache
		}
		inner = wrapper.Unwrap()
	}
}
