// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestNodesElsewhere: the hosts are not given to a server that finds the node of none in its Ironic, unless somebody knows better.
func TestNodesElsewhere(t *testing.T) {
	registered := func(name string) *unstructured.Unstructured {
		item := resourceOf(name, "9")
		_ = unstructured.SetNestedField(item.Object, "node-"+name, "status", "provisioning", "ID")
		return item
	}
	deleted := metav1.Now().Rfc3339Copy()
	leave := func(item *unstructured.Unstructured) {
		item.SetDeletionTimestamp(&deleted)
		item.SetFinalizers([]string{"x"})
	}
	const (
		inIronic = "in Ironic"
		lost     = "not in Ironic"
		detached = "detached"
		leaving  = "being deleted"
		replaced = "created again"
	)
	const refused = "finds the nodes of none of the"
	for _, test := range []struct {
		name   string
		there  []*unstructured.Unstructured
		served map[string]string
		accept bool
		// refused and warned are the texts of the error and of the only warning, empty if there is none.
		refused, warned string
	}{
		{"all are there", []*unstructured.Unstructured{registered("a"), registered("b")}, map[string]string{"a": inIronic, "b": inIronic}, false, "", ""},
		{"another Ironic", []*unstructured.Unstructured{registered("a"), registered("b")}, map[string]string{"a": lost, "b": lost}, false, refused + " 2 hosts in Ironic, such as node node-a of BareMetalHost ns/a", ""},
		{"some are lost", []*unstructured.Unstructured{registered("a"), registered("b")}, map[string]string{"a": lost, "b": inIronic}, false, "", "node node-a of BareMetalHost ns/a is not in Ironic"},
		{"a lost database", []*unstructured.Unstructured{registered("a")}, map[string]string{"a": lost}, true, "", "node node-a of BareMetalHost ns/a is not in Ironic"},
		{"none had a node", []*unstructured.Unstructured{resourceOf("a", "9")}, map[string]string{"a": lost}, false, "", ""},
		{"one was registered since", []*unstructured.Unstructured{resourceOf("a", "9"), registered("b")}, map[string]string{"a": inIronic, "b": lost}, false, "", "node node-b of"},
		{
			"none is expected", []*unstructured.Unstructured{resourceOf("a", "9"), registered("b"), registered("c"), registered("d")},
			map[string]string{"a": lost, "b": detached, "c": leaving, "d": replaced}, false, "", "BareMetalHost ns/d is served with UID new",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, item := range test.there {
				if test.served[item.GetName()] == leaving {
					leave(item)
				}
			}
			s := newSwitched(t, test.there...)
			s.resume.LostNodes, s.resume.Wait = test.accept, time.Millisecond
			for name, as := range test.served {
				item := s.object(name, "u-"+name, "x")
				switch as {
				case inIronic:
					_ = unstructured.SetNestedField(item.Object, "node-"+name, "status", "ironic", "nodeUUID")
				case detached:
					_ = unstructured.SetNestedField(item.Object, "detached", "status", "operationalStatus")
				case leaving:
					leave(item)
				case replaced:
					item.SetUID("new")
				}
				s.create(item)
			}
			err := s.resume.compareServed(t.Context(), s.export.kinds)
			if (err == nil) != (test.refused == "") || err != nil && !strings.Contains(err.Error(), test.refused) {
				t.Errorf("refused: %v, want %q", err, test.refused)
			}
			if got := strings.Count(s.out.String(), "warning: "); got > 1 || (got == 0) != (test.warned == "") || !strings.Contains(s.out.String(), test.warned) {
				t.Errorf("%d warnings, want one of %q:\n%s", got, test.warned, &s.out)
			}
		})
	}
}

// TestWaitsForNodes: a server that has just been started has not reached Ironic yet.
func TestWaitsForNodes(t *testing.T) {
	item := resourceOf("a", "9")
	_ = unstructured.SetNestedField(item.Object, "node-a", "status", "provisioning", "ID")
	s := newSwitched(t, item)
	s.resume.Wait = time.Minute
	s.create(s.object("a", "u-a", "x"))
	ended := make(chan error)
	go func() { ended <- s.resume.compareServed(t.Context(), s.export.kinds) }()
	served := s.get("a")
	_ = unstructured.SetNestedField(served.Object, "node-a", "status", "ironic", "nodeUUID")
	if _, err := s.hosts.Update(t.Context(), served, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
