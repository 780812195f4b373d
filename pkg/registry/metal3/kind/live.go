// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"context"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"

	"github.com/metal3-io/metal3-apiserver/pkg/store"
)

// Live brings what a store has up to date before it is listed or watched. After an error, what is
// recorded is served all the same, with the error as a warning.
type Live struct {
	*genericregistry.Store
	// One brings an object up to date.
	One func(ctx context.Context, namespace, name string) error
	// All brings all objects of a namespace up to date; empty means all namespaces.
	All func(ctx context.Context, namespace string) error
	// Seen is told of each read, and of what the client was warned of; may be nil.
	Seen func(ctx context.Context, verb string, err error)
}

// List refreshes and returns objects. A list at a certain earlier resourceVersion is served as
// recorded.
func (l *Live) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	if isHistory(options) {
		return l.Store.List(ctx, options)
	}
	l.refresh(ctx, "list", options)
	options, err := atLatest(ctx, l.Store, options)
	if err != nil {
		return nil, err
	}
	return store.ListLatest(ctx, l.Store, options)
}

// Watch refreshes the objects once. After that, whatever is recorded, by any replica, is an event.
func (l *Live) Watch(ctx context.Context, options *metainternalversion.ListOptions) (watch.Interface, error) {
	if err := refuseFuture(ctx, l.Store, options); err != nil {
		return nil, err
	}
	l.refresh(ctx, "watch", options)
	return l.Store.Watch(ctx, options)
}

// refresh refreshes the objects that a request is about.
func (l *Live) refresh(ctx context.Context, verb string, options *metainternalversion.ListOptions) {
	namespace := genericapirequest.NamespaceValue(ctx)
	var err error
	if name, single := onlyName(options); single && namespace != "" {
		err = l.One(ctx, namespace, name)
	} else {
		err = l.All(ctx, namespace)
	}
	Warn(ctx, err)
	if l.Seen != nil {
		l.Seen(ctx, verb, err)
	}
}

// onlyName returns the name of the object if the field selector restricts a request to a single one,
// as that of `kubectl get baremetalhost NAME -w` does.
func onlyName(options *metainternalversion.ListOptions) (string, bool) {
	if options == nil || options.FieldSelector == nil {
		return "", false
	}
	return options.FieldSelector.RequiresExactMatch("metadata.name")
}
