// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

func definitions(t *testing.T) map[string]common.OpenAPIDefinition {
	t.Helper()
	return GetOpenAPIDefinitions(func(name string) spec.Ref {
		return spec.MustCreateRef("#/definitions/" + name)
	})
}

// TestEveryFieldIsDescribed checks that kubectl explain describes every field that a user can
// reach.
func TestEveryFieldIsDescribed(t *testing.T) {
	all := definitions(t)
	seen := map[string]bool{}
	var walk func(model string)
	walk = func(model string) {
		if seen[model] || strings.Contains(model, ".apimachinery.") {
			return
		}
		seen[model] = true
		definition, ok := all[model]
		if !ok {
			t.Errorf("no definition of %s", model)
			return
		}
		if definition.Schema.Description == "" {
			t.Errorf("%s has no description", model)
		}
		for name, property := range definition.Schema.Properties {
			if property.Description == "" {
				t.Errorf("%s.%s has no description", model, name)
			}
		}
		for _, dependency := range definition.Dependencies {
			walk(dependency)
		}
	}
	for _, obj := range v1alpha1.KnownTypes() {
		walk(obj.(interface{ OpenAPIModelName() string }).OpenAPIModelName())
	}
	if len(seen) < 30 {
		t.Errorf("only %d models were reached: %v", len(seen), seen)
	}
}

// TestCoreDefinitionsHaveEveryField checks that the core/v1 definitions, which are written by
// hand, are complete.
func TestCoreDefinitionsHaveEveryField(t *testing.T) {
	all := definitions(t)
	for _, obj := range []interface{ OpenAPIModelName() string }{
		corev1.ObjectReference{}, corev1.SecretReference{}, corev1.Taint{},
	} {
		properties := all[obj.OpenAPIModelName()].Schema.Properties
		typ := reflect.TypeOf(obj)
		if len(properties) != typ.NumField() {
			t.Errorf("%s: %d fields, %d properties", typ, typ.NumField(), len(properties))
		}
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if _, ok := properties[name]; !ok {
				t.Errorf("%s: no property %q", typ, name)
			}
		}
	}
}

// TestServerSideApply checks that server-side apply merges as the definitions say.
func TestServerSideApply(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	models, err := builder3.BuildOpenAPIDefinitionsForResources(&common.OpenAPIV3Config{
		Info:              &spec.Info{},
		GetDefinitions:    GetOpenAPIDefinitions,
		GetDefinitionName: openapinamer.NewDefinitionNamer(scheme).GetDefinitionName,
	}, v1alpha1.BareMetalHost{}.OpenAPIModelName())
	if err != nil {
		t.Fatal(err)
	}
	converter, err := managedfields.NewTypeConverter(models, false)
	if err != nil {
		t.Fatal(err)
	}
	toTyped := func(host *v1alpha1.BareMetalHost) *typed.TypedValue {
		host.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("BareMetalHost"))
		value, err := converter.ObjectToTyped(host)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	old := toTyped(&v1alpha1.BareMetalHost{
		Spec: v1alpha1.BareMetalHostSpec{
			ConsumerRef: &corev1.ObjectReference{Kind: "Metal3Machine", Name: "a"},
			Taints:      []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule, TimeAdded: &metav1.Time{}}},
		},
		Status: v1alpha1.BareMetalHostStatus{Conditions: []metav1.Condition{{Type: "Ready"}}},
	})
	merged, err := old.Merge(toTyped(&v1alpha1.BareMetalHost{
		Spec:   v1alpha1.BareMetalHostSpec{ConsumerRef: &corev1.ObjectReference{Name: "b"}},
		Status: v1alpha1.BareMetalHostStatus{Conditions: []metav1.Condition{{Type: "Healthy"}}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	obj, err := converter.TypedToObject(merged)
	if err != nil {
		t.Fatal(err)
	}
	host := &v1alpha1.BareMetalHost{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.(runtime.Unstructured).UnstructuredContent(), host); err != nil {
		t.Fatal(err)
	}
	if got := *host.Spec.ConsumerRef; got != (corev1.ObjectReference{Name: "b"}) {
		t.Errorf("the reference was not replaced as a whole: %+v", got)
	}
	if got := len(host.Status.Conditions); got != 2 {
		t.Errorf("conditions were not merged by type: %+v", host.Status.Conditions)
	}
}
