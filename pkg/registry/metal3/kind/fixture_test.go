// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/storetest"
)

// What tests of all stores use.
var scheme, newHost = storetest.Scheme, storetest.NewHost

// hosts returns a kind with a status subresource.
func hosts() Kind {
	return Kind{
		Resource: "baremetalhosts", Singular: "baremetalhost",
		New:       func() runtime.Object { return &metal3.BareMetalHost{} },
		NewList:   func() runtime.Object { return &metal3.BareMetalHostList{} },
		HasStatus: true,
		Validate: func(obj, old runtime.Object) field.ErrorList {
			if obj.(*metal3.BareMetalHost).Spec.Description != "wrong" {
				return nil
			}
			if old != nil && old.(*metal3.BareMetalHost).Spec.Description == "wrong" {
				return nil
			}
			return field.ErrorList{field.Invalid(field.NewPath("spec", "description"), "wrong", "is wrong")}
		},
	}
}

// data returns a kind without a status subresource.
func data() Kind {
	return Kind{
		Resource: "hardwaredata", Singular: "hardwaredata", ShortNames: []string{"hd"},
		New:     func() runtime.Object { return &metal3.HardwareData{} },
		NewList: func() runtime.Object { return &metal3.HardwareDataList{} },
		Columns: []Column{Age},
	}
}

// eachCache runs a test on the storage of a kind in a real etcd, once with the watch cache and
// once without.
func eachCache(t *testing.T, k Kind, test func(t *testing.T, r *REST)) {
	t.Helper()
	storetest.EachCache(t, storetest.Codec(), func(t *testing.T, options storetest.Options) { test(t, newREST(t, k, options)) })
}

func newREST(t *testing.T, k Kind, options storetest.Options) *REST {
	t.Helper()
	r, err := NewREST(k, scheme, options)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Use(t, r.Store)
	return r
}
