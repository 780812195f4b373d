// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/storetest"
)

// handedBack is a cluster whose CRDs serve the group again, after an export that was to be continued.
type handedBack struct {
	t      *testing.T
	hosts  dynamic.ResourceInterface // the custom resources
	store  *Store
	export *Export
	out    bytes.Buffer
}

func newHandedBack(t *testing.T) *handedBack {
	t.Helper()
	scheme := newScheme()
	options := storetest.New(t, serializer.NewCodecFactory(scheme).LegacyCodec(v1alpha1.SchemeGroupVersion))
	options.NoCache = true
	open := func(context.Context) (*Store, error) { return NewStore(scheme, options) }
	store, err := open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	crd := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"group": v1alpha1.GroupName, "versions": []any{
			map[string]any{"name": storedVersion, "served": true, "storage": true},
			map[string]any{"name": migrationVersion, "served": true, "storage": false},
		},
	}}}
	crd.SetGroupVersionKind(crdResource.GroupVersion().WithKind("CustomResourceDefinition"))
	crd.SetName(kindsForTest(t)[0].CRD())
	hosts := kindsForTest(t)[0].resource(storedVersion)
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		crdResource: "CustomResourceDefinitionList", apiServiceResource: "APIServiceList", hosts: "BareMetalHostList",
		kindsForTest(t)[0].resource(migrationVersion): "BareMetalHostList",
	}, crd)
	kube := kubefake.NewClientset()
	// The operator has no Lease. The fake would list that of the migration, as it ignores field selectors.
	kube.PrependReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &coordinationv1.LeaseList{}, nil
	})
	h := &handedBack{t: t, hosts: client.Resource(hosts).Namespace("ns"), store: store}
	h.export = &Export{
		Cluster:   newCluster(scheme, client, kube, nil),
		OpenStore: open, Report: NewReport(&h.out), Lease: types.NamespacedName{Namespace: "metal3-system", Name: "metal3-apiserver"},
		Restored: func(context.Context) (string, error) { return "", nil },
		kinds:    kindsForTest(t)[:1], store: store,
	}
	return h
}

// object returns a host with a description.
func (h *handedBack) object(name, uid, description string) *unstructured.Unstructured {
	item := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"online": true, "automatedCleaningMode": "metadata", "description": description,
		"bmc": map[string]any{"address": "ipmi://x", "credentialsName": "x"},
	}}}
	item.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("BareMetalHost"))
	item.SetNamespace("ns")
	item.SetName(name)
	item.SetUID(types.UID(uid))
	item.SetResourceVersion("1")
	return item
}

// put writes a host to the store.
func (h *handedBack) put(name, uid, description string) {
	h.t.Helper()
	obj, err := fromCustomResource(h.export.Cluster.scheme, h.export.kinds[0], h.object(name, uid, description))
	if err == nil {
		err = h.store.Put(h.t.Context(), obj)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// create writes a custom resource as a client does.
func (h *handedBack) create(item *unstructured.Unstructured) {
	h.t.Helper()
	if _, err := h.hosts.Create(h.t.Context(), item, metav1.CreateOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

// patch changes the description of a custom resource, as a client does. Unlike kube-apiserver, the fake counts no
// resourceVersions.
func (h *handedBack) patch(name, description string) {
	h.t.Helper()
	item := h.get(name)
	_ = unstructured.SetNestedField(item.Object, description, "spec", "description")
	item.SetResourceVersion(item.GetResourceVersion() + "1")
	if _, err := h.hosts.Update(h.t.Context(), item, metav1.UpdateOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

func (h *handedBack) get(name string) *unstructured.Unstructured {
	h.t.Helper()
	item, err := h.hosts.Get(h.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	return item
}

// expect looks at the names and descriptions of all custom resources.
func (h *handedBack) expect(want ...string) {
	h.t.Helper()
	list, err := h.hosts.List(h.t.Context(), metav1.ListOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	var got []string
	for i := range list.Items {
		description, _, _ := unstructured.NestedString(list.Items[i].Object, "spec", "description")
		got = append(got, list.Items[i].GetName()+": "+description)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		h.t.Errorf("the custom resources: %s\n%s", diff, &h.out)
	}
}

// A second export, also one that prunes, leaves alone what clients have written to the CRDs since the first one gave the
// group back to them.
func TestExportAfterHandBack(t *testing.T) {
	h := newHandedBack(t)
	h.put("changed", "u-1", "old")
	h.put("deleted", "u-2", "as before")
	h.put("same", "u-3", "as before")
	h.create(h.object("changed", "u-1", "new"))
	h.create(h.object("new", "u-4", "as before"))
	h.create(h.object("same", "u-3", "as before"))
	gone := h.object("gone", "u-5", "as before")
	gone.SetAnnotations(map[string]string{goneAnnotation: "u-5"})
	h.create(gone)
	copied := h.object("copy-of-gone", "u-6", "as before")
	copied.SetAnnotations(map[string]string{goneAnnotation: "u-5"})
	h.create(copied)

	if err := h.export.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "still in the CRDs") ||
		!strings.HasSuffix(err.Error(), ":\n - BareMetalHost ns/gone") {
		t.Errorf("without --prune: %v, want that only BareMetalHost ns/gone was deleted", err)
	}
	h.expect("changed: new", "copy-of-gone: as before", "gone: as before", "new: as before", "same: as before")
	h.export.Prune = true
	if err := h.export.Run(t.Context()); err != nil {
		t.Error(err)
	}
	h.expect("changed: new", "copy-of-gone: as before", "new: as before", "same: as before")
	for _, text := range []string{
		"BareMetalHost ns/changed differs from metal3-apiserver in spec.description",
		"BareMetalHost ns/deleted is in the store of metal3-apiserver, but not in the CRDs",
	} {
		if !strings.Contains(h.out.String(), "warning: "+text) {
			t.Errorf("nobody is told that %s:\n%s", text, &h.out)
		}
	}
	if strings.Contains(h.out.String(), "ns/same") {
		t.Errorf("it is said of an object that is the same that it differs:\n%s", &h.out)
	}
	if err := h.export.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no export is in progress") {
		t.Errorf("after everything was done: %v", err)
	}
}

// The run that gives the group back sees what was changed in metal3-apiserver in the last moment, and in the CRDs since.
func TestChangesDuringHandBack(t *testing.T) {
	h := newHandedBack(t)
	h.export.left = map[types.UID]leftAs{}
	uids := UIDs{}
	for _, name := range []string{"here", "there", "both", "deleted-here", "deleted-there", "deleted-there-changed-here"} {
		uid := "u-" + name
		h.put(name, uid, "old")
		h.create(h.object(name, uid, "old"))
		uids[types.UID(uid)] = types.UID(uid)
	}
	stored, there, err := h.export.both(t.Context(), h.export.kinds[0], storedVersion)
	if err != nil {
		t.Fatal(err)
	}
	for key, obj := range stored {
		h.export.left[obj.UID] = leftAs{obj.ResourceVersion, obj.UID, there[key].GetResourceVersion()}
	}
	h.put("here", "u-here", "new here")
	h.put("both", "u-both", "new here")
	h.put("deleted-there-changed-here", "u-deleted-there-changed-here", "new here")
	h.put("created-here", "u-created-here", "as before")
	h.patch("there", "new there")
	h.patch("both", "new there")
	h.create(h.object("created-there", "u-created-there", "as before"))
	if err := h.store.Remove(t.Context(), stored[types.NamespacedName{Namespace: "ns", Name: "deleted-here"}]); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"deleted-there", "deleted-there-changed-here"} {
		if err := h.hosts.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}

	remaining, err := h.export.lookAgain(t.Context(), uids)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"BareMetalHost ns/deleted-here"}, remaining); diff != "" {
		t.Error(diff)
	}
	h.expect("both: new there", "created-here: as before", "created-there: as before", "deleted-here: old",
		"here: new here", "there: new there")
	if !isMarkedGone(h.get("deleted-here")) {
		t.Error("a later run would not prune what was deleted in the last moment")
	}
	if uid, known := uids["u-deleted-there"]; known {
		t.Errorf("objects would get an owner that does not exist, %s, and be deleted", uid)
	}
}
