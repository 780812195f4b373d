// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// switched is a cluster whose CRDs have been replaced by metal3-apiserver, before the switch is verified.
type switched struct {
	*handedBack // hosts are those that are served
	resume      *Import
}

// newSwitched has custom resources by these names, with UIDs u-NAME and a resourceVersion. Up to 10, they were copied.
func newSwitched(t *testing.T, resources ...*unstructured.Unstructured) *switched {
	t.Helper()
	s := &switched{handedBack: newHandedBack(t)}
	e := s.export
	s.resume = &Import{Cluster: e.Cluster, Report: e.Report, Lease: e.Lease}
	kind := e.kinds[0]
	client := e.Cluster.dynamic.Resource(kind.resource(migrationVersion)).Namespace("ns")
	copied := Objects{}
	for _, item := range resources {
		item.SetAPIVersion("metal3.io/" + migrationVersion)
		if _, err := client.Create(t.Context(), item.DeepCopy(), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		obj, err := fromCustomResource(e.Cluster.scheme, kind, item)
		if err != nil {
			t.Fatal(err)
		}
		if obj.ResourceVersion == "9" || obj.ResourceVersion == "10" {
			copied[obj.Key] = obj
		}
	}
	if err := e.Cluster.holdLease(t.Context(), e.Lease); err != nil {
		t.Fatal(err)
	}
	if len(copied) > 0 {
		if err := e.Cluster.recordCopied(t.Context(), e.Lease, map[string]Objects{kind.Resource: copied}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func resourceOf(name, version string) *unstructured.Unstructured {
	item := (&handedBack{}).object(name, "u-"+name, "x")
	item.SetResourceVersion(version)
	return item
}

// A switch is completed although clients have deleted and replaced objects since, but not if some may have been lost.
func TestVerifiesDespiteChanges(t *testing.T) {
	leaving := resourceOf("leaving", "12")
	leaving.SetDeletionTimestamp(&metav1.Time{Time: metav1.Now().Time})
	leaving.SetFinalizers([]string{"x"})
	changed := func(name, version string) *unstructured.Unstructured {
		item := resourceOf(name, version)
		item.SetLabels(map[string]string{"changed": "yes"})
		return item
	}
	for _, test := range []struct {
		name    string
		there   []*unstructured.Unstructured
		served  map[string]string // UIDs by name
		refused string
		warned  []string
	}{
		{"nothing was changed", []*unstructured.Unstructured{resourceOf("a", "9")}, map[string]string{"a": "u-a"}, "", nil},
		{
			"deleted and created again", []*unstructured.Unstructured{resourceOf("a", "9"), resourceOf("b", "9"), resourceOf("c", "10"), leaving},
			map[string]string{"a": "u-a", "b": "new"}, "",
			[]string{"BareMetalHost ns/b is served with UID new", "BareMetalHost ns/c is not served", "BareMetalHost ns/leaving is not served"},
		},
		{
			"written while a run was killed", []*unstructured.Unstructured{resourceOf("a", "9"), resourceOf("c", "10"), resourceOf("late", "11")},
			map[string]string{"a": "u-a"}, ":\n - BareMetalHost ns/late", []string{"BareMetalHost ns/c is not served"},
		},
		{
			"that has been created again", []*unstructured.Unstructured{resourceOf("a", "9"), resourceOf("late", "11")},
			map[string]string{"a": "u-a", "late": "new"}, "", []string{"BareMetalHost ns/late is served with UID new"},
		},
		{
			"the Lease was deleted", []*unstructured.Unstructured{resourceOf("a", "1"), resourceOf("b", "1")},
			map[string]string{"a": "u-a"}, ":\n - BareMetalHost ns/b", nil,
		},
		{
			"deleted while a run was killed", []*unstructured.Unstructured{resourceOf("a", "9"), leaving}, map[string]string{"a": "u-a", "leaving": "u-leaving"},
			"were deleted in the CRDs while an earlier run was switching, and are served as if they were not. Delete each again", nil,
		},
		{
			"changed while a run was killed", []*unstructured.Unstructured{resourceOf("a", "9"), changed("late", "11")}, map[string]string{"a": "u-a", "late": "u-late"},
			"may be served without that", nil,
		},
		{
			"changed after the switch", []*unstructured.Unstructured{changed("a", "9")}, map[string]string{"a": "u-a"}, "", []string{"BareMetalHost ns/a differs from the CRDs"},
		},
		{
			"the server uses another etcd", []*unstructured.Unstructured{resourceOf("a", "9"), resourceOf("b", "9")},
			map[string]string{"a": "other"}, "serves none of the objects", nil,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSwitched(t, test.there...)
			for name, uid := range test.served {
				s.create(s.object(name, uid, "x"))
			}
			err := s.resume.compareServed(t.Context(), s.export.kinds)
			if (err == nil) != (test.refused == "") || err != nil && !strings.Contains(err.Error(), test.refused) {
				t.Errorf("refused: %v, want %q", err, test.refused)
			}
			for _, text := range test.warned {
				if !strings.Contains(s.out.String(), "warning: "+text) {
					t.Errorf("nobody is told that %s", text)
				}
			}
			if got := strings.Count(s.out.String(), "warning: "); got < len(test.warned) || test.refused == "" && got != len(test.warned) {
				t.Errorf("%d warnings, want %d:\n%s", got, len(test.warned), &s.out)
			}
		})
	}
}

// The server's leader gets the Lease as it would be without a migration.
func TestReleasesLeaseWithoutRecord(t *testing.T) {
	s := newSwitched(t, resourceOf("a", "10"))
	if copied, err := s.export.Cluster.copiedSoFar(t.Context(), s.export.Lease); err != nil || copied["baremetalhosts"] != 10 {
		t.Fatal(copied, err)
	}
	// Another run holds it again.
	if err := s.export.Cluster.holdLease(t.Context(), s.export.Lease); err != nil {
		t.Fatal(err)
	}
	if copied, err := s.export.Cluster.copiedSoFar(t.Context(), s.export.Lease); err != nil || copied["baremetalhosts"] != 10 {
		t.Error("the next run does not know what the first one has copied:", copied, err)
	}
	if err := s.export.Cluster.releaseLease(t.Context(), s.export.Lease); err != nil {
		t.Fatal(err)
	}
	if copied, err := s.export.Cluster.copiedSoFar(t.Context(), s.export.Lease); err != nil || copied != nil {
		t.Error("after the migration, the Lease says:", copied, err)
	}
}
