// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"context"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/metal3-io/metal3-apiserver/pkg/store"
)

// REST serves the resource of a kind.
type REST struct {
	*genericregistry.Store
	kind     Kind
	strategy strategy
	users    Users
	// authorizer knows who may get Secrets; nil if nobody is asked about.
	authorizer authorizer.Authorizer
}

// NewREST returns the storage of a kind. Field selectors can use metadata.name and
// metadata.namespace, which the generic store supports by default.
func NewREST(k Kind, scheme *runtime.Scheme, optsGetter generic.RESTOptionsGetter) (*REST, error) {
	if err := k.check(); err != nil {
		return nil, err
	}
	printer, err := newTableConvertor(k.Columns)
	if err != nil {
		return nil, err
	}
	s := strategy{scheme, names.SimpleNameGenerator, k}
	store := &genericregistry.Store{
		NewFunc:                   k.New,
		NewListFunc:               k.NewList,
		DefaultQualifiedResource:  k.qualified(k.Resource),
		SingularQualifiedResource: k.qualified(k.Singular),
		CreateStrategy:            s,
		UpdateStrategy:            s,
		DeleteStrategy:            s,
		ResetFieldsStrategy:       s,
		TableConvertor:            printer,
	}
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: optsGetter}); err != nil {
		return nil, err
	}
	return &REST{Store: store, kind: k, strategy: s}, nil
}

var (
	_ rest.StandardStorage      = &REST{}
	_ rest.ShortNamesProvider   = &REST{}
	_ rest.SingularNameProvider = &REST{}
)

// ShortNames returns the short names of the kind.
func (r *REST) ShortNames() []string { return r.kind.ShortNames }

// Watch watches the objects. It refuses a resourceVersion from the future (see refuseFuture).
func (r *REST) Watch(ctx context.Context, options *metainternalversion.ListOptions) (watch.Interface, error) {
	if err := refuseFuture(ctx, r.Store, options); err != nil {
		return nil, err
	}
	return r.Store.Watch(ctx, options)
}

// HasStatus reports whether the kind has a status subresource.
func (r *REST) HasStatus() bool { return r.kind.HasStatus }

// AddTo adds the resource, and its status subresource if it has one, to the storage of an API
// group.
func (r *REST) AddTo(storage map[string]rest.Storage) {
	storage[r.kind.Resource] = r
	if r.kind.HasStatus {
		storage[r.kind.Resource+"/status"] = NewStatusREST(r, r)
	}
}

// StatusREST serves the status of a resource.
type StatusREST struct {
	store  *genericregistry.Store
	getter rest.Getter
}

// NewStatusREST returns the status subresource of a kind, which is read with getter.
func NewStatusREST(r *REST, getter rest.Getter) *StatusREST {
	return StatusOf(r.Store, statusStrategy{r.strategy}, getter)
}

// StatusOf returns the status subresource of what is in a store. It is written with strategy, and read with getter.
func StatusOf(whole *genericregistry.Store, strategy rest.UpdateResetFieldsStrategy, getter rest.Getter) *StatusREST {
	store := *whole // the copy shares the storage backend
	store.UpdateStrategy, store.ResetFieldsStrategy = strategy, strategy
	return &StatusREST{&store, getter}
}

var (
	_ rest.Patcher             = &StatusREST{}
	_ rest.ResetFieldsStrategy = &StatusREST{}
	_ rest.TableConvertor      = &StatusREST{}
)

// New returns an empty object.
func (r *StatusREST) New() runtime.Object { return r.store.New() }

// Destroy does nothing, because the storage backend is shared with the resource itself.
func (r *StatusREST) Destroy() {}

// Get returns the whole object.
func (r *StatusREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return r.getter.Get(ctx, name, options)
}

// Update writes only the status.
func (r *StatusREST) Update(ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc, updateValidation rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return r.store.Update(ctx, name, objInfo, createValidation, updateValidation, false, options)
}

// GetResetFields returns the fields that a write of the status does not own.
func (r *StatusREST) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return r.store.GetResetFields()
}

// ConvertToTable prints the same columns as for the object itself.
func (r *StatusREST) ConvertToTable(ctx context.Context, object runtime.Object, tableOptions runtime.Object) (*metav1.Table, error) {
	return r.store.ConvertToTable(ctx, object, tableOptions)
}

// Objects returns what r has recorded, for a controller of this server.
func Objects[T store.Object](r *REST) *store.Objects[T] {
	return store.NewObjects[T](r.Store, NewStatusREST(r, r).store)
}
