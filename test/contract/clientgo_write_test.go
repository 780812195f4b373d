// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// TestClientGoOptimisticLocking: who writes what he read loses to who wrote since;
// a patch without a resourceVersion wins.
func TestClientGoOptimisticLocking(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	stale := idleHost(t, ctx, ns, "worker-0")
	s.PatchHost(t, ctx, ns, "worker-0", `{"spec":{"description":"newer"}}`)
	stale.Spec.Description = "mine"

	if _, err := s.Hosts(ns).Update(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("PUT of a stale host: %v, want 409", err)
	}
	if _, err := s.Hosts(ns).UpdateStatus(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("PUT of a stale status: %v, want 409", err)
	}
	blind := stale.DeepCopy()
	blind.ResourceVersion = ""
	if _, err := s.Hosts(ns).Update(ctx, blind, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("PUT without a resourceVersion: %v, want 422 as from a CRD", err)
	}
	for _, kind := range []types.PatchType{types.MergePatchType, types.ApplyPatchType} {
		patch := fmt.Sprintf(`{"apiVersion":"metal3.io/v1alpha1","kind":"BareMetalHost","metadata":{"name":"worker-0","resourceVersion":%q},"spec":{"description":"mine"}}`, stale.ResourceVersion)
		options := metav1.PatchOptions{FieldManager: "contract"}
		if _, err := s.Hosts(ns).Patch(ctx, "worker-0", kind, []byte(patch), options); !apierrors.IsConflict(err) {
			t.Errorf("%s with a stale resourceVersion: %v, want 409", kind, err)
		}
	}
	if host := s.PatchHost(t, ctx, ns, "worker-0", `{"spec":{"description":"mine"}}`); host.Spec.Description != "mine" {
		t.Errorf("a patch without a resourceVersion left %q", host.Spec.Description)
	}
}

// TestClientGoServerSetFields: what a client may not choose is set by the server.
func TestClientGoServerSetFields(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	wanted := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{
		Name: "worker-0", UID: "11111111-2222-3333-4444-555555555555", Generation: 42,
		CreationTimestamp: metav1.NewTime(time.Unix(0, 0)), DeletionTimestamp: &metav1.Time{Time: time.Unix(0, 0)},
	}, Status: metal3.BareMetalHostStatus{ErrorMessage: "not so", PoweredOn: true}}
	created, err := s.Hosts(ns).Create(ctx, wanted, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if created.UID == wanted.UID || created.UID == "" || time.Since(created.CreationTimestamp.Time) > time.Hour || created.DeletionTimestamp != nil || created.Generation != 1 ||
		created.Status.ErrorMessage != "" || created.Status.PoweredOn {
		t.Errorf("a client chose some of %+v %+v", created.ObjectMeta, created.Status)
	}
	wanted.Name, wanted.ResourceVersion = "worker-1", created.ResourceVersion
	if _, err := s.Hosts(ns).Create(ctx, wanted, metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "resourceVersion") {
		t.Errorf("creation with a resourceVersion: %v", err)
	}
	if _, err := s.Hosts(ns).Create(ctx, &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: "worker-0"}}, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("creation of what is there: %v", err)
	}
	for _, patch := range []string{
		`{"metadata":{"uid":"11111111-2222-3333-4444-555555555555"}}`,
		`{"metadata":{"creationTimestamp":"2001-01-01T00:00:00Z"}}`,
		`{"metadata":{"deletionTimestamp":"2001-01-01T00:00:00Z"}}`,
		`{"metadata":{"generation":42}}`,
		`{"metadata":{"selfLink":"/x"}}`,
	} {
		// Some are refused and some are dropped, as with every kind; none is done.
		_, _ = s.Hosts(ns).Patch(ctx, "worker-0", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		host, err := s.Hosts(ns).Get(ctx, "worker-0", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want := created.ObjectMeta
		for _, meta := range []*metav1.ObjectMeta{&host.ObjectMeta, &want} { // the controller is at work on it
			meta.ResourceVersion, meta.ManagedFields, meta.Finalizers = "", nil, nil
		}
		if diff := cmp.Diff(want, host.ObjectMeta); diff != "" {
			t.Errorf("%s (-before +after):\n%s", patch, diff)
		}
	}
}

// TestClientGoHalves: /status takes the status and nothing else, the host itself
// takes all but the status, by PUT and by patch.
func TestClientGoHalves(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	idleHost(t, ctx, ns, "worker-0")
	change := func(to string) *metal3.BareMetalHost {
		host, err := s.Hosts(ns).Get(ctx, "worker-0", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		metav1.SetMetaDataLabel(&host.ObjectMeta, "to", to)
		metav1.SetMetaDataAnnotation(&host.ObjectMeta, "to", to)
		host.Finalizers = []string{"example.com/" + to}
		host.Spec.Description, host.Status.ErrorMessage = to, to
		return host
	}
	patch := func(to string) []byte {
		return fmt.Appendf(nil, `{"metadata":{"labels":{"to":%[1]q},"annotations":{"to":%[1]q},"finalizers":["example.com/%[1]s"]},"spec":{"description":%[1]q},"status":{"errorMessage":%[1]q}}`, to)
	}
	halves := func(h *metal3.BareMetalHost) []string {
		return append([]string{h.Labels["to"], h.Annotations["to"], h.Spec.Description, h.Status.ErrorMessage}, h.Finalizers...)
	}
	steps := []struct {
		name string
		do   func() (*metal3.BareMetalHost, error)
		want []string
	}{
		{"PUT", func() (*metal3.BareMetalHost, error) {
			return s.Hosts(ns).Update(ctx, change("one"), metav1.UpdateOptions{})
		}, []string{"one", "one", "one", "", "example.com/one"}},
		{"PUT of /status", func() (*metal3.BareMetalHost, error) {
			return s.Hosts(ns).UpdateStatus(ctx, change("two"), metav1.UpdateOptions{})
		}, []string{"one", "one", "one", "two", "example.com/one"}},
		{"patch", func() (*metal3.BareMetalHost, error) {
			return s.Hosts(ns).Patch(ctx, "worker-0", types.MergePatchType, patch("three"), metav1.PatchOptions{})
		}, []string{"three", "three", "three", "two", "example.com/three"}},
		{"patch of /status", func() (*metal3.BareMetalHost, error) {
			return s.Hosts(ns).Patch(ctx, "worker-0", types.MergePatchType, patch("four"), metav1.PatchOptions{}, "status")
		}, []string{"three", "three", "three", "four", "example.com/three"}},
	}
	for _, step := range steps {
		host, err := step.do()
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if diff := cmp.Diff(step.want, halves(host)); diff != "" {
			t.Errorf("%s: label, annotation, description, error message, finalizers (-want +got):\n%s", step.name, diff)
		}
	}
	if host := s.PatchHost(t, ctx, ns, "worker-0", `{"metadata":{"finalizers":[]}}`); len(host.Finalizers) != 0 {
		t.Errorf("finalizers remain: %v", host.Finalizers)
	}
}
