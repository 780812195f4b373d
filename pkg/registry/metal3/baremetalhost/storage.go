// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/kind"
	"github.com/metal3-io/metal3-apiserver/pkg/store"
)

// Refresher brings the recorded status of hosts up to date with Ironic.
type Refresher interface {
	// RefreshHost returns when an observation that began after the call has been recorded. After
	// an error, the recorded status is served all the same, with the error as a warning.
	RefreshHost(ctx context.Context, namespace, name string) error
	// ReadHost does what RefreshHost does, and returns the host as it was recorded. If the host
	// is nil, as it always is after an error, the caller has to read it. The caller may change
	// the host.
	ReadHost(ctx context.Context, namespace, name string) (*metal3.BareMetalHost, error)
	// RefreshAll does for all hosts of a namespace what RefreshHost does for one. Empty is all namespaces.
	RefreshAll(ctx context.Context, namespace string) error
}

// NewStore returns a store of the hosts as they are recorded in etcd, without a refresh from
// Ironic. Hosts can be created only in the given namespaces, or in all if none is given.
func NewStore(scheme *runtime.Scheme, optsGetter generic.RESTOptionsGetter, namespaces []string) (*genericregistry.Store, error) {
	strategy := newStrategy(scheme)
	strategy.namespaces = namespaces
	hosts := &genericregistry.Store{
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
	if err := hosts.CompleteWithOptions(&generic.StoreOptions{RESTOptions: store.Guarded(optsGetter), AttrFunc: attributes}); err != nil {
		return nil, err
	}
	return hosts, nil
}

// REST serves baremetalhosts.
type REST struct {
	kind.Live
	live     Refresher
	ironicOf IronicOf
	nodes    Nodes
}

// NewREST returns the storage of baremetalhosts. The store is one from NewStore.
func NewREST(store *genericregistry.Store, live Refresher, ironicOf IronicOf, nodes Nodes) *REST {
	registerMetrics()
	return &REST{kind.Live{Store: store, One: live.RefreshHost, All: live.RefreshAll, Seen: countRead}, live, ironicOf, nodes}
}

var (
	_ rest.StandardStorage      = &REST{}
	_ rest.ShortNamesProvider   = &REST{}
	_ rest.SingularNameProvider = &REST{}
)

// ShortNames returns the short names that the CRD has, too.
func (*REST) ShortNames() []string { return []string{"bmh", "bmhost"} }

// Get refreshes and returns a host. The answer is the host as the refresh has recorded it, or as
// it is in etcd after that, even if the client would accept an older resourceVersion. If its Ironic cannot be asked, a
// condition says so; see showSilence.
func (r *REST) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	host, err := r.live.ReadHost(ctx, genericapirequest.NamespaceValue(ctx), name)
	kind.Warn(ctx, err)
	countRead(ctx, "get", err)
	if host != nil {
		return host, nil
	}
	obj, getErr := r.Store.Get(ctx, name, &metav1.GetOptions{})
	if getErr != nil {
		return nil, getErr
	}
	return showSilence(obj.(*metal3.BareMetalHost), err), nil
}

// NewStatusREST returns the status subresource of r. The authorizer knows who may be the Bare Metal Operator; nil permits
// everything.
func NewStatusREST(r *REST, scheme *runtime.Scheme, authorizer authorizer.Authorizer) *kind.StatusREST {
	return kind.StatusOf(r.Store, statusStrategy{newStrategy(scheme), authorizer}, r)
}
