// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"io"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// conflict is what kube-apiserver says to a request with an old resourceVersion.
var conflict = apierrors.NewConflict(schema.GroupResource{}, "x", nil)

// The garbage collector marks what a pruned host owned as being deleted after it was listed.
func TestPruneWhatWasWrittenMeanwhile(t *testing.T) {
	kind := kindsForTest(t)[0]
	listed := &unstructured.Unstructured{}
	listed.SetAPIVersion(v1alpha1.SchemeGroupVersion.String())
	listed.SetKind(kind.Kind)
	listed.SetNamespace("ns")
	listed.SetName("a")
	listed.SetUID("u-1")
	listed.SetFinalizers([]string{v1alpha1.BareMetalHostFinalizer})
	client := fake.NewSimpleDynamicClient(newScheme(), listed.DeepCopy())
	client.PrependReactor("update", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, conflict })
	client.PrependReactor("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if patch := string(action.(clienttesting.PatchAction).GetPatch()); strings.Contains(patch, "resourceVersion") {
			return true, nil, conflict
		} else if !strings.Contains(patch, "u-1") {
			t.Errorf("%s may be for another object of the name", patch)
		}
		return false, nil, nil
	})
	export := Export{Cluster: &Cluster{dynamic: client}, Prune: true, Report: NewReport(io.Discard)}
	if err := export.markOrPrune(t.Context(), kind, storedVersion, listed); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Resource(kind.resource(storedVersion)).Namespace("ns").Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the pruned object: %v, want that it is gone", err)
	}
}

// Controllers write what hosts own while its owner references change.
func TestOwnersOfWhatWasWrittenMeanwhile(t *testing.T) {
	secrets := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	secret := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"},
	}
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client := metadatafake.NewSimpleMetadataClient(scheme, secret)
	refusals := 1
	client.PrependReactor("patch", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		refusals--
		return refusals >= 0, nil, conflict
	})
	cluster := &Cluster{metadata: client}
	_, _, err := cluster.forEachMetadata(t.Context(), secrets, func(_ schema.GroupVersionResource, obj *metav1.PartialObjectMetadata) error {
		return cluster.setOwners(t.Context(), secrets, obj, []metav1.OwnerReference{{Name: "a", UID: "new"}}, "")
	})
	if err != nil {
		t.Fatal(err)
	}
	now, err := client.Resource(secrets).Namespace("ns").Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(now.OwnerReferences) != 1 || now.OwnerReferences[0].UID != "new" {
		t.Errorf("owners: %v, want the new UID", now.OwnerReferences)
	}
}
