// Package hardwaredata gives the controller access to the recorded HardwareData.
package hardwaredata

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// Records gives access to the recorded HardwareData. It bypasses the API, whose admission is
// meant for clients.
type Records struct{ store *genericregistry.Store }

// New returns the Records of a store of HardwareData.
func New(store *genericregistry.Store) *Records { return &Records{store} }

// Get returns the HardwareData of a host.
func (r *Records) Get(ctx context.Context, namespace, name string) (*metal3.HardwareData, error) {
	obj, err := r.store.Get(genericapirequest.WithNamespace(ctx, namespace), name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return obj.(*metal3.HardwareData), nil
}

// Create records a new HardwareData.
func (r *Records) Create(ctx context.Context, data *metal3.HardwareData) (*metal3.HardwareData, error) {
	obj, err := r.store.Create(genericapirequest.WithNamespace(ctx, data.Namespace), data.DeepCopy(), rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return obj.(*metal3.HardwareData), nil
}

// Update writes data like a PUT of a client. It returns a Conflict if somebody else has
// written the object since data was read. Removing the last finalizer of an object that is
// being deleted completes the deletion.
func (r *Records) Update(ctx context.Context, data *metal3.HardwareData) (*metal3.HardwareData, error) {
	obj, _, err := r.store.Update(genericapirequest.WithNamespace(ctx, data.Namespace), data.Name, rest.DefaultUpdatedObjectInfo(data.DeepCopy()),
		rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	if err != nil {
		return nil, err
	}
	return obj.(*metal3.HardwareData), nil
}

// Delete deletes an object, or marks it for deletion if it has finalizers.
func (r *Records) Delete(ctx context.Context, namespace, name string) error {
	_, _, err := r.store.Delete(genericapirequest.WithNamespace(ctx, namespace), name, rest.ValidateAllObjectFunc, &metav1.DeleteOptions{})
	return err
}

// Put creates data, or, if the object exists, replaces its spec and keeps its metadata. If
// the spec is the same, nothing is written.
func (r *Records) Put(ctx context.Context, data *metal3.HardwareData) error {
	for {
		err := r.change(ctx, data.Namespace, data.Name, func(existing *metal3.HardwareData) { data.Spec.DeepCopyInto(&existing.Spec) })
		if !apierrors.IsNotFound(err) {
			return err
		}
		created := data.DeepCopy()
		created.UID, created.ResourceVersion = "", "" // they belong to an object that no longer exists
		if _, err := r.Create(ctx, created); !apierrors.IsAlreadyExists(err) {
			return err
		}
		// Somebody else has created the object in the meantime: replace its spec.
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// RemoveFinalizer removes a finalizer, which completes a deletion if it was the last one. It
// does nothing if the object does not exist.
func (r *Records) RemoveFinalizer(ctx context.Context, namespace, name, finalizer string) error {
	err := r.change(ctx, namespace, name, func(existing *metal3.HardwareData) {
		existing.Finalizers = slices.DeleteFunc(existing.Finalizers, func(f string) bool { return f == finalizer })
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// change applies a change to the latest version of an object. It repeats the change if
// somebody else writes the object in between.
func (r *Records) change(ctx context.Context, namespace, name string, change func(*metal3.HardwareData)) error {
	info := rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, existing runtime.Object) (runtime.Object, error) {
		data := existing.DeepCopyObject().(*metal3.HardwareData)
		change(data)
		return data, nil
	})
	_, _, err := r.store.Update(genericapirequest.WithNamespace(ctx, namespace), name, info,
		rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	return err
}
