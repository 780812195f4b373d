// Package hardwaredata gives the controller the recorded HardwareData.
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

// Records are the recorded HardwareData. They go past the API: its admission is
// for clients.
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

// Update writes data as a client's PUT does: somebody else's write since data was
// read makes it a Conflict, and the last finalizer to go completes a deletion.
func (r *Records) Update(ctx context.Context, data *metal3.HardwareData) (*metal3.HardwareData, error) {
	obj, _, err := r.store.Update(genericapirequest.WithNamespace(ctx, data.Namespace), data.Name, rest.DefaultUpdatedObjectInfo(data.DeepCopy()),
		rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	if err != nil {
		return nil, err
	}
	return obj.(*metal3.HardwareData), nil
}

// Delete deletes, or only marks for it what has finalizers.
func (r *Records) Delete(ctx context.Context, namespace, name string) error {
	_, _, err := r.store.Delete(genericapirequest.WithNamespace(ctx, namespace), name, rest.ValidateAllObjectFunc, &metav1.DeleteOptions{})
	return err
}

// Put creates data, or replaces the spec of what is there; the metadata of that
// stays as it is. The same spec again is no write.
func (r *Records) Put(ctx context.Context, data *metal3.HardwareData) error {
	for {
		err := r.change(ctx, data.Namespace, data.Name, func(there *metal3.HardwareData) { data.Spec.DeepCopyInto(&there.Spec) })
		if !apierrors.IsNotFound(err) {
			return err
		}
		created := data.DeepCopy()
		created.UID, created.ResourceVersion = "", "" // those of an object that is gone
		if _, err := r.Create(ctx, created); !apierrors.IsAlreadyExists(err) {
			return err
		}
		// Somebody was quicker: now there is something to replace the spec of.
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// RemoveFinalizer removes a finalizer, which completes a deletion when it was the
// last one. What is not there needs nothing removed.
func (r *Records) RemoveFinalizer(ctx context.Context, namespace, name, finalizer string) error {
	err := r.change(ctx, namespace, name, func(there *metal3.HardwareData) {
		there.Finalizers = slices.DeleteFunc(there.Finalizers, func(f string) bool { return f == finalizer })
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// change makes a change on the newest object: somebody else's write in between is
// not overwritten.
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
