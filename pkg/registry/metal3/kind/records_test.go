package kind

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// TestRecords: the engine writes what clients cannot, sees what is written, and overwrites nothing.
func TestRecords(t *testing.T) {
	eachCache(t, hosts(), func(t *testing.T, r *REST) {
		records := NewRecords[*metal3.BareMetalHost](r.Store)
		if _, err := records.Get(t.Context(), namespace, "worker-0"); !apierrors.IsNotFound(err) {
			t.Errorf("what does not exist: %v", err)
		}
		created, err := records.Create(t.Context(), newHost("worker-0"))
		if err != nil {
			t.Fatal(err)
		}
		list, err := records.List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.(*metal3.BareMetalHostList).Items) != 1 {
			t.Errorf("listed are %+v, %v", list, err)
		}
		w, err := records.Watch(t.Context(), metav1.ListOptions{ResourceVersion: created.ResourceVersion})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		changed := created.DeepCopy()
		changed.Status.ErrorMessage = "so it is"
		recorded, err := records.Record(t.Context(), changed)
		if err != nil || recorded.Status.ErrorMessage != "so it is" || recorded.Generation != 1 {
			t.Errorf("recorded is %+v, %v", recorded, err)
		}
		select {
		case event := <-w.ResultChan():
			if host, ok := event.Object.(*metal3.BareMetalHost); !ok || event.Type != watch.Modified || host.Status.ErrorMessage != "so it is" {
				t.Errorf("a watcher sees %+v", event)
			}
		case <-time.After(10 * time.Second):
			t.Error("a watcher sees nothing")
		}
		if _, err := records.Record(t.Context(), changed); !apierrors.IsConflict(err) {
			t.Errorf("recorded on an old version: %v", err)
		}
		recorded.Spec.Online = true
		if updated, err := records.Update(t.Context(), recorded); err != nil || updated.Generation != 2 || updated.Status.ErrorMessage != "so it is" {
			t.Errorf("updated is %+v, %v", updated, err)
		}
	})
}
