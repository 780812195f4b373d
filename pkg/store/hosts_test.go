// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/store"
	"github.com/metal3-io/metal3-apiserver/test/storetest"
)

func TestRecord(t *testing.T) {
	eachCache(t, func(t *testing.T, api *genericregistry.Store) {
		hosts := store.NewHosts(api)
		created := storetest.Create(t, api, newHost("worker-0"))

		observed := created.DeepCopy()
		observed.Status.PoweredOn = true
		observed.Finalizers = []string{metal3.BareMetalHostFinalizer}
		recorded, err := hosts.Record(t.Context(), observed)
		if err != nil {
			t.Fatal(err)
		}
		want := observed.DeepCopy()
		want.ResourceVersion = recorded.ResourceVersion
		if diff := cmp.Diff(want, get(t, api, "worker-0")); diff != "" {
			t.Errorf("recorded is something else (- want, + got):\n%s", diff)
		}
		if recorded.ResourceVersion == created.ResourceVersion {
			t.Error("the resourceVersion did not change")
		}

		// The very same again is no write, and nobody sees an event.
		again, err := hosts.Record(t.Context(), recorded)
		if err != nil {
			t.Fatal(err)
		}
		if again.ResourceVersion != recorded.ResourceVersion {
			t.Errorf("an equal host was written: resourceVersion %s became %s", recorded.ResourceVersion, again.ResourceVersion)
		}
	})
}

func TestRecordRefused(t *testing.T) {
	eachCache(t, func(t *testing.T, api *genericregistry.Store) {
		hosts := store.NewHosts(api)
		created := storetest.Create(t, api, newHost("worker-0"))

		byUser := created.DeepCopy()
		byUser.Spec.Online = true
		current, err := storetest.Put(t, api, byUser)
		if err != nil {
			t.Fatal(err)
		}
		tests := []struct {
			name    string
			change  func(*metal3.BareMetalHost)
			refused func(error) bool
		}{
			{"somebody wrote since", func(h *metal3.BareMetalHost) { h.ResourceVersion = created.ResourceVersion }, apierrors.IsConflict},
			{"deleted and made anew", func(h *metal3.BareMetalHost) { h.UID = "of the host before" }, apierrors.IsConflict},
			{"deleted", func(h *metal3.BareMetalHost) { h.Name = "no-such" }, apierrors.IsNotFound},
		}
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				observed := current.DeepCopy()
				observed.Status.PoweredOn = true
				test.change(observed)
				if _, err := hosts.Record(t.Context(), observed); !test.refused(err) {
					t.Errorf("got %v", err)
				}
				if diff := cmp.Diff(current, get(t, api, "worker-0")); diff != "" {
					t.Errorf("something was written:\n%s", diff)
				}
			})
		}
	})
}

// TestRecordRace has many record what each read: of those who read the same
// revision, one wins.
func TestRecordRace(t *testing.T) {
	const recorders = 16
	eachCache(t, func(t *testing.T, api *genericregistry.Store) {
		hosts := store.NewHosts(api)
		read := storetest.Create(t, api, newHost("worker-0"))
		errs := make([]error, recorders)
		var all sync.WaitGroup
		for i := range recorders {
			all.Go(func() {
				observed := read.DeepCopy()
				observed.Status.ErrorCount = i + 1
				_, errs[i] = hosts.Record(t.Context(), observed)
			})
		}
		all.Wait()
		winner := 0
		for i, err := range errs {
			switch {
			case err == nil && winner != 0:
				t.Errorf("both %d and %d have won", winner, i+1)
			case err == nil:
				winner = i + 1
			case !apierrors.IsConflict(err):
				t.Errorf("the loser gets %v", err)
			}
		}
		if got := get(t, api, "worker-0").Status.ErrorCount; got != winner || winner == 0 {
			t.Errorf("winner is %d, recorded is %d", winner, got)
		}
	})
}

func TestLastFinalizerCompletesDeletion(t *testing.T) {
	eachCache(t, func(t *testing.T, api *genericregistry.Store) {
		hosts := store.NewHosts(api)
		storetest.Create(t, api, newHost("worker-0", func(h *metal3.BareMetalHost) {
			h.Finalizers = []string{metal3.BareMetalHostFinalizer, "example.com/other"}
		}))
		_, gone, err := api.Delete(storetest.InNamespace(t), "worker-0", rest.ValidateAllObjectFunc, &metav1.DeleteOptions{})
		if err != nil || gone {
			t.Fatalf("deleted at once: %t, %v", gone, err)
		}
		host := get(t, api, "worker-0")
		if host.DeletionTimestamp.IsZero() {
			t.Fatal("no deletionTimestamp")
		}
		// The status can still be recorded.
		host.Status.Provisioning.State = metal3.StateDeleting
		if host, err = hosts.Record(t.Context(), host); err != nil {
			t.Fatal(err)
		}
		host.Finalizers = []string{"example.com/other"}
		if host, err = hosts.Update(t.Context(), host); err != nil {
			t.Fatal(err)
		}
		stale := host.DeepCopy()
		stale.ResourceVersion, stale.Finalizers = "1", nil
		if _, err := hosts.Update(t.Context(), stale); !apierrors.IsConflict(err) {
			t.Errorf("update of an older revision: got %v", err)
		}
		host.Finalizers = nil
		if _, err := hosts.Update(t.Context(), host); err != nil {
			t.Fatal(err)
		}
		if _, err := hosts.Get(t.Context(), storetest.Namespace, "worker-0"); !apierrors.IsNotFound(err) {
			t.Errorf("the host is still there: %v", err)
		}
	})
}

func watchHosts(t *testing.T, hosts *store.Hosts) watch.Interface {
	t.Helper()
	w, err := hosts.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w
}

// TestHostsOfAllNamespaces: the synchronisation sees hosts wherever they are.
func TestHostsOfAllNamespaces(t *testing.T) {
	eachCache(t, func(t *testing.T, api *genericregistry.Store) {
		hosts := store.NewHosts(api)
		w := watchHosts(t, hosts)
		var want []string
		for i := range 3 {
			host := newHost("worker-0")
			host.Namespace = fmt.Sprintf("rack-%d", i)
			ctx := genericapirequest.WithNamespace(t.Context(), host.Namespace)
			if _, err := api.Create(ctx, host, rest.ValidateAllObjectFunc, &metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			want = append(want, host.Namespace)
		}
		all, err := hosts.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var listed, watched []string
		for _, host := range all.Items {
			listed = append(listed, host.Namespace)
		}
		for range want {
			e := storetest.NextEvent(t, w)
			if e.Type != watch.Added {
				t.Fatalf("event %s, want ADDED", e.Type)
			}
			watched = append(watched, e.Object.(*metal3.BareMetalHost).Namespace)
		}
		if diff := cmp.Diff(want, listed); diff != "" {
			t.Errorf("list:\n%s", diff)
		}
		if diff := cmp.Diff(want, watched); diff != "" {
			t.Errorf("watch:\n%s", diff)
		}
		one, err := store.NewObjects[*metal3.BareMetalHost](api, api).List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.namespace=rack-1"})
		if err != nil {
			t.Fatal(err)
		}
		if items := one.(*metal3.BareMetalHostList).Items; len(items) != 1 || items[0].Namespace != "rack-1" {
			t.Errorf("list of one namespace: %v", items)
		}
	})
}

// TestWatchSharesMemory: an informer does not hold a second copy of the fleet. If the watch cache is
// on, what it watches shares memory with it, and a change of a copy does not reach the watch cache.
func TestWatchSharesMemory(t *testing.T) {
	eachCache(t, func(t *testing.T, api *genericregistry.Store) {
		hosts := store.NewHosts(api)
		w := watchHosts(t, hosts)
		created := storetest.Create(t, api, newHost("worker-0", func(h *metal3.BareMetalHost) {
			h.Finalizers = []string{metal3.BareMetalHostFinalizer}
		}))
		watched := storetest.NextEvent(t, w).Object.(*metal3.BareMetalHost)
		if diff := cmp.Diff(created, watched, cmpopts.IgnoreTypes(metav1.TypeMeta{})); diff != "" {
			t.Errorf("watched is something else than what was created (- want, + got):\n%s", diff)
		}
		cached := hosts.Cached(t.Context(), created.Namespace, created.Name)
		if cached == nil {
			return // no watch cache
		}
		if &watched.Finalizers[0] != &cached.Finalizers[0] {
			t.Error("the watched host has a copy of what the watch cache has")
		}
		watched.DeepCopy().Finalizers[0] = "changed"
		if again := hosts.Cached(t.Context(), created.Namespace, created.Name); again.Finalizers[0] != metal3.BareMetalHostFinalizer {
			t.Errorf("the watch cache has finalizer %q", again.Finalizers[0])
		}
	})
}
