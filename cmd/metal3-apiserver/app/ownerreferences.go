// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/utils/ptr"
)

// ownerPermissionsName is the name of the plugin of kube-apiserver that does the same. That one
// does not see the objects that are written here, and it is not part of k8s.io/apiserver. As in
// kube-apiserver, the plugin is off by default.
const ownerPermissionsName = "OwnerReferencesPermissionEnforcement"

// offerOwnerPermissions adds the plugin to those that --enable-admission-plugins can enable.
func offerOwnerPermissions(o *genericoptions.AdmissionOptions) {
	o.Plugins.Register(ownerPermissionsName, func(io.Reader) (admission.Interface, error) {
		return &ownerPermissions{Handler: admission.NewHandler(admission.Create, admission.Update)}, nil
	})
	o.RecommendedPluginOrder = append(o.RecommendedPluginOrder, ownerPermissionsName)
	o.DefaultOffPlugins.Insert(ownerPermissionsName)
}

// ownerPermissions lets only those change the owners of an object who may delete it, because the
// garbage collector deletes it with its owners. And it lets only those set blockOwnerDeletion who
// may update the finalizers of the owner, because it delays the deletion of the owner.
type ownerPermissions struct {
	*admission.Handler
	authorizer authorizer.UnconditionalAuthorizer
	mapper     meta.RESTMapper
}

var (
	_ admission.ValidationInterface            = &ownerPermissions{}
	_ admission.InitializationValidator        = &ownerPermissions{}
	_ initializer.WantsUnconditionalAuthorizer = &ownerPermissions{}
	_ initializer.WantsRESTMapper              = &ownerPermissions{}
)

// SetUnconditionalAuthorizer sets what decides about permissions.
func (p *ownerPermissions) SetUnconditionalAuthorizer(a authorizer.UnconditionalAuthorizer) {
	p.authorizer = a
}

// SetRESTMapper sets what knows the resources of the kinds of owners.
func (p *ownerPermissions) SetRESTMapper(m meta.RESTMapper) { p.mapper = m }

// ValidateInitialization returns an error if something that the plugin needs was not set.
func (p *ownerPermissions) ValidateInitialization() error {
	if p.authorizer == nil || p.mapper == nil {
		return errors.New("the authorizer or the RESTMapper is missing")
	}
	return nil
}

// Validate refuses a write whose user lacks a permission that its owner references need.
func (p *ownerPermissions) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetSubresource() != "" { // those of hosts and the other kinds write no metadata
		return nil
	}
	owners := ownersOf(a.GetObject())
	before := ownersOf(a.GetOldObject())
	if equality.Semantic.DeepEqual(owners, before) {
		return nil
	}
	object := a.GetResource()
	err := p.require(ctx, a, authorizer.AttributesRecord{
		Verb: "delete", APIGroup: object.Group, APIVersion: object.Version, Resource: object.Resource, Namespace: a.GetNamespace(), Name: a.GetName(),
	}, "the owners of an object can be changed only by those who may delete it")
	if err != nil {
		return err
	}
	blocked := map[types.UID]bool{}
	for _, owner := range before {
		blocked[owner.UID] = ptr.Deref(owner.BlockOwnerDeletion, false)
	}
	for _, owner := range owners {
		if !ptr.Deref(owner.BlockOwnerDeletion, false) || blocked[owner.UID] {
			continue
		}
		if err := p.mayBlock(ctx, a, owner); err != nil {
			return err
		}
	}
	return nil
}

// mayBlock returns an error if the user may not delay the deletion of an owner.
func (p *ownerPermissions) mayBlock(ctx context.Context, a admission.Attributes, owner metav1.OwnerReference) error {
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return admission.NewForbidden(a, fmt.Errorf("owner %s %s: %w", owner.Kind, owner.Name, err))
	}
	mapping, err := p.mapper.RESTMapping(version.WithKind(owner.Kind).GroupKind(), version.Version)
	if err != nil {
		return admission.NewForbidden(a, fmt.Errorf("owner %s %s: blockOwnerDeletion cannot be set, because the resource of the owner is not known: %w", owner.Kind, owner.Name, err))
	}
	attributes := authorizer.AttributesRecord{
		Verb: "update", APIGroup: mapping.Resource.Group, APIVersion: mapping.Resource.Version, Resource: mapping.Resource.Resource,
		Subresource: "finalizers", Name: owner.Name,
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		attributes.Namespace = a.GetNamespace() // an owner is in the namespace of the object
	}
	return p.require(ctx, a, attributes, fmt.Sprintf("blockOwnerDeletion for %s %s can be set only by those who may update its finalizers", owner.Kind, owner.Name))
}

// require returns an error with the rule if the user does not have a permission.
func (p *ownerPermissions) require(ctx context.Context, a admission.Attributes, permission authorizer.AttributesRecord, rule string) error {
	permission.User, permission.ResourceRequest = a.GetUserInfo(), true
	decision, _, err := p.authorizer.Authorize(ctx, permission)
	if decision == authorizer.DecisionAllow {
		return nil
	}
	if err != nil {
		return admission.NewForbidden(a, fmt.Errorf("%s, and that could not be determined: %w", rule, err))
	}
	return admission.NewForbidden(a, errors.New(rule))
}

func ownersOf(obj runtime.Object) []metav1.OwnerReference {
	if obj == nil {
		return nil
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil
	}
	return m.GetOwnerReferences()
}
