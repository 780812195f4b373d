// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/migrate"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// An object of each kind, with all of its fields, a finalizer and a status, comes over
// whole: import compares UIDs and contents itself.
func TestImportsEachKind(t *testing.T) {
	ns := newNamespace(t)
	var want []string
	for _, kind := range s.kinds {
		createSample(t, ns, kind)
		want = append(want, "1 "+kind.Resource)
	}
	if len(want) != 14 {
		t.Fatalf("there are %d kinds: %q", len(want), want)
	}
	server := install(t, "")
	expectText(t, server.run(t, "import"), want...)
	expectText(t, server.run(t, "import"), "copied: none")
	unlock(t, ns)
}

// remove removes an object that does not go with its namespace.
func remove(t *testing.T, client dynamic.ResourceInterface, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), testbed.Patience)
	defer cancel()
	_, err := client.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err := errors.Join(err, client.Delete(ctx, name, metav1.DeleteOptions{})); err != nil {
		t.Error(err)
	}
}

// createSample creates the sample of a kind that its JSON is tested with.
func createSample(t *testing.T, ns string, kind *migrate.Kind) {
	t.Helper()
	fields := sampleOf(t, kind)
	fields["metadata"] = map[string]any{
		"name": "sample", "namespace": ns, "finalizers": []any{"example.com/held"},
		"labels": map[string]any{"rack": "7"}, "annotations": map[string]any{metal3.PausedAnnotation: "test"},
	}
	createWithStatus(t, kind, fields)
}

// sampleOf returns the fields of the sample of a kind.
func sampleOf(t *testing.T, kind *migrate.Kind) map[string]any {
	t.Helper()
	root, err := testbed.RepoRoot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "pkg/apis/metal3/v1alpha1/testdata/json", kind.Kind+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	return fields
}

// createWithStatus creates an object of a kind, and writes its status.
func createWithStatus(t *testing.T, kind *migrate.Kind, fields map[string]any) {
	t.Helper()
	obj := &unstructured.Unstructured{Object: fields}
	status := fields["status"]
	client := clientOf(kind, obj.GetNamespace())
	if kind.ClusterScoped {
		obj.SetNamespace("")
		t.Cleanup(func() { remove(t, client, obj.GetName()) })
	}
	created, err := client.Create(t.Context(), obj, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if status == nil || !kind.HasStatus {
		return
	}
	created.Object["status"] = status
	if _, err := client.UpdateStatus(t.Context(), created, metav1.UpdateOptions{}); err != nil {
		t.Fatalf("status of %s: %v", kind.Kind, err)
	}
}

// operatorFinalizers are those that the operator sets, by the resource.
var operatorFinalizers = map[string][]string{
	"bmceventsubscriptions": {metal3.BMCEventSubscriptionFinalizer},
	"dataimages":            {metal3.DataImageFinalizer},
	"hostclaims":            {metal3.HostClaimFinalizer},
	"preprovisioningimages": {metal3.PreprovisioningImageFinalizer, metal3.PreprovisioningImageInUseFinalizer},
}

// clientOf returns a client for the objects of a kind in a namespace, or in none if the kind has none.
func clientOf(kind *migrate.Kind, ns string) dynamic.ResourceInterface {
	all := s.Dynamic.Resource(metal3.SchemeGroupVersion.WithResource(kind.Resource))
	if kind.ClusterScoped {
		return all
	}
	return all.Namespace(ns)
}

// createOthers creates an object of each kind that a provisioned host does not have yet, as the operator and
// its users leave them, and returns their kinds.
func createOthers(t *testing.T, m *member) (kinds []*migrate.Kind) {
	t.Helper()
	consumer := fmt.Appendf(nil, `{"spec":{"consumerRef":{"apiVersion":"metal3.io/v1alpha1","kind":"HostClaim","namespace":%q,"name":%q}}}`, m.ns, m.name)
	if _, err := s.Metal3.Metal3V1alpha1().BareMetalHosts(m.ns).Patch(t.Context(), m.name, types.MergePatchType, consumer, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	owners := []any{map[string]any{"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "name": m.name, "uid": string(m.host.UID)}}
	for _, kind := range s.kinds {
		if kind.Resource == "baremetalhosts" || kind.Resource == "hardwaredata" {
			continue
		}
		fields := sampleOf(t, kind)
		metadata := map[string]any{"name": m.name, "namespace": m.ns}
		var finalizers []any
		for _, finalizer := range operatorFinalizers[kind.Resource] {
			finalizers = append(finalizers, finalizer)
		}
		metadata["finalizers"] = finalizers
		spec, status := fields["spec"].(map[string]any), map[string]any{}
		if found, ok := fields["status"].(map[string]any); ok {
			status = found
		}
		switch kind.Resource {
		case "baremetalswitches":
			spec["credentials"] = map[string]any{"name": "switch", "namespace": m.ns}
		case "bmceventsubscriptions":
			spec["hostName"] = m.name
			delete(spec, "httpHeadersRef")
			delete(status, "error")
		case "dataimages":
			metadata["ownerReferences"] = owners
			delete(status, "error")
			status["error"] = map[string]any{"count": int64(0), "message": ""}
		case "hostclaims":
			spec["image"] = map[string]any{"url": m.host.Spec.Image.URL, "checksum": m.host.Spec.Image.Checksum, "checksumType": "sha256"}
			for _, reference := range []string{"userData", "networkData", "metaData", "customDeploy", "hostSelector", "consumerRef", "failureDomain"} {
				delete(spec, reference)
			}
			status["bareMetalHost"] = map[string]any{"namespace": m.ns, "name": m.name}
			status["hardwareData"] = map[string]any{"namespace": m.ns, "name": m.name}
		case "hostdeploypolicies":
			spec["hostClaimNamespaces"] = map[string]any{"names": []any{m.ns}}
		case "hostfirmwarecomponents", "hostupdatepolicies", "preprovisioningimages":
			metadata["ownerReferences"] = owners
		case "hostfirmwaresettings":
			metadata["ownerReferences"] = owners
			status["schema"] = map[string]any{"namespace": m.ns, "name": m.name}
		}
		fields["metadata"] = metadata
		createWithStatus(t, kind, fields)
		kinds = append(kinds, kind)
	}
	return kinds
}

// identities returns the UID and the finalizers of each of these objects, which have the name of a host.
func identities(t *testing.T, m *member, kinds []*migrate.Kind) (uids map[string]string, finalizers map[string][]string) {
	t.Helper()
	uids, finalizers = map[string]string{}, map[string][]string{}
	for _, kind := range kinds {
		obj, err := clientOf(kind, m.ns).Get(t.Context(), m.name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		uids[kind.Resource] = string(obj.GetUID())
		if found := obj.GetFinalizers(); len(found) > 0 {
			finalizers[kind.Resource] = found
		}
	}
	return uids, finalizers
}
