// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	testingclock "k8s.io/utils/clock/testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost"
	"github.com/metal3-io/metal3-apiserver/pkg/store"
	"github.com/metal3-io/metal3-apiserver/test/storetest"
)

const (
	budgetLimit = 16 << 20
	textSize    = 200 << 10
	tooMany     = 2 * budgetLimit / textSize // changes that replace twice the limit
)

// budgeted returns a store of hosts with the watch cache and a budget, and the clock of the budget, which stands still.
func budgeted(t *testing.T) (*genericregistry.Store, *testingclock.FakePassiveClock) {
	t.Helper()
	clock := testingclock.NewFakePassiveClock(time.Unix(1_000_000, 0))
	options := store.Budgeted(store.Explained(storetest.New(t, storetest.Codec())), store.NewBudget(clock, budgetLimit))
	api, err := baremetalhost.NewStore(scheme, options, nil)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Use(t, api)
	return api, clock
}

// kept counts the bytes of the texts that the watch cache keeps of the changes since a version: it sends them to whoever begins to
// watch there.
func kept(t *testing.T, api *genericregistry.Store, since *metal3.BareMetalHost, last string) (bytes int, versions int) {
	t.Helper()
	ctx, cancel := context.WithCancel(storetest.InNamespace(t))
	defer cancel()
	w, err := api.Watch(ctx, &metainternalversion.ListOptions{ResourceVersion: since.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for {
		obj := storetest.NextEvent(t, w).Object
		if shared, ok := obj.(runtime.CacheableObject); ok { // one that has just been written
			obj = shared.GetObject()
		}
		host := obj.(*metal3.BareMetalHost)
		bytes, versions = bytes+len(host.Annotations["text"]), versions+1
		if host.ResourceVersion == last {
			return bytes, versions
		}
	}
}

func annotate(t *testing.T, api *genericregistry.Store, name string, i int) (*metal3.BareMetalHost, error) {
	host := get(t, api, name).DeepCopy()
	host.Annotations = map[string]string{"text": strings.Repeat(fmt.Sprint(i%10), textSize)}
	return storetest.Put(t, api, host)
}

// TestBudgetBoundsWatchCache counts what k8s.io/apiserver's watch cache keeps of a host that a tenant changes all the time: without a
// budget all of it, with one no more than the budget. The tenant is asked to try again later, and others are not.
func TestBudgetBoundsWatchCache(t *testing.T) {
	api, _ := budgeted(t)
	created := storetest.Create(t, api, newHost("worker-0"))
	last, refused := created, 0
	for i := range tooMany {
		changed, err := annotate(t, api, "worker-0", i)
		if err == nil {
			last = changed
			continue
		}
		refused++
		seconds, retry := apierrors.SuggestsClientDelay(err)
		if !apierrors.IsTooManyRequests(err) || !retry || seconds < 1 || seconds > 10 || !strings.Contains(err.Error(), storetest.Namespace) {
			t.Fatalf("change %d: %v, not a 429 with Retry-After that names the namespace", i, err)
		}
	}
	bytes, versions := kept(t, api, created, last.ResourceVersion)
	t.Logf("of %d changes of %d bytes, %d were refused; the watch cache keeps %d bytes in %d versions", tooMany, textSize, refused, bytes, versions)
	if bytes > budgetLimit || bytes < budgetLimit/3 {
		t.Errorf("the watch cache keeps %d bytes; the budget is %d, of which one namespace may have half", bytes, budgetLimit)
	}

	// The server itself, and another namespace, are not refused.
	host := last.DeepCopy()
	host.Status.PoweredOn = true
	if _, err := store.NewHosts(api).Record(t.Context(), host); err != nil {
		t.Errorf("the server: %v", err)
	}
	other := newHost("worker-0", func(h *metal3.BareMetalHost) { h.Namespace = "other" })
	in := genericapirequest.WithNamespace(t.Context(), "other")
	obj, err := api.Create(in, other, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	changed := obj.(*metal3.BareMetalHost).DeepCopy()
	changed.Spec.Online = true
	_, _, err = api.Update(in, "worker-0", rest.DefaultUpdatedObjectInfo(changed), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc,
		false, &metav1.UpdateOptions{})
	if err != nil {
		t.Errorf("another namespace: %v", err)
	}
}

// TestBudgetCountsWhatIsKept: what replaces nothing does not count: new objects, changes that change nothing, and those that fail.
func TestBudgetCountsWhatIsKept(t *testing.T) {
	api, _ := budgeted(t)
	storetest.Create(t, api, newHost("worker-0"))
	first, err := annotate(t, api, "worker-0", 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range tooMany {
		storetest.Create(t, api, newHost(fmt.Sprintf("new-%d", i), func(h *metal3.BareMetalHost) {
			h.Annotations = map[string]string{"text": strings.Repeat("n", textSize)}
		}))
		if same, err := annotate(t, api, "worker-0", 0); err != nil || same.ResourceVersion != first.ResourceVersion {
			t.Fatalf("change %d, which changes nothing: %v", i, err)
		}
		wrong := first.DeepCopy()
		wrong.Spec.BootMACAddress = "wrong"
		if _, err := storetest.Put(t, api, wrong); !apierrors.IsInvalid(err) {
			t.Fatalf("change %d, which is invalid: %v", i, err)
		}
	}
	// Deletions do count, as the watch cache has what is deleted twice. They are refused before more than that is kept.
	for i := range tooMany {
		_, _, err := api.Delete(storetest.InNamespace(t), fmt.Sprintf("new-%d", i), rest.ValidateAllObjectFunc, &metav1.DeleteOptions{})
		if apierrors.IsTooManyRequests(err) {
			if i < tooMany/16 {
				t.Errorf("only %d hosts can be deleted", i)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Error("all hosts can be deleted at once")
}

// TestBudgetOfThePatient: the watch cache keeps the last hundred versions for ever, so that even who waits long enough between changes
// cannot fill them with large ones. Small objects can be changed, and large ones be deleted, all the time.
func TestBudgetOfThePatient(t *testing.T) {
	api, clock := budgeted(t)
	created := storetest.Create(t, api, newHost("large"))
	small := storetest.Create(t, api, newHost("small"))
	last, accepted := created, 0
	for i := range tooMany {
		clock.SetTime(clock.Now().Add(time.Hour))
		changed, err := annotate(t, api, "large", i)
		switch {
		case err == nil:
			last = changed
			accepted++
		case !apierrors.IsTooManyRequests(err):
			t.Fatal(err)
		}
	}
	bytes, versions := kept(t, api, created, last.ResourceVersion)
	t.Logf("%d changes were accepted; the watch cache keeps %d bytes in %d versions", accepted, bytes, versions)
	if bytes > budgetLimit+2*textSize || bytes < budgetLimit/2 {
		t.Errorf("the watch cache keeps %d bytes; the budget is %d", bytes, budgetLimit)
	}
	host := newHost("another", func(h *metal3.BareMetalHost) {
		h.Annotations = map[string]string{"text": strings.Repeat("n", textSize)}
	})
	if _, err := api.Create(storetest.InNamespace(t), host, rest.ValidateAllObjectFunc, &metav1.CreateOptions{}); !apierrors.IsTooManyRequests(err) {
		t.Errorf("a large object can be created, and deleted later: %v", err)
	}
	ofOthers := host.DeepCopy()
	ofOthers.Namespace = "other"
	if _, err := api.Create(genericapirequest.WithNamespace(t.Context(), "other"), ofOthers, rest.ValidateAllObjectFunc, &metav1.CreateOptions{}); err != nil {
		t.Errorf("another namespace, which has changed nothing: %v", err)
	}
	clock.SetTime(clock.Now().Add(time.Hour))
	if _, _, err := api.Delete(storetest.InNamespace(t), "large", rest.ValidateAllObjectFunc, &metav1.DeleteOptions{}); err != nil {
		t.Errorf("the large object cannot be deleted: %v", err)
	}
	for i := range 100 {
		small.Spec.Online = i%2 == 0
		changed, err := storetest.Put(t, api, small)
		if err != nil {
			t.Fatalf("small object, change %d: %v", i, err)
		}
		small = changed
	}
	clock.SetTime(clock.Now().Add(time.Hour))
	if _, err := api.Create(storetest.InNamespace(t), host, rest.ValidateAllObjectFunc, &metav1.CreateOptions{}); err != nil {
		t.Errorf("when the watch cache has only small versions, a large object cannot be created: %v", err)
	}
}
