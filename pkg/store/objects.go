// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"
)

// Object is an object of a kind.
type Object interface {
	runtime.Object
	metav1.Object
}

// Getter reads recorded objects of a kind.
type Getter[T Object] interface {
	// Get returns the latest version of an object, or a NotFound error.
	Get(ctx context.Context, namespace, name string) (T, error)
}

// Objects has the recorded objects of a kind, for a controller of this server. It bypasses
// the API, whose admission and authorization are meant for clients; the strategies of the kind
// apply.
type Objects[T Object] struct{ store, status *genericregistry.Store }

// NewObjects returns Objects that use the store of a kind and that of its status.
func NewObjects[T Object](store, status *genericregistry.Store) *Objects[T] {
	return &Objects[T]{store, status}
}

// Get returns the latest version of an object.
func (r *Objects[T]) Get(ctx context.Context, namespace, name string) (T, error) {
	return as[T](r.store.Get(inNamespace(ctx, namespace), name, &metav1.GetOptions{}))
}

// List returns the objects of all namespaces, or of the one that the field selector requires.
func (r *Objects[T]) List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	internal, err := internalListOptions(&options)
	if err != nil {
		return nil, err
	}
	namespace := metav1.NamespaceAll
	if selector := internal.FieldSelector; selector != nil {
		namespace, _ = selector.RequiresExactMatch("metadata.namespace") // else the store reads the objects of all of them
	}
	return r.store.List(inNamespace(ctx, namespace), internal)
}

// Watch watches the objects of all namespaces.
func (r *Objects[T]) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	internal, err := internalListOptions(&options)
	if err != nil {
		return nil, err
	}
	stored, err := r.store.Watch(inNamespace(ctx, metav1.NamespaceAll), internal)
	if err != nil {
		return nil, err
	}
	return forInformer(stored, nil), nil
}

// Create records a new object.
func (r *Objects[T]) Create(ctx context.Context, obj T) (T, error) {
	return as[T](r.store.Create(inNamespace(ctx, obj.GetNamespace()), obj.DeepCopyObject(), rest.ValidateAllObjectFunc, &metav1.CreateOptions{}))
}

// Update writes metadata and spec. It returns a Conflict if another client has written the object
// since obj was read. Removing the last finalizer of an object that is being deleted completes the
// deletion.
func (r *Objects[T]) Update(ctx context.Context, obj T) (T, error) { return update(ctx, r.store, obj) }

// UpdateStatus writes the status, like Update.
func (r *Objects[T]) UpdateStatus(ctx context.Context, obj T) (T, error) {
	return update(ctx, r.status, obj)
}

// Change applies a change to the latest version of an object, except for its status. It repeats the change
// if another client writes the object in between.
func (r *Objects[T]) Change(ctx context.Context, namespace, name string, change func(T)) error {
	info := rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, existing runtime.Object) (runtime.Object, error) {
		obj := existing.DeepCopyObject().(T)
		change(obj)
		return obj, nil
	})
	_, _, err := r.store.Update(inNamespace(ctx, namespace), name, info,
		rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	return err
}

// Delete deletes an object, or marks it for deletion if it has finalizers. It returns a Conflict if another client has written the
// object since obj was read.
func (r *Objects[T]) Delete(ctx context.Context, obj T) error {
	asRead := metav1.Preconditions{UID: ptr.To(obj.GetUID()), ResourceVersion: ptr.To(obj.GetResourceVersion())}
	_, _, err := r.store.Delete(inNamespace(ctx, obj.GetNamespace()), obj.GetName(), rest.ValidateAllObjectFunc, &metav1.DeleteOptions{Preconditions: &asRead})
	return err
}

func update[T Object](ctx context.Context, store *genericregistry.Store, obj T) (T, error) {
	updated, _, err := store.Update(inNamespace(ctx, obj.GetNamespace()), obj.GetName(),
		rest.DefaultUpdatedObjectInfo(obj.DeepCopyObject()), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	return as[T](updated, err)
}

func as[T Object](obj runtime.Object, err error) (T, error) {
	typed, _ := obj.(T)
	return typed, err
}
