// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	registry "github.com/metal3-io/metal3-apiserver/pkg/registry/metal3"
	"github.com/metal3-io/metal3-apiserver/pkg/store"
	"github.com/metal3-io/metal3-apiserver/test/storetest"
)

// newRecords returns HardwareData on a real etcd.
func newRecords(t *testing.T) *store.HardwareData {
	t.Helper()
	kinds, err := registry.NewKinds(scheme, storetest.New(t, storetest.Codec()))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds {
		storetest.Use(t, k.Store)
	}
	return kinds.HardwareData()
}

func newData(name, hostname string, finalizers ...string) *metal3.HardwareData {
	return &metal3.HardwareData{
		ObjectMeta: metav1.ObjectMeta{Namespace: storetest.Namespace, Name: name, Finalizers: finalizers},
		Spec:       metal3.HardwareDataSpec{HardwareDetails: &metal3.HardwareDetails{Hostname: hostname}},
	}
}

func TestPut(t *testing.T) {
	records, ctx := newRecords(t), t.Context()
	put := func(data *metal3.HardwareData) *metal3.HardwareData {
		t.Helper()
		if err := records.Put(ctx, data); err != nil {
			t.Fatal(err)
		}
		recorded, err := records.Get(ctx, data.Namespace, data.Name)
		if err != nil {
			t.Fatal(err)
		}
		return recorded
	}
	deleted := newData("worker-0", "first", metal3.HardwareDataFinalizer)
	deleted.UID, deleted.ResourceVersion = "of a deleted object", "1"
	first := put(deleted)
	if first.UID == "" || first.UID == deleted.UID || first.Generation != 1 || len(first.Finalizers) != 1 {
		t.Errorf("created %+v", first)
	}
	// Putting the same spec again causes no write, and so no watch event.
	if again := put(newData("worker-0", "first")); again.ResourceVersion != first.ResourceVersion {
		t.Error("an equal spec was written")
	}
	second := put(newData("worker-0", "second"))
	want := first.DeepCopy()
	want.Spec.HardwareDetails.Hostname = "second"
	want.Generation, want.ResourceVersion = 2, second.ResourceVersion
	if diff := cmp.Diff(want, second); diff != "" {
		t.Errorf("after another spec (- want, + got):\n%s", diff)
	}
	bad := newData("worker-0", "third")
	bad.Spec.HardwareDetails.NIC = []metal3.NIC{{MAC: "eth0"}}
	if err := records.Put(ctx, bad); !apierrors.IsInvalid(err) {
		t.Errorf("with an invalid MAC address: got %v, want Invalid", err)
	}
	if _, err := records.Update(ctx, first); !apierrors.IsConflict(err) {
		t.Errorf("update of an older revision: got %v, want Conflict", err)
	}
}

// TestPutOfDeleted checks that who deletes a HardwareData, which waits for its host, gets a new one with the next inspection, unless
// something else keeps it, too.
func TestPutOfDeleted(t *testing.T) {
	for name, others := range map[string][]string{"nothing else keeps it": nil, "something else keeps it": {"example.com/other"}} {
		t.Run(name, func(t *testing.T) {
			records, ctx := newRecords(t), t.Context()
			deleted, err := records.Create(ctx, newData("worker-0", "first", append(others, metal3.HardwareDataFinalizer)...))
			if err == nil {
				err = records.Delete(ctx, deleted)
			}
			if err == nil {
				err = records.Put(ctx, newData("worker-0", "second", metal3.HardwareDataFinalizer))
			}
			if err != nil {
				t.Fatal(err)
			}
			data, err := records.Get(ctx, storetest.Namespace, "worker-0")
			if err != nil || data.Spec.HardwareDetails.Hostname != "second" {
				t.Fatalf("it is %+v, %v", data, err)
			}
			if others == nil && (data.UID == deleted.UID || !data.DeletionTimestamp.IsZero() || len(data.Finalizers) != 1) {
				t.Errorf("it is still the one that was deleted: %+v", data.ObjectMeta)
			}
			if others != nil && (data.UID != deleted.UID || !slices.Equal(data.Finalizers, others)) {
				t.Errorf("what something else keeps has the finalizers %v", data.Finalizers)
			}
		})
	}
}

// TestPutOverFormer checks that what a former host of the name has left, without its finalizer, does not go with what a new host puts
// there; and that nothing else changes its owners.
func TestPutOverFormer(t *testing.T) {
	owned := func(kind string, uid types.UID) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: metal3.SchemeGroupVersion.String(), Kind: kind, Name: "worker-0", UID: uid}
	}
	own, former, claim, other := owned("BareMetalHost", "this"), owned("BareMetalHost", "former"), owned("HostClaim", "claim"), owned("Other", "other")
	own.Controller = ptr.To(true)
	kept := []string{metal3.HardwareDataFinalizer}
	for name, test := range map[string]struct {
		is, want   []metav1.OwnerReference
		finalizers []string
	}{
		"of a former host":                       {[]metav1.OwnerReference{former}, []metav1.OwnerReference{own}, kept},
		"of a former host and of something else": {[]metav1.OwnerReference{former, other}, []metav1.OwnerReference{other, own}, kept},
		"of a claim":                             {[]metav1.OwnerReference{claim}, []metav1.OwnerReference{own}, kept},
		"of this host":                           {[]metav1.OwnerReference{own}, []metav1.OwnerReference{own}, nil},
		"given by hand":                          {nil, nil, nil},
		"of something else":                      {[]metav1.OwnerReference{other}, []metav1.OwnerReference{other}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			records, ctx := newRecords(t), t.Context()
			left := newData("worker-0", "first")
			left.OwnerReferences = test.is
			put := newData("worker-0", "first", kept...) // also if it says the same
			put.OwnerReferences = []metav1.OwnerReference{own}
			_, err := records.Create(ctx, left)
			if err == nil {
				err = records.Put(ctx, put)
			}
			if err != nil {
				t.Fatal(err)
			}
			data, err := records.Get(ctx, storetest.Namespace, "worker-0")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, data.OwnerReferences) + cmp.Diff(test.finalizers, data.Finalizers); diff != "" {
				t.Errorf("its owners and finalizers (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPutRace checks that concurrent Puts of the same object all succeed.
func TestPutRace(t *testing.T) {
	records := newRecords(t)
	const writers = 16
	errs := make([]error, writers)
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() { errs[i] = records.Put(t.Context(), newData("worker-0", fmt.Sprint(i))) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	if data, err := records.Get(t.Context(), storetest.Namespace, "worker-0"); err != nil || data.Generation != writers {
		t.Errorf("not every spec was written: %+v, %v", data, err)
	}
}

func TestRemoveFinalizer(t *testing.T) {
	records, ctx := newRecords(t), t.Context()
	remove := func(finalizer string) {
		t.Helper()
		if err := records.RemoveFinalizer(ctx, storetest.Namespace, "worker-0", finalizer); err != nil {
			t.Error(err)
		}
	}
	remove(metal3.HardwareDataFinalizer) // the object does not exist yet
	created, err := records.Create(ctx, newData("worker-0", "a", metal3.HardwareDataFinalizer, "example.com/other"))
	if err != nil {
		t.Fatal(err)
	}
	written := created.DeepCopy()
	written.Labels = map[string]string{"written": "meanwhile"}
	if written, err = records.Update(ctx, written); err != nil {
		t.Fatal(err)
	}
	if err := records.Delete(ctx, created); !apierrors.IsConflict(err) {
		t.Errorf("deletion of an older revision: got %v, want Conflict", err)
	}
	if err := records.Delete(ctx, written); err != nil {
		t.Fatal(err)
	}
	remove(metal3.HardwareDataFinalizer)
	data, err := records.Get(ctx, storetest.Namespace, "worker-0")
	if err != nil || data.DeletionTimestamp.IsZero() {
		t.Fatalf("deleted before the last finalizer: %+v, %v", data, err)
	}
	if diff := cmp.Diff([]string{"example.com/other"}, data.Finalizers); diff != "" {
		t.Error(diff)
	}
	remove(metal3.HardwareDataFinalizer) // again
	remove("example.com/other")
	if _, err := records.Get(ctx, storetest.Namespace, "worker-0"); !apierrors.IsNotFound(err) {
		t.Errorf("after the last finalizer was removed: got %v, want NotFound", err)
	}
	if err := records.Delete(ctx, data); !apierrors.IsNotFound(err) {
		t.Errorf("deleting a missing object: got %v, want NotFound", err)
	}
}
