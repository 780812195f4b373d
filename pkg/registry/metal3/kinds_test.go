// SPDX-License-Identifier: Apache-2.0

package metal3

import (
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
)

// TestKindsAreConsistent checks the names by which kubectl and clients find a kind, and the
// descriptions of the columns.
func TestKindsAreConsistent(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := metal3.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	taken := map[string]bool{"baremetalhosts": true, "baremetalhost": true, "bmh": true, "bmhost": true}
	for _, k := range kinds {
		t.Run(k.Resource, func(t *testing.T) {
			gvks, _, err := scheme.ObjectKinds(k.New())
			if err != nil {
				t.Fatal(err)
			}
			if name := strings.ToLower(gvks[0].Kind); name != k.Singular || !strings.HasPrefix(k.Resource, name[:len(name)-1]) {
				t.Errorf("kind %s has the names %s and %s", gvks[0].Kind, k.Singular, k.Resource)
			}
			items, err := meta.GetItemsPtr(k.NewList())
			if err != nil {
				t.Fatal(err)
			}
			if item := reflect.TypeOf(items).Elem().Elem(); reflect.PointerTo(item) != reflect.TypeOf(k.New()) {
				t.Errorf("the list is of %s", item)
			}
			if _, _, err := scheme.ObjectKinds(k.NewList()); err != nil {
				t.Error(err)
			}
			names := append([]string{k.Resource}, k.ShortNames...)
			if k.Singular != k.Resource {
				names = append(names, k.Singular)
			}
			for _, name := range names {
				if taken[name] {
					t.Errorf("the name %s is used twice", name)
				}
				taken[name] = true
			}
			for _, column := range k.Columns {
				if column.Description == "" || column.Type == "" {
					t.Errorf("column %q has no description or type", column.Name)
				}
			}
			if k.Validate != nil {
				_ = k.Validate(k.New(), nil) // must not panic on fields that a client can omit
			}
		})
	}
}

// TestSizesOfKinds checks that the largest object of each kind is one that etcd accepts, with
// room for the changes of controllers.
func TestSizesOfKinds(t *testing.T) {
	const maxRequest, room = 3 << 19, 128 << 10 // 1.5 MiB is etcd's limit
	for _, k := range kinds {
		limits := k.SizeLimits()
		if sum := validation.MaxMetadata + limits.Spec + limits.Status; sum > maxRequest-room {
			t.Errorf("%s: an object can take %d bytes", k.Resource, sum)
		}
	}
}
