// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// TestLateChanges: what clients have written to the CRDs while the switch was under way is copied, unless they have written something
// else to metal3-apiserver since then.
func TestLateChanges(t *testing.T) {
	h := newHandedBack(t)
	kind := h.export.kinds[0]
	resources := h.export.Cluster.dynamic.Resource(kind.resource(migrationVersion)).Namespace("ns")
	read := func() Objects {
		stored, err := h.store.List(t.Context(), kind)
		if err != nil {
			t.Fatal(err)
		}
		return stored
	}
	for _, name := range []string{"same", "late", "late-and-read", "both", "deleted-here", "deleted-there", "deleted-there-changed-here"} {
		h.put(name, "u-"+name, "old")
	}
	before := read()
	for _, obj := range before {
		obj.ResourceVersion = "1"
	}
	there := map[string]string{ // the custom resources, by their descriptions
		"same": "old", "late": "new", "late-and-read": "new", "both": "new", "deleted-here": "new", "created-there": "new", "created-in-both": "new",
	}
	for name, description := range there {
		item := h.object(name, "u-"+name, description)
		item.SetAPIVersion("metal3.io/" + migrationVersion)
		if description != "old" {
			item.SetResourceVersion("2")
		}
		if _, err := resources.Create(t.Context(), item, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	h.put("both", "u-both", "newer")
	h.put("created-in-both", "u-other", "newer")
	h.put("deleted-there-changed-here", "u-deleted-there-changed-here", "newer")
	readHost := *before[types.NamespacedName{Namespace: "ns", Name: "late-and-read"}]
	host := readHost.typed.DeepCopyObject().(*v1alpha1.BareMetalHost)
	host.Status.PoweredOn, readHost.typed = true, host
	if err := h.store.Put(t.Context(), &readHost); err != nil {
		t.Fatal(err)
	}
	if err := h.store.Remove(t.Context(), before[types.NamespacedName{Namespace: "ns", Name: "deleted-here"}]); err != nil {
		t.Fatal(err)
	}
	if err := h.export.Cluster.holdLease(t.Context(), h.export.Lease); err != nil {
		t.Fatal(err)
	}

	i := &Import{Cluster: h.export.Cluster, Report: h.export.Report, Lease: h.export.Lease, kinds: h.export.kinds}
	if err := i.copyLateChanges(t.Context(), i.kinds, map[string]Objects{kind.Resource: before}, h.store); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, obj := range sortedObjects(read()) {
		got = append(got, obj.Key.Name+": "+obj.typed.(*v1alpha1.BareMetalHost).Spec.Description)
	}
	want := []string{
		"both: newer", "created-in-both: newer", "created-there: new", "deleted-there-changed-here: newer", "late: new", "late-and-read: new", "same: old",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	var warned []string
	for line := range strings.Lines(h.out.String()) {
		if name, _, is := strings.Cut(strings.TrimPrefix(line, "   warning: BareMetalHost ns/"), " was changed in the CRDs during the switch"); is {
			warned = append(warned, name)
		}
	}
	slices.Sort(warned)
	if want := []string{"both", "created-in-both", "deleted-here", "deleted-there-changed-here"}; !slices.Equal(warned, want) {
		t.Errorf("warned of %q, want %q:\n%s", warned, want, &h.out)
	}
}
