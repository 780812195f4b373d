// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"context"
	"errors"
	"reflect"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/events"
)

// NoObjects is what a store has for informers, in tests that run none.
type NoObjects struct{}

// List returns an error.
func (NoObjects) List(context.Context, metav1.ListOptions) (runtime.Object, error) {
	return nil, errors.New("not used")
}

// Watch returns an error.
func (NoObjects) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return nil, errors.New("not used")
}

// Slot is the store of a kind of which there is at most one object, in a variable of the test: whatever
// name is asked for, it is that object. Like the real store, it compares resourceVersions, writes either
// the status or everything else, counts generations, and completes deletions. It cannot be used by several
// goroutines.
type Slot[T interface {
	runtime.Object
	metav1.Object
}] struct {
	NoObjects
	// Resource is the plural of the kind.
	Resource string
	// Object is the variable. It is nil while there is no object.
	Object *T
	// Writes is how often the object was written.
	Writes int
	// StatusError is the error of writes of the status.
	StatusError error
}

func (s *Slot[T]) exists() bool { return !reflect.ValueOf(*s.Object).IsNil() }

// Get returns a copy of the object.
func (s *Slot[T]) Get(_ context.Context, _, name string) (none T, err error) {
	if !s.exists() {
		return none, apierrors.NewNotFound(metal3.Resource(s.Resource), name)
	}
	return (*s.Object).DeepCopyObject().(T), nil
}

// Cached returns the object, as a watch cache that never lags.
func (s *Slot[T]) Cached(ctx context.Context, namespace, name string) T {
	obj, _ := s.Get(ctx, namespace, name)
	return obj
}

// Create puts a copy of obj into the variable.
func (s *Slot[T]) Create(_ context.Context, obj T) (none T, err error) {
	if s.exists() {
		return none, apierrors.NewAlreadyExists(metal3.Resource(s.Resource), obj.GetName())
	}
	obj = obj.DeepCopyObject().(T)
	obj.SetGeneration(1)
	return s.put(obj), nil
}

// Update writes metadata and spec.
func (s *Slot[T]) Update(_ context.Context, obj T) (none T, err error) {
	if err := s.compare(obj); err != nil {
		return none, err
	}
	stored, obj := *s.Object, obj.DeepCopyObject().(T)
	field(obj, "Status").Set(field(stored, "Status"))
	if !equality.Semantic.DeepEqual(field(obj, "Spec").Interface(), field(stored, "Spec").Interface()) {
		obj.SetGeneration(stored.GetGeneration() + 1)
	}
	written := s.put(obj)
	if obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 {
		var none T
		*s.Object = none
	}
	return written, nil
}

// UpdateStatus writes the status.
func (s *Slot[T]) UpdateStatus(_ context.Context, obj T) (none T, err error) {
	if s.StatusError != nil {
		return none, s.StatusError
	}
	if err := s.compare(obj); err != nil {
		return none, err
	}
	updated := (*s.Object).DeepCopyObject().(T)
	field(updated, "Status").Set(field(obj.DeepCopyObject().(T), "Status"))
	return s.put(updated), nil
}

// Record writes the status, as the engine does for hosts.
func (s *Slot[T]) Record(ctx context.Context, obj T) (T, error) { return s.UpdateStatus(ctx, obj) }

func (s *Slot[T]) compare(obj T) error {
	if !s.exists() || (*s.Object).GetResourceVersion() != obj.GetResourceVersion() {
		return apierrors.NewConflict(metal3.Resource(s.Resource), obj.GetName(), errors.New("changed"))
	}
	return nil
}

func (s *Slot[T]) put(obj T) T {
	s.Writes++
	obj.SetResourceVersion("written-" + strconv.Itoa(s.Writes))
	*s.Object = obj
	return obj.DeepCopyObject().(T)
}

func field(obj any, name string) reflect.Value { return reflect.ValueOf(obj).Elem().FieldByName(name) }

// Events are the types and reasons of the events of objects.
type Events []string

// RecordObject notes an event.
func (e *Events) RecordObject(_ *corev1.ObjectReference, event events.Event) {
	*e = append(*e, event.Type+" "+event.Reason)
}
