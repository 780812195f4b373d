// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// Hosts has the recorded hosts, for the engine (pkg/ironicsync) and for the subresources of the API. The store is that of the API
// (baremetalhost.NewStore), but reads do not refresh the hosts, which would call the engine again.
type Hosts struct{ store *genericregistry.Store }

// NewHosts returns Hosts that use the store of the API.
func NewHosts(store *genericregistry.Store) *Hosts { return &Hosts{store} }

// inNamespace returns the context of what the server itself does in a namespace, also if it does so for a request of a user.
func inNamespace(ctx context.Context, namespace string) context.Context {
	return byServer(genericapirequest.WithNamespace(ctx, namespace))
}

// Get returns the recorded host.
func (h *Hosts) Get(ctx context.Context, namespace, name string) (*metal3.BareMetalHost, error) {
	obj, err := h.store.Get(inNamespace(ctx, namespace), name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return obj.(*metal3.BareMetalHost), nil
}

// Cached returns the host as the watch cache has it, which may be older than what is in etcd. It
// must not be changed. It is nil if it is not in the watch cache, or if there is no watch cache.
func (h *Hosts) Cached(ctx context.Context, namespace, name string) *metal3.BareMetalHost {
	cache := watchCache(h.store)
	if cache == nil || cache.ReadinessCheck() != nil {
		return nil
	}
	ctx = inNamespace(ctx, namespace)
	key, err := h.store.KeyFunc(ctx, name)
	if err != nil {
		return nil
	}
	host := &metal3.BareMetalHost{}
	if err := cache.Get(ctx, key, storage.GetOptions{ResourceVersion: "0"}, host); err != nil {
		return nil
	}
	return host
}

// ListIn returns the recorded hosts of a namespace. They share memory with the watch cache, as those of List.
func (h *Hosts) ListIn(ctx context.Context, namespace string) (*metal3.BareMetalHostList, error) {
	obj, err := ListLatest(inNamespace(ctx, namespace), h.store, nil)
	if err != nil {
		return nil, err
	}
	return obj.(*metal3.BareMetalHostList), nil
}

// List returns the recorded hosts of all namespaces. They share memory with the watch cache: make
// a deep copy of a host before changing it.
func (h *Hosts) List(ctx context.Context, options metav1.ListOptions) (*metal3.BareMetalHostList, error) {
	internal, err := internalListOptions(&options)
	if err != nil {
		return nil, err
	}
	obj, err := ListLatest(inNamespace(ctx, metav1.NamespaceAll), h.store, internal)
	if err != nil {
		return nil, err
	}
	return obj.(*metal3.BareMetalHostList), nil
}

// Watch watches the recorded hosts of all namespaces. They share memory with the watch cache, so that
// an informer does not hold a second copy of the fleet: make a deep copy of a host before changing it.
func (h *Hosts) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	internal, err := internalListOptions(&options)
	if err != nil {
		return nil, err
	}
	stored, err := h.store.Watch(inNamespace(ctx, metav1.NamespaceAll), internal)
	if err != nil {
		return nil, err
	}
	return forInformer(stored, func(obj runtime.Object) {
		if host, ok := obj.(*metal3.BareMetalHost); ok {
			if cached := h.Cached(ctx, host.Namespace, host.Name); cached != nil && cached.UID == host.UID && cached.ResourceVersion == host.ResourceVersion {
				*host = *cached
			}
		}
	}), nil
}

// Record writes the host including its status. It returns a Conflict if the host has been written
// since its resourceVersion. It bypasses the strategies, which prevent all others from changing
// the status.
func (h *Hosts) Record(ctx context.Context, host *metal3.BareMetalHost) (*metal3.BareMetalHost, error) {
	ctx = inNamespace(ctx, host.Namespace)
	key, err := h.store.KeyFunc(ctx, host.Name)
	if err != nil {
		return nil, err
	}
	recorded := &metal3.BareMetalHost{}
	preconditions := &storage.Preconditions{UID: &host.UID, ResourceVersion: &host.ResourceVersion}
	err = h.store.Storage.GuaranteedUpdate(ctx, key, recorded, false, preconditions,
		func(runtime.Object, storage.ResponseMeta) (runtime.Object, *uint64, error) {
			// The preconditions are met, so the stored version is the one that host is based on.
			return copyToStore(host), nil, nil
		}, false, nil)
	switch {
	case storage.IsNotFound(err):
		return nil, apierrors.NewNotFound(h.store.DefaultQualifiedResource, host.Name)
	case storage.IsInvalidObj(err), storage.IsConflict(err): // a failed precondition is an InvalidObj error
		return nil, apierrors.NewConflict(h.store.DefaultQualifiedResource, host.Name, err)
	case err != nil:
		return nil, fmt.Errorf("recording BareMetalHost %s/%s: %w", host.Namespace, host.Name, err)
	}
	return recorded, nil
}

// copyToStore returns a copy of a host, with the same hardware details: these are never changed in place, and so are
// known to have been stored before.
func copyToStore(host *metal3.BareMetalHost) *metal3.BareMetalHost {
	shallow := *host
	shallow.Status.HardwareDetails = nil
	copied := shallow.DeepCopy()
	copied.Status.HardwareDetails = host.Status.HardwareDetails
	return copied
}

// Update writes spec and metadata as a client's PUT does. Removing the last finalizer of a host
// that is being deleted completes the deletion.
func (h *Hosts) Update(ctx context.Context, host *metal3.BareMetalHost) (*metal3.BareMetalHost, error) {
	obj, _, err := h.store.Update(inNamespace(ctx, host.Namespace), host.Name, rest.DefaultUpdatedObjectInfo(host.DeepCopy()),
		rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	if err != nil {
		return nil, err
	}
	return obj.(*metal3.BareMetalHost), nil
}

// Change changes spec and metadata of the latest version of a host, with validation but without
// admission, and returns what was written. With dryRun, nothing is stored.
func (h *Hosts) Change(ctx context.Context, namespace, name string, dryRun bool, change func(*metal3.BareMetalHost) error) (*metal3.BareMetalHost, error) {
	options := &metav1.UpdateOptions{}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	return ChangeHost(inNamespace(ctx, namespace), h.store, name, options, change, nil, rest.ValidateAllObjectUpdateFunc)
}

// ChangeHost changes a host as a PUT to store would, with validation. change is called with the
// latest version of the host, and again if another client writes the host in between. If mutate is
// not nil, it is called with the result of change.
func ChangeHost(ctx context.Context, store rest.Updater, name string, options *metav1.UpdateOptions, change func(*metal3.BareMetalHost) error,
	mutate rest.TransformFunc, validate rest.ValidateObjectUpdateFunc) (*metal3.BareMetalHost, error) {
	transformers := []rest.TransformFunc{func(_ context.Context, _, existing runtime.Object) (runtime.Object, error) {
		host := existing.DeepCopyObject().(*metal3.BareMetalHost)
		return host, change(host)
	}}
	if mutate != nil {
		transformers = append(transformers, mutate)
	}
	obj, _, err := store.Update(ctx, name, rest.DefaultUpdatedObjectInfo(nil, transformers...), rest.ValidateAllObjectFunc, validate, false, options)
	if err != nil {
		return nil, err
	}
	return obj.(*metal3.BareMetalHost), nil
}
