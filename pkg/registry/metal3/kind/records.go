package kind

import (
	"context"
	"io"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Object is an object of a kind.
type Object interface {
	runtime.Object
	metav1.Object
}

// Records gives a controller of this server access to the recorded objects of a kind. It bypasses
// the API, whose admission and authorization are meant for clients; the strategies of the kind
// apply.
type Records[T Object] struct{ store, status *genericregistry.Store }

// NewRecords returns the Records of the kind that r serves.
func NewRecords[T Object](r *REST) *Records[T] {
	return &Records[T]{store: r.Store, status: newStatusREST(r).store}
}

// Get returns the latest version of an object.
func (r *Records[T]) Get(ctx context.Context, namespace, name string) (T, error) {
	return as[T](r.store.Get(genericapirequest.WithNamespace(ctx, namespace), name, &metav1.GetOptions{}))
}

// List returns the objects of all namespaces.
func (r *Records[T]) List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	internal, err := InternalListOptions(&options)
	if err != nil {
		return nil, err
	}
	return r.store.List(genericapirequest.WithNamespace(ctx, metav1.NamespaceAll), internal)
}

// Watch watches the objects of all namespaces.
func (r *Records[T]) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	internal, err := InternalListOptions(&options)
	if err != nil {
		return nil, err
	}
	stored, err := r.store.Watch(genericapirequest.WithNamespace(ctx, metav1.NamespaceAll), internal)
	if err != nil {
		return nil, err
	}
	return ForInformer(stored, nil), nil
}

// Create records a new object.
func (r *Records[T]) Create(ctx context.Context, obj T) (T, error) {
	return as[T](r.store.Create(genericapirequest.WithNamespace(ctx, obj.GetNamespace()), obj.DeepCopyObject(), rest.ValidateAllObjectFunc, &metav1.CreateOptions{}))
}

// Update writes metadata and spec. It returns a Conflict if somebody else has written the object
// since obj was read. Removing the last finalizer of an object that is being deleted completes the
// deletion.
func (r *Records[T]) Update(ctx context.Context, obj T) (T, error) { return update(ctx, r.store, obj) }

// UpdateStatus writes the status, like Update.
func (r *Records[T]) UpdateStatus(ctx context.Context, obj T) (T, error) {
	return update(ctx, r.status, obj)
}

// Change applies a change to the latest version of an object, except for its status. It repeats the change
// if somebody else writes the object in between.
func (r *Records[T]) Change(ctx context.Context, namespace, name string, change func(T)) error {
	info := rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, existing runtime.Object) (runtime.Object, error) {
		obj := existing.DeepCopyObject().(T)
		change(obj)
		return obj, nil
	})
	_, _, err := r.store.Update(genericapirequest.WithNamespace(ctx, namespace), name, info,
		rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	return err
}

// Delete deletes an object, or marks it for deletion if it has finalizers.
func (r *Records[T]) Delete(ctx context.Context, namespace, name string) error {
	_, _, err := r.store.Delete(genericapirequest.WithNamespace(ctx, namespace), name, rest.ValidateAllObjectFunc, &metav1.DeleteOptions{})
	return err
}

func update[T Object](ctx context.Context, store *genericregistry.Store, obj T) (T, error) {
	updated, _, err := store.Update(genericapirequest.WithNamespace(ctx, obj.GetNamespace()), obj.GetName(),
		rest.DefaultUpdatedObjectInfo(obj.DeepCopyObject()), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	return as[T](updated, err)
}

func as[T Object](obj runtime.Object, err error) (T, error) {
	typed, _ := obj.(T)
	return typed, err
}

// InternalListOptions converts options for a store.
func InternalListOptions(options *metav1.ListOptions) (*metainternalversion.ListOptions, error) {
	internal := &metainternalversion.ListOptions{}
	return internal, metainternalversion.Convert_v1_ListOptions_To_internalversion_ListOptions(options, internal, nil)
}

// ForInformer returns a watch of a store in a form that informers can handle. The watch cache wraps
// objects in CacheableObjects, which are encoded only once for all watchers of the API. What
// informers get are copies, which prepare can change if it is not nil.
func ForInformer(stored watch.Interface, prepare func(runtime.Object)) watch.Interface {
	return watch.NewStreamWatcher(unwrapped{stored, prepare}, nil) // the reporter is only for errors other than io.EOF
}

type unwrapped struct {
	watch.Interface
	prepare func(runtime.Object)
}

func (u unwrapped) Decode() (watch.EventType, runtime.Object, error) {
	event, ok := <-u.ResultChan()
	if !ok {
		return "", nil, io.EOF
	}
	obj := event.Object
	if cached, ok := obj.(runtime.CacheableObject); ok {
		obj = cached.GetObject()
	}
	if u.prepare != nil {
		u.prepare(obj)
	}
	return event.Type, obj, nil
}

func (u unwrapped) Close() { u.Stop() }
