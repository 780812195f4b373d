package app

import (
	"context"
	"errors"
	"net/http"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

// explainedOptions are options for stores whose errors say what can be done while etcd is full. Its
// own error says only that its database space is exceeded.
type explainedOptions struct{ generic.RESTOptionsGetter }

// GetRESTOptions returns the options for the store of a resource.
func (g explainedOptions) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := g.RESTOptionsGetter.GetRESTOptions(resource, example)
	decorate := options.Decorator
	options.Decorator = func(config *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string, error), newFunc, newList func() runtime.Object,
		attributes storage.AttrFunc, trigger storage.IndexerFuncs, indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		inner, destroy, err := decorate(config, prefix, key, newFunc, newList, attributes, trigger, indexers)
		return explainedStorage{inner}, destroy, err
	}
	return options, err
}

type explainedStorage struct{ storage.Interface }

// Unwrap returns the storage whose errors are explained, which may be a watch cache.
func (s explainedStorage) Unwrap() storage.Interface { return s.Interface }

// Create creates an object.
func (s explainedStorage) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	return explainFull(s.Interface.Create(ctx, key, obj, out, ttl))
}

// Delete deletes an object.
func (s explainedStorage) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, existing runtime.Object, options storage.DeleteOptions,
) error {
	return explainFull(s.Interface.Delete(ctx, key, out, preconditions, validate, existing, options))
}

// GuaranteedUpdate updates an object.
func (s explainedStorage) GuaranteedUpdate(ctx context.Context, key string, into runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, update storage.UpdateFunc, existing runtime.Object,
) error {
	return explainFull(s.Interface.GuaranteedUpdate(ctx, key, into, ignoreNotFound, preconditions, update, existing))
}

func explainFull(err error) error {
	if err == nil || !errors.Is(err, rpctypes.ErrNoSpace) {
		return err
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInsufficientStorage, Reason: "InsufficientStorage",
		Message: "nothing can be created or changed, because etcd has no space (" + err.Error() + "). Objects can be read, and those without finalizers deleted. " +
			"The server's administrator finds the cause in /readyz?verbose and in the log, and has to make space",
	}}
}
