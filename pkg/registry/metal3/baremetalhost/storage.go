// Package baremetalhost serves the resource baremetalhosts and its subresources.
//
// The way of a read is in storage.go: refresh what is recorded, then let the
// stock store answer.
package baremetalhost

import (
	"context"
	"strconv"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/cacher"
	storeerr "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/warning"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/kind"
)

// HostRefresher makes what is recorded of a host what Ironic says now.
type HostRefresher interface {
	// RefreshHost returns when an observation that began after the call was recorded.
	// An error is for the reader's eyes: what is recorded is served all the same.
	RefreshHost(ctx context.Context, namespace, name string) error
}

// Refresher is a HostRefresher that can refresh all hosts, too.
type Refresher interface {
	HostRefresher
	// ReadHost is RefreshHost, and returns the host as it was recorded then. The host is
	// nil where it has to be read, as always after an error. The caller may change it.
	ReadHost(ctx context.Context, namespace, name string) (*metal3.BareMetalHost, error)
	RefreshAll(ctx context.Context) error
}

// PasswordRedacter takes passwords out of Ironic's words.
type PasswordRedacter interface {
	// RedactPassword takes the password of the host's BMC out of what Ironic says about its
	// node. After an error, none of that may be shown.
	RedactPassword(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node) error
}

// NewStore returns the undecorated store of hosts: what is in etcd, without a
// look at Ironic. Hosts can be created only in the given namespaces; none means in all.
func NewStore(scheme *runtime.Scheme, optsGetter generic.RESTOptionsGetter, namespaces []string) (*genericregistry.Store, error) {
	strategy := newStrategy(scheme)
	strategy.namespaces = namespaces
	store := &genericregistry.Store{
		NewFunc:                   func() runtime.Object { return &metal3.BareMetalHost{} },
		NewListFunc:               func() runtime.Object { return &metal3.BareMetalHostList{} },
		PredicateFunc:             predicate,
		DefaultQualifiedResource:  metal3.Resource("baremetalhosts"),
		SingularQualifiedResource: metal3.Resource("baremetalhost"),
		CreateStrategy:            strategy,
		UpdateStrategy:            strategy,
		DeleteStrategy:            strategy,
		ResetFieldsStrategy:       strategy,
		TableConvertor:            tableConvertor{},
	}
	return store, store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: optsGetter, AttrFunc: attributes})
}

// REST serves baremetalhosts.
type REST struct {
	*genericregistry.Store
	live Refresher
}

// NewREST returns the storage of baremetalhosts on an undecorated store.
func NewREST(store *genericregistry.Store, live Refresher) *REST {
	return &REST{Store: store, live: live}
}

var (
	_ rest.StandardStorage      = &REST{}
	_ rest.ShortNamesProvider   = &REST{}
	_ rest.SingularNameProvider = &REST{}
)

// ShortNames are those of the CRD.
func (*REST) ShortNames() []string { return []string{"bmh", "bmhost"} }

// Get serves one host, refreshed. At whatever resourceVersion the client would accept
// it, the answer is what the refresh has recorded, or else what etcd has after that.
func (r *REST) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	host, err := r.live.ReadHost(ctx, genericapirequest.NamespaceValue(ctx), name)
	warn(ctx, err)
	if host != nil {
		return host, nil
	}
	return r.Store.Get(ctx, name, &metav1.GetOptions{})
}

// List serves hosts, refreshed; but what a client asks for as it was at an
// earlier resourceVersion is history and served as recorded.
func (r *REST) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	if isHistory(options) {
		return r.Store.List(ctx, options)
	}
	r.refresh(ctx, options)
	options, err := r.lift(ctx, options)
	if err != nil {
		return nil, err
	}
	return listLatest(ctx, r.Store, options)
}

// listLatest is a list of the latest state. From the watch cache, it waits until
// the cache has seen all that was written to that etcd, be it to other keys, and
// the cache itself asks etcd about that only every 100 ms: so etcd is asked at once.
func listLatest(ctx context.Context, store *genericregistry.Store, options *metainternalversion.ListOptions) (runtime.Object, error) {
	if cache, ok := store.Storage.Storage.(*cacher.CacheDelegator); ok {
		if err := cache.RequestWatchProgress(ctx); err != nil {
			return nil, storeerr.InterpretListError(err, store.DefaultQualifiedResource)
		}
	}
	return store.List(ctx, options)
}

// Watch begins with a refresh. From then on, whatever anybody records is an event.
func (r *REST) Watch(ctx context.Context, options *metainternalversion.ListOptions) (watch.Interface, error) {
	if err := kind.RefuseFuture(ctx, r.Store, options); err != nil {
		return nil, err
	}
	r.refresh(ctx, options)
	return r.Store.Watch(ctx, options)
}

func (r *REST) refresh(ctx context.Context, options *metainternalversion.ListOptions) {
	if name, ok := onlyName(options); ok {
		r.refreshHost(ctx, name)
		return
	}
	warn(ctx, r.live.RefreshAll(ctx))
}

func (r *REST) refreshHost(ctx context.Context, name string) {
	warn(ctx, r.live.RefreshHost(ctx, genericapirequest.NamespaceValue(ctx), name))
}

func warn(ctx context.Context, err error) {
	if err != nil {
		warning.AddWarning(ctx, "", err.Error())
	}
}

// onlyName returns the name that the field selector restricts a request to, as
// that of `kubectl get baremetalhost NAME -w` does.
func onlyName(options *metainternalversion.ListOptions) (string, bool) {
	if options == nil || options.FieldSelector == nil {
		return "", false
	}
	return options.FieldSelector.RequiresExactMatch("metadata.name")
}

// isHistory tells whether a list has to be served as of the resourceVersion that
// it names: it says so, it continues an earlier one, or, as an older convention
// has it, it names one along with a limit.
func isHistory(options *metainternalversion.ListOptions) bool {
	if options == nil {
		return false
	}
	return options.Continue != "" ||
		options.ResourceVersionMatch == metav1.ResourceVersionMatchExact ||
		options.ResourceVersionMatch == "" && options.Limit > 0 && options.ResourceVersion != "" && options.ResourceVersion != "0"
}

// lift raises the resourceVersion that a list accepts to the one that etcd is at
// now. With the watch cache on, a list "at any version" or "not older than" an
// old one would come from a cache that has not yet seen what was just recorded.
// A version that etcd has not reached yet stays: the store answers that.
func (r *REST) lift(ctx context.Context, options *metainternalversion.ListOptions) (*metainternalversion.ListOptions, error) {
	if options == nil || options.ResourceVersion == "" {
		return options, nil
	}
	asked, err := strconv.ParseUint(options.ResourceVersion, 10, 64)
	if err != nil {
		return options, nil // the store says what is wrong with it
	}
	current, err := r.Store.Storage.Storage.GetCurrentResourceVersion(ctx)
	if err != nil {
		return nil, err
	}
	if asked >= current {
		return options, nil
	}
	lifted := options.DeepCopy()
	lifted.ResourceVersion, lifted.ResourceVersionMatch = "", ""
	return lifted, nil
}

// StatusREST serves baremetalhosts/status.
type StatusREST struct {
	rest  *REST
	store *genericregistry.Store
}

// NewStatusREST returns the status subresource of r.
func NewStatusREST(r *REST, scheme *runtime.Scheme) *StatusREST {
	store := *r.Store // shares the backend
	strategy := statusStrategy{newStrategy(scheme)}
	store.UpdateStrategy, store.ResetFieldsStrategy = strategy, strategy
	return &StatusREST{rest: r, store: &store}
}

var (
	_ rest.Patcher             = &StatusREST{}
	_ rest.ResetFieldsStrategy = &StatusREST{}
	_ rest.TableConvertor      = &StatusREST{}
)

// New returns an empty host.
func (r *StatusREST) New() runtime.Object { return r.store.New() }

// Destroy leaves the backend to the REST that shares it.
func (r *StatusREST) Destroy() {}

// Get serves the host, refreshed.
func (r *StatusREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return r.rest.Get(ctx, name, options)
}

// Update writes the status alone.
func (r *StatusREST) Update(ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc, updateValidation rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return r.store.Update(ctx, name, objInfo, createValidation, updateValidation, false, options)
}

// GetResetFields are the fields that a write of the status does not own.
func (r *StatusREST) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return r.store.GetResetFields()
}

// ConvertToTable prints the same columns as for the host itself.
func (r *StatusREST) ConvertToTable(ctx context.Context, object runtime.Object, tableOptions runtime.Object) (*metav1.Table, error) {
	return r.store.ConvertToTable(ctx, object, tableOptions)
}
