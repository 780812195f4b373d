// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// Stock is the store of a kind with any number of objects, for controllers that run. Unlike a Slot, it can be used by several
// goroutines, and its watches report what is written. It compares no resourceVersions.
type Stock[T interface {
	runtime.Object
	metav1.Object
}] struct {
	resource string

	mu       sync.Mutex
	objects  map[types.NamespacedName]T
	version  int
	watchers []*watch.RaceFreeFakeWatcher
}

// NewStock returns a Stock with objects of the kind whose plural is resource.
func NewStock[T interface {
	runtime.Object
	metav1.Object
}](resource string, objects ...T) *Stock[T] {
	s := &Stock[T]{resource: resource, objects: map[types.NamespacedName]T{}}
	for _, obj := range objects {
		s.put(obj)
	}
	return s
}

// List returns all objects, ordered by their names.
func (s *Stock[T]) List(context.Context, metav1.ListOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := &metav1.List{}
	list.ResourceVersion = strconv.Itoa(s.version)
	for _, key := range slices.SortedFunc(maps.Keys(s.objects), func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) }) {
		list.Items = append(list.Items, runtime.RawExtension{Object: s.objects[key].DeepCopyObject()})
	}
	return list, nil
}

// Watch returns a watch of what is written from now on.
func (s *Stock[T]) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	watcher := watch.NewRaceFreeFake()
	s.watchers = append(s.watchers, watcher)
	return watcher, nil
}

// IsWatchListSemanticsUnSupported has informers list the objects before they watch them.
func (*Stock[T]) IsWatchListSemanticsUnSupported() bool { return true }

// Get returns a copy of an object.
func (s *Stock[T]) Get(_ context.Context, namespace, name string) (none T, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if obj, exists := s.objects[types.NamespacedName{Namespace: namespace, Name: name}]; exists {
		return obj.DeepCopyObject().(T), nil
	}
	return none, apierrors.NewNotFound(metal3.Resource(s.resource), name)
}

// Cached returns an object, as a watch cache that never lags.
func (s *Stock[T]) Cached(ctx context.Context, namespace, name string) T {
	obj, _ := s.Get(ctx, namespace, name)
	return obj
}

// Create puts a copy of obj into the Stock.
func (s *Stock[T]) Create(_ context.Context, obj T) (T, error) { return s.put(obj), nil }

// Update replaces an object.
func (s *Stock[T]) Update(_ context.Context, obj T) (T, error) { return s.put(obj), nil }

// UpdateStatus replaces an object, like Update.
func (s *Stock[T]) UpdateStatus(_ context.Context, obj T) (T, error) { return s.put(obj), nil }

// Record replaces an object, like Update.
func (s *Stock[T]) Record(_ context.Context, obj T) (T, error) { return s.put(obj), nil }

// put stores an object, or removes one that is being deleted and has no finalizer any more.
func (s *Stock[T]) put(obj T) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	_, exists := s.objects[key]
	s.version++
	stored := obj.DeepCopyObject().(T)
	stored.SetResourceVersion(strconv.Itoa(s.version))
	event := watch.Modified
	switch {
	case !stored.GetDeletionTimestamp().IsZero() && len(stored.GetFinalizers()) == 0:
		event = watch.Deleted
		delete(s.objects, key)
	case !exists:
		event = watch.Added
		s.objects[key] = stored
	default:
		s.objects[key] = stored
	}
	for _, watcher := range s.watchers {
		watcher.Action(event, stored.DeepCopyObject())
	}
	return stored.DeepCopyObject().(T)
}
