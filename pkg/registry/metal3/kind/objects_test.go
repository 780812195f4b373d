// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/storetest"
)

// Objects write spec and metadata, or the status, and only if nobody has written in between. A watch
// has objects of the kind, whether or not there is a watch cache.
func TestObjects(t *testing.T) {
	eachCache(t, hosts(), func(t *testing.T, r *REST) {
		ctx := t.Context()
		records := Objects[*metal3.BareMetalHost](r)
		changes, err := records.Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer changes.Stop()
		created, err := records.Create(ctx, newHost("worker-0", func(h *metal3.BareMetalHost) { h.Finalizers = []string{"example.com/kept"} }))
		if err != nil {
			t.Fatal(err)
		}
		change := created.DeepCopy()
		change.Spec.Description, change.Status.ErrorMessage = "first", "not by Update"
		updated, err := records.Update(ctx, change)
		if err != nil || updated.Spec.Description != "first" || updated.Status.ErrorMessage != "" || updated.Generation != 2 {
			t.Fatalf("updated %+v, %v", updated, err)
		}
		if _, err := records.Update(ctx, change); !apierrors.IsConflict(err) {
			t.Errorf("an update of an earlier version: %v", err)
		}
		change = updated.DeepCopy()
		change.Spec.Description, change.Status.ErrorMessage = "not by UpdateStatus", "away"
		updated, err = records.UpdateStatus(ctx, change)
		if err != nil || updated.Spec.Description != "first" || updated.Status.ErrorMessage != "away" || updated.Generation != 2 {
			t.Fatalf("updated %+v, %v", updated, err)
		}
		list, err := records.List(ctx, metav1.ListOptions{})
		if err != nil || len(list.(*metal3.BareMetalHostList).Items) != 1 {
			t.Errorf("listed %+v, %v", list, err)
		}
		if err := records.Delete(ctx, updated); err != nil {
			t.Fatal(err)
		}
		deleting, err := records.Get(ctx, storetest.Namespace, "worker-0")
		if err != nil || deleting.DeletionTimestamp == nil {
			t.Fatalf("an object with a finalizer was deleted: %+v, %v", deleting, err)
		}
		deleting.Finalizers = nil
		if _, err := records.Update(ctx, deleting); err != nil {
			t.Fatal(err)
		}
		if _, err := records.Get(ctx, storetest.Namespace, "worker-0"); !apierrors.IsNotFound(err) {
			t.Errorf("without its finalizer, it is still there: %v", err)
		}
		for {
			select {
			case event := <-changes.ResultChan():
				if _, typed := event.Object.(*metal3.BareMetalHost); !typed {
					t.Fatalf("the watch has %T", event.Object)
				}
				if event.Type == watch.Deleted {
					return
				}
			case <-time.After(5 * time.Minute):
				t.Fatal("the deletion was not seen")
			}
		}
	})
}
