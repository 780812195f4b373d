// SPDX-License-Identifier: Apache-2.0

package baremetalhost_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost"
	"github.com/metal3-io/metal3-apiserver/test/storetest"
)

// The ways to read that clients really use are tried 200 times each, their
// variants less often: each time after Ironic changed.
const (
	rounds       = 200
	fewerRounds  = 20
	notOlderThan = metav1.ResourceVersionMatchNotOlderThan
	lastShown    = "n" // stands for the resourceVersion that the read before has shown
)

// TestReadsAreFresh changes a host in Ironic and reads at once, in every way that
// a client can: the change must be in the answer each time.
func TestReadsAreFresh(t *testing.T) {
	yes := true
	byName := fields.OneTermEqualSelector("metadata.name", "worker-0")
	byField := fields.OneTermEqualSelector("spec.online", "false")
	lists := []struct {
		name    string
		rounds  int
		options metainternalversion.ListOptions
	}{
		{"list", rounds, metainternalversion.ListOptions{}},
		{"list at any resourceVersion", rounds, metainternalversion.ListOptions{ResourceVersion: "0"}},
		{"list not older than", rounds, metainternalversion.ListOptions{ResourceVersion: lastShown, ResourceVersionMatch: notOlderThan}},
		{"list by name", rounds, metainternalversion.ListOptions{FieldSelector: byName}},
		{"list at a resourceVersion", fewerRounds, metainternalversion.ListOptions{ResourceVersion: lastShown}},
		{"list a page", fewerRounds, metainternalversion.ListOptions{Limit: 10}},
		{"list a page at any resourceVersion", fewerRounds, metainternalversion.ListOptions{Limit: 10, ResourceVersion: "0"}},
		{"list a page not older than", fewerRounds, metainternalversion.ListOptions{Limit: 10, ResourceVersion: lastShown, ResourceVersionMatch: notOlderThan}},
		{"list by name at any resourceVersion", fewerRounds, metainternalversion.ListOptions{FieldSelector: byName, ResourceVersion: "0"}},
		{"list by field", fewerRounds, metainternalversion.ListOptions{FieldSelector: byField}},
		{"list by field at any resourceVersion", fewerRounds, metainternalversion.ListOptions{FieldSelector: byField, ResourceVersion: "0"}},
	}
	watches := []struct {
		name    string
		rounds  int
		options metainternalversion.ListOptions
	}{
		{"watch", rounds, metainternalversion.ListOptions{}},
		{"watch by name", fewerRounds, metainternalversion.ListOptions{FieldSelector: byName}},
		{"watch at any resourceVersion", fewerRounds, metainternalversion.ListOptions{ResourceVersion: "0"}},
		{"watch from a resourceVersion", fewerRounds, metainternalversion.ListOptions{ResourceVersion: lastShown}},
		{"watch with initial events", fewerRounds, metainternalversion.ListOptions{SendInitialEvents: &yes, AllowWatchBookmarks: true, ResourceVersionMatch: notOlderThan}},
		{"watch with any initial events", fewerRounds, metainternalversion.ListOptions{SendInitialEvents: &yes, AllowWatchBookmarks: true, ResourceVersionMatch: notOlderThan, ResourceVersion: "0"}},
	}
	eachCache(t, func(t *testing.T, store *genericregistry.Store) {
		script := newScripted(store)
		hosts := baremetalhost.NewREST(store, script, nil, nil)
		storetest.Create(t, store, newHost("worker-0"))
		storetest.Create(t, store, newHost("worker-1"))
		version := get(t, hosts, "worker-1").ResourceVersion
		at := func(options metainternalversion.ListOptions) *metainternalversion.ListOptions {
			if options.ResourceVersion == lastShown {
				options.ResourceVersion = version
			}
			return &options
		}
		number := 0
		try := func(name string, rounds int, read func(t *testing.T, now string) *metal3.BareMetalHost) {
			t.Run(name, func(t *testing.T) {
				stale, began := 0, time.Now()
				for range rounds {
					number++
					now := fmt.Sprintf("error number %d", number)
					script.set("worker-0", now)
					host := read(t, now)
					if host.Status.ErrorMessage != now {
						stale++
					}
					version = host.ResourceVersion
				}
				t.Logf("%d of %d stale, %.1f ms for each", stale, rounds, time.Since(began).Seconds()*1000/float64(rounds))
				if stale > 0 {
					t.Errorf("%d of %d reads were stale", stale, rounds)
				}
			})
		}

		for name, asked := range map[string]string{"get": "", "get at any resourceVersion": "0", "get at a resourceVersion": version} {
			n := rounds
			if asked != "" {
				n = fewerRounds
			}
			try(name, n, func(t *testing.T, _ string) *metal3.BareMetalHost {
				obj, err := hosts.Get(storetest.InNamespace(t), "worker-0", &metav1.GetOptions{ResourceVersion: asked})
				if err != nil {
					t.Fatal(err)
				}
				return obj.(*metal3.BareMetalHost)
			})
		}
		for _, l := range lists {
			try(l.name, l.rounds, func(t *testing.T, _ string) *metal3.BareMetalHost {
				got := list(t, hosts, at(l.options))
				i := slices.IndexFunc(got.Items, func(h metal3.BareMetalHost) bool { return h.Name == "worker-0" })
				if i < 0 {
					t.Fatal("the host is not in the list")
				}
				if newer(got.ResourceVersion, got.Items[i].ResourceVersion) != got.ResourceVersion {
					t.Fatalf("a list at %s has a host at %s", got.ResourceVersion, got.Items[i].ResourceVersion)
				}
				return &got.Items[i]
			})
		}
		try("list by name in all namespaces", fewerRounds, func(t *testing.T, _ string) *metal3.BareMetalHost {
			got, err := hosts.List(genericapirequest.WithNamespace(t.Context(), metav1.NamespaceAll), &metainternalversion.ListOptions{FieldSelector: byName})
			if err != nil || len(got.(*metal3.BareMetalHostList).Items) != 1 {
				t.Fatalf("%v, %v", got, err)
			}
			return &got.(*metal3.BareMetalHostList).Items[0]
		})
		for _, w := range watches {
			try(w.name, w.rounds, func(t *testing.T, now string) *metal3.BareMetalHost {
				events := openWatch(t, hosts, at(w.options))
				defer events.Stop()
				for {
					if host := hostIn(storetest.NextEvent(t, events)); host.Name == "worker-0" && host.Status.ErrorMessage == now {
						return host // what was before may come first, where the client accepts any version
					}
				}
			})
		}
	})
}

// TestHistoryIsNotRefreshed: what a client asks for as it was, it gets as it was.
func TestHistoryIsNotRefreshed(t *testing.T) {
	eachCache(t, func(t *testing.T, store *genericregistry.Store) {
		script := newScripted(store)
		hosts := baremetalhost.NewREST(store, script, nil, nil)
		storetest.Create(t, store, newHost("worker-0"))
		storetest.Create(t, store, newHost("worker-1"))
		script.set("worker-1", "before")
		then := list(t, hosts, &metainternalversion.ListOptions{Limit: 1})
		script.set("worker-1", "between")
		list(t, hosts, &metainternalversion.ListOptions{})
		script.set("worker-1", "now")
		asked := script.asked()
		for name, options := range map[string]*metainternalversion.ListOptions{
			"exact":         {ResourceVersion: then.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact},
			"with a limit":  {ResourceVersion: then.ResourceVersion, Limit: 10},
			"continued":     {Continue: then.Continue},
			"exact by name": {ResourceVersion: then.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact, FieldSelector: fields.OneTermEqualSelector("metadata.name", "worker-1")},
		} {
			t.Run(name, func(t *testing.T) {
				got := list(t, hosts, options).Items
				if last := got[len(got)-1]; last.Name != "worker-1" || last.Status.ErrorMessage != "before" {
					t.Errorf("got %s with %q, want worker-1 as it was before", last.Name, last.Status.ErrorMessage)
				}
				if script.asked() != asked {
					t.Error("Ironic was asked")
				}
			})
		}
	})
}

// TestWatcherSeesWhatListsShow has several clients list a host that changes all
// the time. Whatever one of them was shown, a watcher gets too: under the same
// resourceVersion, with the same content, in order.
func TestWatcherSeesWhatListsShow(t *testing.T) {
	const readers = 4
	eachCache(t, func(t *testing.T, store *genericregistry.Store) {
		script := newScripted(store)
		hosts := baremetalhost.NewREST(store, script, nil, nil)
		storetest.Create(t, store, newHost("worker-0"))
		w := openWatch(t, hosts, &metainternalversion.ListOptions{})
		// Without the cache, a watch begins with the state at a moment after it was opened.
		first := storetest.NextEvent(t, w)

		var mu sync.Mutex
		shown := map[string]string{} // by resourceVersion
		newest := ""
		var all sync.WaitGroup
		for range readers {
			all.Go(func() {
				for range rounds / readers {
					mu.Lock()
					round := len(shown)
					mu.Unlock()
					script.set("worker-0", fmt.Sprintf("error number %d", round))
					obj, err := hosts.List(genericapirequest.WithNamespace(t.Context(), storetest.Namespace), &metainternalversion.ListOptions{})
					if err != nil {
						t.Error(err)
						return
					}
					host := obj.(*metal3.BareMetalHostList).Items[0]
					mu.Lock()
					if before, ok := shown[host.ResourceVersion]; ok && before != host.Status.ErrorMessage {
						t.Errorf("resourceVersion %s was %q and is %q", host.ResourceVersion, before, host.Status.ErrorMessage)
					}
					shown[host.ResourceVersion] = host.Status.ErrorMessage
					newest = newer(newest, host.ResourceVersion)
					mu.Unlock()
				}
			})
		}
		done := make(chan struct{})
		go func() { defer close(done); all.Wait() }()

		// The events are taken as they come: the cache gives up on slow watchers.
		watched := map[string]string{}
		last, events := "", 0
		take := func(e watch.Event) {
			host := hostIn(e)
			if e.Type == watch.Bookmark {
				return
			}
			if newer(last, host.ResourceVersion) == last {
				t.Fatalf("resourceVersion %s comes after %s", host.ResourceVersion, last)
			}
			last = host.ResourceVersion
			watched[last] = host.Status.ErrorMessage
			events++
		}
		take(first)
		for running := true; running; {
			select {
			case e, ok := <-w.ResultChan():
				if !ok {
					t.Fatal("the watch ended")
				}
				take(e)
			case <-done:
				running = false
			}
		}
		for last != newest {
			take(storetest.NextEvent(t, w))
		}
		t.Logf("%d lists showed %d states, %d events", rounds, len(shown), events)
		for version, text := range shown {
			if got, ok := watched[version]; !ok || got != text {
				t.Errorf("resourceVersion %s is %q in a list and %q (%t) in the watch", version, text, got, ok)
			}
		}
	})
}

func newer(a, b string) string {
	if a == "" {
		return b
	}
	if order, err := resourceversion.CompareResourceVersion(a, b); err != nil || order >= 0 {
		return a
	}
	return b
}

// failing is a Refresher that does not get through to Ironic.
type failing struct{}

func (failing) RefreshHost(context.Context, string, string) error {
	return errors.New("no answer from Ironic")
}
func (failing) ReadHost(context.Context, string, string) (*metal3.BareMetalHost, error) {
	return nil, errors.New("no answer from Ironic")
}
func (failing) RefreshAll(context.Context, string) error { return errors.New("no answer from Ironic") }
func (failing) RedactPassword(context.Context, *metal3.BareMetalHost, *ironic.Node) error {
	return errors.New("no answer from kube-apiserver")
}

// TestReadsWithoutIronic: what is recorded is served, whatever is missing.
func TestReadsWithoutIronic(t *testing.T) {
	eachCache(t, func(t *testing.T, store *genericregistry.Store) {
		hosts := baremetalhost.NewREST(store, failing{}, nil, nil)
		storetest.Create(t, store, newHost("worker-0"))
		record(t, store, "worker-0", func(s *metal3.BareMetalHostStatus) { s.PoweredOn = true })
		if !get(t, hosts, "worker-0").Status.PoweredOn {
			t.Error("get: not what was recorded")
		}
		if got := list(t, hosts, &metainternalversion.ListOptions{}).Items; len(got) != 1 || !got[0].Status.PoweredOn {
			t.Errorf("list: got %v", got)
		}
		if host := hostIn(storetest.NextEvent(t, openWatch(t, hosts, &metainternalversion.ListOptions{}))); !host.Status.PoweredOn {
			t.Error("watch: not what was recorded")
		}
	})
}
