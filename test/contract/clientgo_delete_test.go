// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

const holdFinalizer = "example.com/hold"

// isGone waits until a host is gone.
func isGone(t *testing.T, ctx context.Context, ns, name string) {
	t.Helper()
	comes(t, ctx, func() string {
		host, err := s.Hosts(ns).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("host %s/%s is not gone: %v, finalizers %v, state %q", ns, name, err, host.Finalizers, host.Status.Provisioning.State)
	})
}

// TestClientGoFinalizers: a deleted host stays as long as it has one, and can be
// changed; but none can be added.
func TestClientGoFinalizers(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	before := idleHost(t, ctx, ns, "worker-0", withFinalizer(holdFinalizer))
	w, err := s.Hosts(ns).Watch(ctx, metav1.ListOptions{ResourceVersion: before.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for range 2 { // the second time changes nothing
		if err := s.Hosts(ns).Delete(ctx, "worker-0", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	host, err := s.Hosts(ns).Get(ctx, "worker-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// A CRD counts its deletion as a change of what is wanted.
	if host.DeletionTimestamp.IsZero() || ptr.Deref(host.DeletionGracePeriodSeconds, -1) != 0 || host.Generation != before.Generation+1 {
		t.Errorf("deleted, it is %+v", host.ObjectMeta)
	}
	_, err = s.Hosts(ns).Patch(ctx, "worker-0", types.MergePatchType, []byte(`{"metadata":{"finalizers":["`+holdFinalizer+`","example.com/more"]}}`), metav1.PatchOptions{})
	if !apierrors.IsInvalid(err) {
		t.Errorf("one more finalizer for a deleted host: %v, want 422", err)
	}
	_, err = s.Hosts(ns).Patch(ctx, "worker-0", types.MergePatchType, []byte(`{"metadata":{"deletionTimestamp":null}}`), metav1.PatchOptions{})
	if after, getErr := s.Hosts(ns).Get(ctx, "worker-0", metav1.GetOptions{}); getErr != nil || after.DeletionTimestamp.IsZero() {
		t.Errorf("a deletion was taken back: %v %v", err, getErr)
	}
	changed := s.PatchHost(t, ctx, ns, "worker-0", `{"metadata":{"labels":{"a":"b"}},"spec":{"description":"on its way"}}`)
	if changed.Generation != host.Generation+1 || changed.Spec.Description != "on its way" {
		t.Errorf("a change of a deleted host made it %+v %+v", changed.ObjectMeta, changed.Spec)
	}
	s.PatchHost(t, ctx, ns, "worker-0", `{"metadata":{"finalizers":null}}`)
	isGone(t, ctx, ns, "worker-0")
	var got []watch.EventType
	for len(got) == 0 || got[len(got)-1] != watch.Deleted {
		got = append(got, nextEvent(t, ctx, w).Type)
	}
	if diff := cmp.Diff([]watch.EventType{watch.Modified, watch.Modified, watch.Deleted}, got); diff != "" {
		t.Errorf("events: the deletion, the change, the last finalizer (-want +got):\n%s", diff)
	}
}

// TestClientGoDeleteCollection: what the selectors select goes, and nothing else.
func TestClientGoDeleteCollection(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	for i, pool := range []string{"x", "y", "x", "y", "x", "z"} {
		idleHost(t, ctx, ns, fmt.Sprintf("worker-%d", i), withLabel("pool", pool))
	}
	idleHost(t, ctx, ns, "held", withLabel("pool", "x"), withFinalizer(holdFinalizer))
	steps := []struct {
		options metav1.ListOptions
		left    []string
	}{
		{metav1.ListOptions{LabelSelector: "pool=none"}, []string{"held", "worker-0", "worker-1", "worker-2", "worker-3", "worker-4", "worker-5"}},
		{metav1.ListOptions{LabelSelector: "pool=x"}, []string{"held", "worker-1", "worker-3", "worker-5"}},
		{metav1.ListOptions{FieldSelector: "metadata.name=worker-5"}, []string{"held", "worker-1", "worker-3"}},
		{metav1.ListOptions{LabelSelector: "pool in (y,z)", FieldSelector: "metadata.name!=worker-3"}, []string{"held", "worker-3"}},
		{metav1.ListOptions{}, []string{"held"}},
	}
	for _, step := range steps {
		if err := s.Hosts(ns).DeleteCollection(ctx, metav1.DeleteOptions{}, step.options); err != nil {
			t.Fatal(err)
		}
		comes(t, ctx, func() string {
			list, err := s.Hosts(ns).List(ctx, metav1.ListOptions{})
			if err != nil {
				return err.Error()
			}
			var left []string
			for _, host := range list.Items {
				left = append(left, host.Name)
			}
			return cmp.Diff(step.left, left)
		})
	}
	if held := s.PatchHost(t, ctx, ns, "held", `{"metadata":{"finalizers":null}}`); held.DeletionTimestamp.IsZero() {
		t.Error("a host with a finalizer was not marked as deleted")
	}
	isGone(t, ctx, ns, "held")
}

// TestClientGoDeletePropagation: what the client wants done with what the host owns
// is left to the garbage collector in a finalizer.
func TestClientGoDeletePropagation(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	for propagation, finalizers := range map[metav1.DeletionPropagation][]string{
		metav1.DeletePropagationBackground: {holdFinalizer},
		metav1.DeletePropagationForeground: {holdFinalizer, metav1.FinalizerDeleteDependents},
		metav1.DeletePropagationOrphan:     {holdFinalizer, metav1.FinalizerOrphanDependents},
	} {
		name := strings.ToLower(string(propagation))
		host := idleHost(t, ctx, ns, name, withFinalizer(holdFinalizer))
		w, err := s.Hosts(ns).Watch(ctx, metav1.ListOptions{ResourceVersion: host.ResourceVersion, FieldSelector: "metadata.name=" + name})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Hosts(ns).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &propagation}); err != nil {
			t.Fatal(err)
		}
		// The first event, because the collector removes its finalizer at any moment.
		deleted, ok := nextEvent(t, ctx, w).Object.(*metal3.BareMetalHost)
		if !ok || deleted.DeletionTimestamp.IsZero() || !cmp.Equal(deleted.Finalizers, finalizers) {
			t.Errorf("deleted with %s, it is %+v; want finalizers %v", propagation, deleted, finalizers)
		}
		w.Stop()
		comes(t, ctx, func() string {
			host, err := s.Hosts(ns).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return cmp.Diff([]string{holdFinalizer}, host.Finalizers)
		})
		s.PatchHost(t, ctx, ns, name, `{"metadata":{"finalizers":null}}`)
		isGone(t, ctx, ns, name)
	}
}
