// SPDX-License-Identifier: Apache-2.0

package firmware

import (
	"context"
	"errors"
	"fmt"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"

	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/kind"
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
	live    kind.Live
	preview func(ctx context.Context, obj runtime.Object) (string, error)
}

// NewSettingsREST returns the storage of hostfirmwaresettings.
func NewSettingsREST(stored *kind.REST, live Refresher) *REST {
	return &REST{stored, kind.Live{Store: stored.Store, One: live.RefreshSettings, All: live.RefreshAllSettings}, live.Preview}
}

// NewComponentsREST returns the storage of hostfirmwarecomponents.
func NewComponentsREST(stored *kind.REST, live Refresher) *REST {
	return &REST{stored, kind.Live{Store: stored.Store, One: live.RefreshComponents, All: live.RefreshAllComponents}, live.Preview}
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
	switch {
	case err != nil:
		kind.Warn(ctx, fmt.Errorf("it is not known what would be done to the machine: %w", err))
	case text != "":
		kind.Warn(ctx, errors.New(text))
	}
}

// Get refreshes and returns an object, as it is in etcd then, even if the client would accept an
// older resourceVersion.
func (r *REST) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	kind.Warn(ctx, r.live.One(ctx, genericapirequest.NamespaceValue(ctx), name))
	return r.REST.Get(ctx, name, &metav1.GetOptions{})
}

// List refreshes and returns objects.
func (r *REST) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	return r.live.List(ctx, options)
}

// Watch refreshes the objects once. After that, whatever is recorded is an event.
func (r *REST) Watch(ctx context.Context, options *metainternalversion.ListOptions) (watch.Interface, error) {
	return r.live.Watch(ctx, options)
}
