// SPDX-License-Identifier: Apache-2.0

package firmware

import (
	"context"
	"strings"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/apiserver/pkg/warning"

	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/kind"
	"github.com/metal3-io/metal3-apiserver/pkg/store"
)

// Refresher brings what is recorded up to date with Ironic. After an error, what is recorded is
// served all the same, with the error as a warning.
type Refresher interface {
	RefreshSettings(ctx context.Context, namespace, name string) error
	// RefreshAllSettings does for a namespace what RefreshSettings does for one object; empty
	// means all namespaces.
	RefreshAllSettings(ctx context.Context, namespace string) error
	// RefreshComponents and RefreshAllComponents do the same for HostFirmwareComponents.
	RefreshComponents(ctx context.Context, namespace, name string) error
	RefreshAllComponents(ctx context.Context, namespace string) error
	// Preview says, for people, what would be done to a machine if obj was written; empty means
	// nothing.
	Preview(ctx context.Context, obj runtime.Object) (string, error)
}

// REST serves one of the two kinds.
type REST struct {
	*kind.REST
	refreshOne func(ctx context.Context, namespace, name string) error
	refreshAll func(ctx context.Context, namespace string) error
	preview    func(ctx context.Context, obj runtime.Object) (string, error)
}

// NewSettingsREST returns the storage of hostfirmwaresettings. live is used only when something is read: it
// can be nil for a migration, which reads nothing in this way.
func NewSettingsREST(stored *kind.REST, live Refresher) *REST {
	if live == nil {
		return &REST{REST: stored}
	}
	return &REST{stored, live.RefreshSettings, live.RefreshAllSettings, live.Preview}
}

// NewComponentsREST returns the storage of hostfirmwarecomponents, as NewSettingsREST does.
func NewComponentsREST(stored *kind.REST, live Refresher) *REST {
	if live == nil {
		return &REST{REST: stored}
	}
	return &REST{stored, live.RefreshComponents, live.RefreshAllComponents, live.Preview}
}

var (
	_ rest.StandardStorage      = &REST{}
	_ rest.ShortNamesProvider   = &REST{}
	_ rest.SingularNameProvider = &REST{}
)

// Create stores an object. The answer to a dry run has a warning that says what would be done to the
// machine.
func (r *REST) Create(ctx context.Context, obj runtime.Object, createValidation rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	created, err := r.REST.Create(ctx, obj, createValidation, options)
	if err == nil && dryrun.IsDryRun(options.DryRun) {
		r.addPreviewWarning(ctx, created)
	}
	return created, err
}

// Update changes an object, with a warning like that of Create.
func (r *REST) Update(ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc, updateValidation rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	updated, created, err := r.REST.Update(ctx, name, objInfo, createValidation, updateValidation, forceAllowCreate, options)
	if err == nil && dryrun.IsDryRun(options.DryRun) {
		r.addPreviewWarning(ctx, updated)
	}
	return updated, created, err
}

// addPreviewWarning adds a warning that says what would be done to the machine if obj was written.
func (r *REST) addPreviewWarning(ctx context.Context, obj runtime.Object) {
	text, err := r.preview(ctx, obj)
	if err != nil {
		text = "it is not known what would be done to the machine: " + err.Error()
	}
	if text != "" {
		warning.AddWarning(ctx, "", strings.ReplaceAll(text, "\n", "; "))
	}
}

// Get refreshes and returns an object, as it is in etcd then, even if the client would accept an
// older resourceVersion.
func (r *REST) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	kind.Warn(ctx, r.refreshOne(ctx, genericapirequest.NamespaceValue(ctx), name))
	return r.REST.Get(ctx, name, &metav1.GetOptions{})
}

// List refreshes and returns objects. A list at a certain earlier resourceVersion is served as recorded.
func (r *REST) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	if kind.IsHistory(options) {
		return r.REST.List(ctx, options)
	}
	r.refresh(ctx, options)
	options, err := kind.AtLatest(ctx, r.Store, options)
	if err != nil {
		return nil, err
	}
	return store.ListLatest(ctx, r.Store, options)
}

// Watch refreshes the objects once. After that, whatever is recorded is an event.
func (r *REST) Watch(ctx context.Context, options *metainternalversion.ListOptions) (watch.Interface, error) {
	r.refresh(ctx, options)
	return r.REST.Watch(ctx, options)
}

func (r *REST) refresh(ctx context.Context, options *metainternalversion.ListOptions) {
	namespace := genericapirequest.NamespaceValue(ctx)
	if options != nil && options.FieldSelector != nil && namespace != "" {
		if name, only := options.FieldSelector.RequiresExactMatch("metadata.name"); only {
			kind.Warn(ctx, r.refreshOne(ctx, namespace, name))
			return
		}
	}
	kind.Warn(ctx, r.refreshAll(ctx, namespace))
}
