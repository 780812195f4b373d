// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/metal3-io/metal3-apiserver/test/crds"
)

// A fresh cluster has no CRDs. Those that clusterctl wants to see are beside our
// APIService, and out of its way; also when somebody has them served. This test is
// the last one: it deletes the CRDs.
func TestCarriers(t *testing.T) {
	for _, kind := range s.kinds {
		if err := s.Dynamic.Resource(crds.Resource).Delete(t.Context(), kind.CRD(), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func(ctx context.Context) error {
		list, err := s.Dynamic.Resource(crds.Resource).List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d CRDs are there", len(list.Items))
		}
		return err
	})
	server := install(t, s.Kube.EtcdEndpoint)
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Core.CoreV1().Services("metal3-system").Delete(t.Context(), "metal3-apiserver", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := server.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "create", "-k", "../../artifacts/crds")
	kubectl(t, "wait", "--for=condition=Established", "--timeout=5m", "crd/baremetalhosts.metal3.io", "crd/hardwaredata.metal3.io")

	// What clusterctl goes by.
	list, err := s.Dynamic.Resource(crds.Resource).List(t.Context(), metav1.ListOptions{LabelSelector: "clusterctl.cluster.x-k8s.io"})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 2 {
		t.Errorf("clusterctl finds %d kinds, want 2", len(list.Items))
	}
	for _, item := range list.Items {
		versions, _, _ := unstructured.NestedSlice(item.Object, "spec", "versions")
		if version := versions[0].(object); version["name"] != "v1alpha1" || version["storage"] != true || version["served"] != false {
			t.Errorf("CRD %s has the version %v", item.GetName(), version)
		}
		if _, moves := item.GetLabels()["clusterctl.cluster.x-k8s.io/move"]; !moves {
			t.Errorf("clusterctl does not move what CRD %s is of", item.GetName())
		}
	}
	expectOurs(t)

	// An upgrade of the operator's CRDs by clusterctl has them served.
	for _, item := range list.Items {
		patch := []byte(`[{"op":"replace","path":"/spec/versions/0/served","value":true}]`)
		if _, err := s.Dynamic.Resource(crds.Resource).Patch(t.Context(), item.GetName(), types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// kube-apiserver has taken note of it when it gives the group another version.
	patch := []byte(`[{"op":"add","path":"/spec/versions/-","value":{"name":"v1alpha0","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}}}]`)
	if _, err := s.Dynamic.Resource(crds.Resource).Patch(t.Context(), "baremetalhosts.metal3.io", types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		_, err := s.Dynamic.Resource(apiServices).Get(ctx, "v1alpha0.metal3.io", metav1.GetOptions{})
		return err
	})
	expectServed(t)
	apiService, err := s.Dynamic.Resource(apiServices).Get(t.Context(), "v1alpha1.metal3.io", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if name, _, _ := unstructured.NestedString(apiService.Object, "spec", "service", "name"); name != "metal3-apiserver" {
		t.Errorf("kube-apiserver has given the group to the CRDs: %v", apiService.Object["spec"])
	}
	if _, _, err := s.Kube.Kubectl(t.Context(), "", "create", "-k", "../../artifacts/crds"); err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("kubectl create on a cluster that has CRDs: %v, want a refusal", err)
	}
}

func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, _, err := s.Kube.Kubectl(t.Context(), "", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// expectOurs looks whether clients see our server's group, and only that.
func expectOurs(t *testing.T) {
	t.Helper()
	expectServed(t)
	// kube-apiserver asks for the description of a group from time to time.
	eventually(t, func(ctx context.Context) error {
		doc, _, err := s.Kube.Kubectl(ctx, "", "explain", "baremetalhosts.spec.bmc")
		if err == nil && !strings.Contains(doc, "credentialsName") {
			err = fmt.Errorf("kubectl explain knows nothing of our types:\n%s", doc)
		}
		return err
	})
	schema, err := s.Core.Discovery().RESTClient().Get().AbsPath("/openapi/v3/apis/metal3.io/v1alpha1").Do(t.Context()).Raw()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(schema), "HostPower") {
		t.Error("the OpenAPI of the group is not ours")
	}
}

// expectServed looks whether it is our server that answers, to discovery and to a list.
func expectServed(t *testing.T) {
	t.Helper()
	body, err := s.Core.Discovery().RESTClient().Get().AbsPath("/apis/metal3.io/v1alpha1").Do(t.Context()).Raw()
	if err != nil || !strings.Contains(string(body), `"baremetalhosts/power"`) {
		t.Errorf("discovery is not our server's: %v", err)
	}
	if _, err := s.Metal3.Metal3V1alpha1().BareMetalHosts("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	err = s.Metal3.Metal3V1alpha1().BareMetalHosts("default").Delete(t.Context(), "nobody", metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}
