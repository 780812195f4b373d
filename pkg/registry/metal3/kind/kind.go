// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"cmp"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
)

// Kind describes a kind.
type Kind struct {
	// GroupVersion is that of the kind. The default is that of metal3.io.
	GroupVersion schema.GroupVersion
	// Resource and Singular are the plural and singular names in URLs and for kubectl.
	Resource, Singular string
	// ClusterScoped is set if objects are not in a namespace.
	ClusterScoped bool
	// ShortNames are other names for kubectl.
	ShortNames []string
	// New returns an empty object, which must be a pointer to a struct. NewList returns an
	// empty list.
	New, NewList func() runtime.Object
	// Columns are the columns that kubectl get prints after the name.
	Columns []Column
	// HasStatus is set if the field Status is not written together with the rest of the object. AddTo adds
	// the status subresource then, through which it is written, and nothing else. If the type has no such
	// field, the subresource writes nothing.
	HasStatus bool
	// Limits are the maximum sizes of spec and status. The default is 256 KiB for each.
	Limits validation.Limits
	// Validate validates everything except the metadata. It can be nil. old is the object
	// before the update, or nil for a new object. Errors that old already has must not be
	// reported, because a rule can be newer than an object.
	Validate func(obj, old runtime.Object) field.ErrorList
	// Warnings returns what the client that writes an object is told. It can be nil.
	Warnings func(obj runtime.Object) []string
	// Secrets returns the Secrets whose contents are sent to where the object says. It can be nil. Only
	// users who may get these Secrets can write the spec of the object.
	Secrets func(obj runtime.Object) []SecretReference
}

// defaultLimits are the limits of kinds that do not set their own.
var defaultLimits = validation.Limits{Spec: 256 << 10, Status: 256 << 10}

// SizeLimits returns the limits that apply to the kind.
func (k Kind) SizeLimits() validation.Limits { return cmp.Or(k.Limits, defaultLimits) }

// groupVersion returns the group and version of the kind.
func (k Kind) groupVersion() schema.GroupVersion {
	return cmp.Or(k.GroupVersion, metal3.SchemeGroupVersion)
}

// qualified returns a name of the kind with its group.
func (k Kind) qualified(name string) schema.GroupResource {
	return k.groupVersion().WithResource(name).GroupResource()
}

// check returns an error if the description of the kind is not valid.
func (k Kind) check() error {
	obj := k.New()
	if _, ok := obj.(metav1.Object); !ok {
		return fmt.Errorf("resource %s: %T has no metadata", k.Resource, obj)
	}
	return nil
}
