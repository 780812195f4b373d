// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// watcher watches the metadata of Secrets.
type watcher struct {
	// informers has one informer for each managed namespace, or a single one with the key
	// metav1.NamespaceAll.
	informers map[string]cache.SharedIndexInformer
}

// newWatcher returns a watcher of the Secrets in the given namespaces, or of all if none is given.
func newWatcher(meta metadata.Interface, namespaces []string) *watcher {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	w := &watcher{informers: map[string]cache.SharedIndexInformer{}}
	for _, namespace := range namespaces {
		informer := MetadataInformer(meta, "secrets", namespace)
		_ = informer.AddIndexers(cache.Indexers{heldByOwner: ownersOfHeld}) // fails only after the informer was started
		w.informers[namespace] = informer
	}
	return w
}

// heldByOwner is the index of the Secrets with the finalizer, by namespace and UID of their owners.
const heldByOwner = "held-by-owner"

func ownersOfHeld(obj any) (keys []string, err error) {
	m, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok || !slices.Contains(m.Finalizers, metal3.SecretFinalizer) {
		return nil, nil
	}
	for _, owner := range m.OwnerReferences {
		keys = append(keys, m.Namespace+"/"+string(owner.UID))
	}
	return keys, nil
}

// HeldFor returns the names of the Secrets that have the finalizer and belong to a host, according to the watch: those that it names, and
// those that it has named before and that were not released, because a registration failed or this process was killed.
func (w *watcher) HeldFor(host *metal3.BareMetalHost) (names []string) {
	informer := w.informerOf(host.Namespace)
	if informer == nil {
		return nil
	}
	held, err := informer.GetIndexer().ByIndex(heldByOwner, host.Namespace+"/"+string(host.UID))
	if err != nil { // there is no such index
		return nil
	}
	for _, obj := range held {
		names = append(names, obj.(*metav1.PartialObjectMetadata).Name)
	}
	slices.Sort(names)
	return names
}

// run watches until ctx ends.
func (w *watcher) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for _, informer := range w.informers {
		running.Go(func() { informer.RunWithContext(ctx) })
	}
}

// namespaceSyncTimeout is how long WaitForSync waits if only certain namespaces are managed.
const namespaceSyncTimeout = 10 * time.Second

// WaitForSync waits until the metadata of the Secrets has been read. It returns false if ctx has
// ended. If only certain namespaces are managed, the wait is limited to namespaceSyncTimeout: a
// namespace that does not exist, or in which the server has no permissions, must not prevent the
// hosts in other namespaces from being managed.
func (w *watcher) WaitForSync(ctx context.Context) bool {
	if informer, ok := w.informers[metav1.NamespaceAll]; ok {
		return cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)
	}
	limited, cancel := context.WithTimeout(ctx, namespaceSyncTimeout)
	defer cancel()
	for namespace, informer := range w.informers {
		if !cache.WaitForCacheSync(limited.Done(), informer.HasSynced) && ctx.Err() == nil {
			klog.FromContext(ctx).Error(nil, "The Secrets of a namespace cannot be listed yet: check that the namespace exists, and that the ClusterRole "+role+" is bound to the server there", "namespace", namespace)
		}
	}
	return ctx.Err() == nil
}

// Watched reports whether the watch has shown a Secret.
func (w *watcher) Watched(namespace, name string) bool { return w.watched(namespace, name) != "" }

// watched returns the resourceVersion of a Secret according to the watch; empty if the watch has
// not shown it.
func (w *watcher) watched(namespace, name string) string {
	if m := w.metadataOf(namespace, name); m != nil {
		return m.ResourceVersion
	}
	return ""
}

// informerOf returns the informer that has the Secrets of a namespace; nil if they are not watched.
func (w *watcher) informerOf(namespace string) cache.SharedIndexInformer {
	if informer, all := w.informers[metav1.NamespaceAll]; all {
		return informer
	}
	return w.informers[namespace]
}

// metadataOf returns the metadata of a Secret according to the watch; nil if the watch has not shown it.
func (w *watcher) metadataOf(namespace, name string) *metav1.PartialObjectMetadata {
	informer := w.informerOf(namespace)
	if informer == nil {
		return nil
	}
	obj, exists, err := informer.GetStore().GetByKey(namespace + "/" + name)
	if err != nil || !exists {
		return nil
	}
	return obj.(*metav1.PartialObjectMetadata)
}

// isHeld reports whether a Secret has the finalizer, according to the watch.
func (w *watcher) isHeld(namespace, name string) bool {
	m := w.metadataOf(namespace, name)
	return m != nil && slices.Contains(m.Finalizers, metal3.SecretFinalizer)
}

// MetadataInformer returns an informer for the metadata of the objects of a resource of Kubernetes in a namespace; empty is all
// namespaces. It keeps no annotations: that of kubectl apply contains the whole object.
func MetadataInformer(meta metadata.Interface, resource, namespace string) cache.SharedIndexInformer {
	all := meta.Resource(corev1.SchemeGroupVersion.WithResource(resource)).Namespace(namespace)
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return all.List(quiet(ctx), options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return all.Watch(quiet(ctx), options)
		},
	}, meta), &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})
	_ = informer.SetTransform(func(obj any) (any, error) { // fails only after the informer was started
		if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
			m.Annotations, m.ManagedFields = nil, nil
		}
		return obj, nil
	})
	return informer
}
