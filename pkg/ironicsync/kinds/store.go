// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/events"
)

// Object is an object of a kind.
type Object interface {
	runtime.Object
	metav1.Object
}

// Objects lists and watches the recorded objects of a kind.
type Objects interface {
	List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// Getter reads recorded objects of a kind.
type Getter[T Object] interface {
	// Get returns the latest version of an object.
	Get(ctx context.Context, namespace, name string) (T, error)
}

// Find returns the latest version of an object, or nil if it does not exist.
func Find[T Object](ctx context.Context, objects Getter[T], namespace, name string) (found T, err error) {
	if found, err = objects.Get(ctx, namespace, name); apierrors.IsNotFound(err) {
		return *new(T), nil
	}
	return found, err
}

// Updater writes recorded objects of a kind. It returns a Conflict if somebody else has written the
// object since it was read.
type Updater[T Object] interface {
	// Update writes metadata and spec. The removal of the last finalizer of an object that is being deleted
	// completes the deletion.
	Update(ctx context.Context, obj T) (T, error)
	// UpdateStatus writes the status.
	UpdateStatus(ctx context.Context, obj T) (T, error)
}

// Store gives access to the recorded objects of a kind. It bypasses the API, whose admission and
// authorization are meant for clients.
type Store[T Object] interface {
	Objects
	Getter[T]
	Updater[T]
	Create(ctx context.Context, obj T) (T, error)
}

// AddFinalizer returns obj with a finalizer, which it records unless obj has it already.
func AddFinalizer[T Object](ctx context.Context, store Updater[T], obj T, finalizer string) (T, error) {
	updated := obj.DeepCopyObject().(T)
	if !metal3.AddFinalizer(updated, finalizer) {
		return obj, nil
	}
	return store.Update(ctx, updated)
}

// RemoveFinalizer removes a finalizer from obj. It is not an error if obj does not exist any more.
func RemoveFinalizer[T Object](ctx context.Context, store Updater[T], obj T, finalizer string) error {
	updated := obj.DeepCopyObject().(T)
	if !metal3.RemoveFinalizer(updated, finalizer) {
		return nil
	}
	_, err := store.Update(ctx, updated)
	return IgnoreNotFound(err)
}

// IgnoreNotFound returns nil if err says that an object does not exist, and err otherwise.
func IgnoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// KeyOf returns the namespace and the name of an object.
func KeyOf(obj metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// Events records Kubernetes events about objects. It does not block.
type Events interface {
	RecordObject(regarding *corev1.ObjectReference, event events.Event)
}

// ReferenceTo returns a reference to an object of a kind of this API, for events.
func ReferenceTo(kind string, obj metav1.Object) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: metal3.SchemeGroupVersion.String(), Kind: kind,
		Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(),
	}
}
