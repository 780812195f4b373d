// Package kind stores and serves kinds in the same way as kube-apiserver handles kinds that
// are defined by a CustomResourceDefinition: objects are validated, stored and served, but
// this package does not act on them. A Kind describes how a kind differs from others.
package kind

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Kind describes a kind. All kinds are namespaced.
type Kind struct {
	// Resource and Singular are the plural and singular names in URLs and for kubectl.
	Resource, Singular string
	// ShortNames are other names for kubectl.
	ShortNames []string
	// New returns an empty object, which must be a pointer to a struct. NewList returns an
	// empty list.
	New, NewList func() runtime.Object
	// Columns are the columns that kubectl get prints after the name.
	Columns []Column
	// HasStatus is set if the kind has a status subresource. The field Status is then written
	// only through the subresource, which writes nothing else. If the type has no such field,
	// the subresource writes nothing.
	HasStatus bool
	// Validate validates everything except the metadata. It can be nil. old is the object
	// before the update, or nil for a new object. Errors that old already has must not be
	// reported, because a rule can be newer than an object.
	Validate func(obj, old runtime.Object) field.ErrorList
}

// check returns an error if the description of the kind is not valid.
func (k Kind) check() error {
	obj := k.New()
	if _, ok := obj.(metav1.Object); !ok {
		return fmt.Errorf("resource %s: %T has no metadata", k.Resource, obj)
	}
	return nil
}
