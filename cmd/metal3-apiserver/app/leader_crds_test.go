// SPDX-License-Identifier: Apache-2.0

package app

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/metrics/testutil"
	"sigs.k8s.io/yaml"

	"github.com/metal3-io/metal3-apiserver/pkg/apiserver"
	"github.com/metal3-io/metal3-apiserver/pkg/migrate"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3"
)

func crd(name string, served bool) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"versions": []any{map[string]any{"name": "v1beta1", "served": true}, map[string]any{"name": "v1alpha1", "served": served}}},
	}}
}

// TestServedCRDs: CRDs that serve this server's version are counted, until they do not any more. A look that fails changes nothing.
func TestServedCRDs(t *testing.T) {
	servedCRDs.Create(nil)
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{crdResource: "CustomResourceDefinitionList"},
		crd("baremetalhosts.metal3.io", true), crd("hardwaredata.metal3.io", false))
	look := newCRDLook(client, metal3.Kinds{"hardwaredata": nil, "dataimages": nil})
	expect := func(when string, names ...string) {
		t.Helper()
		look.look(t.Context())
		if count, err := testutil.GetGaugeMetricValue(servedCRDs); err != nil || int(count) != len(names) || !slices.Equal(look.told, names) {
			t.Errorf("%s: %v, %v, %v", when, count, err, look.told)
		}
	}
	expect("one of two", "baremetalhosts.metal3.io")
	var failure error
	client.PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return failure != nil, nil, failure
	})
	failure = apierrors.NewTimeoutError("etcd has no leader", 1)
	expect("not answered", "baremetalhosts.metal3.io")
	failure = nil
	if err := client.Tracker().Update(crdResource, crd("baremetalhosts.metal3.io", false), ""); err != nil {
		t.Fatal(err)
	}
	expect("set right")
	failure = apierrors.NewForbidden(crdResource.GroupResource(), "", nil)
	expect("not permitted")
}

// TestCRDsOfClusterRole: the server may see the CRDs of all kinds that it serves, and no other.
func TestCRDsOfClusterRole(t *testing.T) {
	text, err := os.ReadFile("../../../artifacts/apiservice/base/clusterrole.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var role rbacv1.ClusterRole
	if err := yaml.Unmarshal(text, &role); err != nil {
		t.Fatal(err)
	}
	all, err := migrate.Kinds(apiserver.Scheme)
	if err != nil {
		t.Fatal(err)
	}
	kinds := metal3.Kinds{}
	for _, k := range all {
		kinds[k.Resource] = nil
	}
	delete(kinds, "baremetalhosts") // it has a store of its own
	for _, rule := range role.Rules {
		if slices.Contains(rule.APIGroups, crdResource.Group) {
			if diff := cmp.Diff(crdNames(kinds), rule.ResourceNames); diff != "" || strings.Join(rule.Verbs, " ") != "get" {
				t.Errorf("%v (-kinds +ClusterRole):\n%s", rule.Verbs, diff)
			}
			return
		}
	}
	t.Error("there is no rule for CRDs")
}
