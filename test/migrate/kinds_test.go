package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

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

// removeSample removes a sample that does not go with its namespace.
func removeSample(t *testing.T, client dynamic.ResourceInterface) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	_, err := client.Patch(ctx, "sample", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err := errors.Join(err, client.Delete(ctx, "sample", metav1.DeleteOptions{})); err != nil {
		t.Error(err)
	}
}

// createSample creates the sample of a kind that its JSON is tested with.
func createSample(t *testing.T, ns string, kind *migrate.Kind) {
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
	status := fields["status"]
	metadata := map[string]any{
		"name": "sample", "namespace": ns, "finalizers": []any{"example.com/held"},
		"labels": map[string]any{"rack": "7"}, "annotations": map[string]any{metal3.PausedAnnotation: "test"},
	}
	fields["metadata"] = metadata
	all := s.Dynamic.Resource(metal3.SchemeGroupVersion.WithResource(kind.Resource))
	var client dynamic.ResourceInterface = all.Namespace(ns)
	if kind.ClusterScoped {
		client = all
		delete(metadata, "namespace")
		t.Cleanup(func() { removeSample(t, client) })
	}
	created, err := client.Create(t.Context(), &unstructured.Unstructured{Object: fields}, metav1.CreateOptions{})
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
