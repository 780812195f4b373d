// SPDX-License-Identifier: Apache-2.0

package ironic

import (
	"context"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"

	api "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/validation"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/kind"
)

// NewInstances returns the store of the IronicInstances. Their Secrets are in the given namespace, that of the
// server. It is created before the components that use the Ironics; Storage makes it serve the API.
func NewInstances(scheme *runtime.Scheme, optsGetter generic.RESTOptionsGetter, namespace string) (*kind.REST, error) {
	return kind.NewREST(kind.Kind{
		GroupVersion: api.SchemeGroupVersion,
		Resource:     "ironicinstances", Singular: "ironicinstance", ShortNames: []string{"ironics"}, ClusterScoped: true,
		New:       func() runtime.Object { return &api.IronicInstance{} },
		NewList:   func() runtime.Object { return &api.IronicInstanceList{} },
		HasStatus: true,
		Validate: func(obj, old runtime.Object) field.ErrorList {
			before, _ := old.(*api.IronicInstance) // nil for a new object
			return validation.ValidateIronicInstance(obj.(*api.IronicInstance), before)
		},
		Warnings: func(obj runtime.Object) []string { return validation.WarnOfIronicInstance(obj.(*api.IronicInstance)) },
		// The server logs in with it at the endpoint in the spec.
		Secrets: func(obj runtime.Object) []kind.SecretReference {
			name := obj.(*api.IronicInstance).Spec.CredentialsName
			if name == "" {
				return nil
			}
			return []kind.SecretReference{{Namespace: namespace, Name: name, Path: field.NewPath("spec", "credentialsName")}}
		},
	}, scheme, optsGetter)
}

// instances serves the IronicInstances. Their status is not stored, and there is no subresource through which
// it could be written: it is filled in whenever an instance is read. Watches, and the answers to writes, have
// the instances as they are stored, with an empty status: what a watch has sent would not be brought up to
// date while nobody writes the instance.
type instances struct {
	*kind.REST
	hosts     Hosts
	statuses  *statuses
	namespace string // of the server
}

var (
	_ rest.StandardStorage      = &instances{}
	_ rest.ShortNamesProvider   = &instances{}
	_ rest.SingularNameProvider = &instances{}
)

// Get returns an instance with its status.
func (r *instances) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	obj, err := r.REST.Get(ctx, name, options)
	if err != nil {
		return nil, err
	}
	return obj, r.statuses.fill(ctx, []*api.IronicInstance{obj.(*api.IronicInstance)})
}

// List returns the instances with their statuses.
func (r *instances) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	obj, err := r.REST.List(ctx, options)
	if err != nil {
		return nil, err
	}
	list := obj.(*api.IronicInstanceList)
	all := make([]*api.IronicInstance, 0, len(list.Items))
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return list, r.statuses.fill(ctx, all)
}

// Create creates an instance.
func (r *instances) Create(ctx context.Context, obj runtime.Object, createValidation rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	return r.REST.Create(ctx, obj, kind.Then(createValidation, r.refuseTwin), options)
}

// Update writes everything except the status.
func (r *instances) Update(ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc, updateValidation rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return r.REST.Update(ctx, name, objInfo, kind.Then(createValidation, r.refuseTwin), kind.ThenOnUpdate(updateValidation, r.refuseTwinOnChange), forceAllowCreate, options)
}

// Delete deletes an instance in which no host has its node, or marks it for deletion if it has finalizers.
func (r *instances) Delete(ctx context.Context, name string, deleteValidation rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	return r.REST.Delete(ctx, name, kind.Then(deleteValidation, r.refuseDeletionWithHosts), options)
}

// DeleteCollection deletes instances one by one, and stops at the first that may not be deleted.
func (r *instances) DeleteCollection(ctx context.Context, deleteValidation rest.ValidateObjectFunc, options *metav1.DeleteOptions, listOptions *metainternalversion.ListOptions) (runtime.Object, error) {
	return r.REST.DeleteCollection(ctx, kind.Then(deleteValidation, r.refuseDeletionWithHosts), options, listOptions)
}
