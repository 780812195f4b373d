// Package kind stores and serves kinds as kube-apiserver does those that a
// CustomResourceDefinition defines: what a client writes is checked, stored and
// served, and nothing is done with it here. What tells one kind from another is
// data.
package kind

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Kind is what tells one kind from another. Objects of all kinds are in namespaces.
type Kind struct {
	// Resource and Singular are the kind's names in URLs and for kubectl.
	Resource, Singular string
	// ShortNames are other names for kubectl.
	ShortNames []string
	// New and NewList return an empty object, a pointer to a struct, and an empty
	// list.
	New, NewList func() runtime.Object
	// Columns are printed by kubectl get, after the name.
	Columns []Column
	// HasStatus tells whether there is a status subresource: then the field Status
	// is written there, and nothing else is. Without such a field it writes nothing.
	HasStatus bool
	// Validate checks all but the metadata; nil checks nothing. old is what the
	// object was before, nil for a new one: a rule that is younger than the object
	// must let pass what was there before.
	Validate func(obj, old runtime.Object) field.ErrorList
}

// check tells what is wrong with the description of a kind, before anybody
// writes an object of it.
func (k Kind) check() error {
	obj := k.New()
	if _, ok := obj.(metav1.Object); !ok {
		return fmt.Errorf("resource %s: %T has no metadata", k.Resource, obj)
	}
	return nil
}
