// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"net/http"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
)

// Explained returns options of a store whose errors say what can be done while etcd is full. Etcd's own error says only that its
// database space is exceeded.
func Explained(options generic.RESTOptionsGetter) generic.RESTOptionsGetter {
	return wrapped{options, func(inner storage.Interface) storage.Interface { return explainedStorage{inner} }}
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
