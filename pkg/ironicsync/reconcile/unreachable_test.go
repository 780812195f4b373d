// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

// TestUnreachableWithManyHosts: with ten thousand hosts and an etcd that takes 100 ms for
// a write, all hosts say within a few calls that Ironic is away, and each is written once.
func TestUnreachableWithManyHosts(t *testing.T) {
	const hosts, maxCalls = 10000, 3
	synctest.Test(t, func(t *testing.T) {
		store := enginetest.NewHosts()
		for i := range hosts {
			host := newHost()
			host.Name = enginetest.HostName(i)
			store.Add(host)
		}
		store.BeforeRecord = func(*metal3.BareMetalHost) { time.Sleep(100 * time.Millisecond) }
		p := &poller{hosts: store, clock: clock.RealClock{}}
		calls := 1
		for ; !p.reportUnreachable(t.Context(), &ironic.UnavailableError{Reason: "connection refused"}, time.Now()); calls++ {
			if calls == maxCalls {
				t.Fatalf("not complete after %d calls", calls)
			}
		}
		if store.Records != hosts {
			t.Errorf("%d writes of %d hosts", store.Records, hosts)
		}
		list, err := store.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			if !meta.IsStatusConditionFalse(list.Items[i].Status.Conditions, metal3.IronicReachableCondition) {
				t.Fatalf("%s does not say that Ironic is away", list.Items[i].Name)
			}
		}
		t.Logf("complete after %d calls", calls)
	})
}

// TestUnreachableForOthers: an Ironic that is away is nothing to a host that has no node there.
func TestUnreachableForOthers(t *testing.T) {
	store := enginetest.NewHosts()
	for i, change := range []func(*metal3.BareMetalHost){
		func(h *metal3.BareMetalHost) { h.Status.Provisioning.ID = "" },
		func(h *metal3.BareMetalHost) { h.Status.Record.Ironic = "room-b" },
		func(h *metal3.BareMetalHost) { h.Status.OperationalStatus = metal3.OperationalStatusDetached },
	} {
		host := newHost(change)
		host.Name = enginetest.HostName(i)
		store.Add(host)
	}
	p := &poller{hosts: store, clock: clock.RealClock{}}
	refused := &ironic.UnavailableError{Reason: "connection refused"}
	if !p.reportUnreachable(t.Context(), refused, time.Now()) || store.Records != 0 {
		t.Errorf("%d hosts say that it is away", store.Records)
	}
}

// TestRefused checks that hosts soon say so if Ironic or Keystone answers, and refuses the server.
func TestRefused(t *testing.T) {
	forbidden := `{"error_message": "{\"faultstring\": \"Access was denied to the following resource: baremetal:node:list\"}"}`
	for _, test := range []struct {
		err   error
		grace time.Duration
		words string
	}{
		{&ironic.UnavailableError{Reason: "connection refused", Class: "refused"}, unreachableGrace, "Ironic has not answered since 2026-11-22T16:31:32Z: connection refused"},
		{ironic.NewAPIError(t.Context(), "list nodes", 500, nil, nil), unreachableGrace, "Ironic has not answered since 2026-11-22T16:31:32Z: HTTP 500"},
		{ironic.NewAPIError(t.Context(), "list nodes", 403, []byte("<html>a proxy</html>"), nil), unreachableGrace, "Ironic has not answered since 2026-11-22T16:31:32Z: HTTP 403"},
		{ironic.NewAPIError(t.Context(), "list nodes", 403, []byte(forbidden), nil), refusedGrace, "Ironic has refused the server since 2026-11-22T16:31:32Z: not permitted by Ironic's policy (HTTP 403): Access was denied to the following resource: baremetal:node:list"},
		{ironic.NewAPIError(t.Context(), "list nodes", 401, []byte(`{"error":{"message":"Incorrect username or password","code":401}}`), nil), refusedGrace, "credentials refused (HTTP 401)"},
		{&ironic.UnavailableError{Reason: "Keystone answered HTTP 401: no", Class: ironic.ClassAuth}, refusedGrace, "Ironic has refused the server since 2026-11-22T16:31:32Z: Keystone answered HTTP 401: no"},
	} {
		if got := graceOf(test.err); got != test.grace {
			t.Errorf("%v: grace %s, want %s", test.err, got, test.grace)
		}
		store := enginetest.NewHosts()
		store.Add(newHost())
		p := &poller{hosts: store, clock: clock.RealClock{}}
		if !p.reportUnreachable(t.Context(), test.err, time.Date(2026, 11, 22, 16, 31, 32, 0, time.UTC)) {
			t.Fatal("not complete")
		}
		list, err := store.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		c := meta.FindStatusCondition(list.Items[0].Status.Conditions, metal3.IronicReachableCondition)
		if c == nil || !strings.Contains(c.Message, test.words) {
			t.Errorf("%v: the condition is %+v, want %q", test.err, c, test.words)
		}
	}
}

// polled is an Ironic that does not answer polls, and was last observed by whoever else.
type polled struct {
	err  error
	last time.Time
}

func (p *polled) Poll(context.Context) error { return p.err }
func (p *polled) LastObserved() time.Time    { return p.last }

// TestSlowIsNotUnreachable: an Ironic that answers others too late for the polls beside them is not taken for one that does not answer. One
// that refuses the server, or has gone, is noticed at the first poll.
func TestSlowIsNotUnreachable(t *testing.T) {
	for name, test := range map[string]struct {
		err error
		// ago is how long ago somebody has observed it, and downFor for how long it has been taken for down.
		ago, downFor time.Duration
		down         bool
	}{
		"slow":             {&ironic.UnavailableError{Class: ironic.ClassTimeout}, 12 * time.Second, 0, false},
		"asked less":       {&ironic.UnavailableError{Class: ironic.ClassBusy}, 12 * time.Second, 0, false},
		"silent":           {&ironic.UnavailableError{Class: ironic.ClassTimeout}, 16 * time.Second, 0, true},
		"gone":             {&ironic.UnavailableError{Class: "refused"}, time.Second, 0, true},
		"refuses us":       {ironic.NewAPIError(t.Context(), "list nodes", 401, nil, nil), time.Second, 0, true},
		"never there":      {&ironic.UnavailableError{Class: ironic.ClassTimeout}, 1000 * time.Hour, 0, true},
		"slow after down":  {&ironic.UnavailableError{Class: ironic.ClassTimeout}, 5 * time.Second, time.Minute, false},
		"down since then":  {&ironic.UnavailableError{Class: ironic.ClassTimeout}, 5 * time.Second, 2 * time.Second, true},
		"gone again":       {&ironic.UnavailableError{Class: "refused"}, 5 * time.Second, time.Minute, true},
		"down as it seems": {&ironic.UnavailableError{Class: ironic.ClassTimeout}, time.Hour, time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hosts := enginetest.NewHosts()
				hosts.Add(newHost())
				queue := newQueue(clock.RealClock{})
				defer queue.ShutDown()
				gates := newGates("", newIndex(watchedHosts{}, Settings{}), queue, 20, clock.RealClock{})
				p := &poller{hosts: hosts, clock: clock.RealClock{}, gates: gates, nodes: &polled{test.err, time.Now().Add(-test.ago)}}
				p.queue, p.watcher = queue, &watcher{queue: queue, hosts: gates.hosts}
				if test.downFor > 0 {
					p.downSince = time.Now().Add(-test.downFor)
					p.down.Store(true)
				}
				p.poll(t.Context())
				if p.down.Load() != test.down {
					t.Errorf("taken for down: %t", !test.down)
				}
			})
		})
	}
}

// TestRefusedAfterSilence: hosts that say that Ironic does not answer say so if it refuses the server then, and since when it does;
// and they are not written again and again while it does both by turns.
func TestRefusedAfterSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := enginetest.NewHosts()
		store.Add(newHost())
		began := time.Now()
		p := &poller{hosts: store, clock: clock.RealClock{}, downSince: began}
		silent, refused := &ironic.UnavailableError{Reason: "no answer within 6s"}, ironic.NewAPIError(t.Context(), "list nodes", 401, []byte(`{"error":{"message":"Incorrect username or password","code":401}}`), nil)
		says := func(cause error, want string) {
			t.Helper()
			p.report(t.Context(), cause)
			list, err := store.List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			c := meta.FindStatusCondition(list.Items[0].Status.Conditions, metal3.IronicReachableCondition)
			message := ""
			if c != nil && c.Status == metav1.ConditionFalse {
				message = c.Message
			}
			if !strings.Contains(message, want) || want == "" && message != "" {
				t.Errorf("after %s: %q, want %q", time.Since(began), message, want)
			}
		}
		says(silent, "")
		time.Sleep(unreachableGrace + time.Second)
		says(silent, "Ironic has not answered since "+began.UTC().Format(time.RFC3339))
		time.Sleep(time.Hour)
		refusedSince := "Ironic has refused the server since " + time.Now().UTC().Format(time.RFC3339)
		says(refused, "Ironic has not answered") // it may be for a moment only
		time.Sleep(refusedGrace + time.Second)
		for range 3 {
			says(refused, refusedSince)
			says(silent, refusedSince)
		}
		if store.Records != 2 {
			t.Errorf("%d writes, want 2", store.Records)
		}
	})
}

// TestUnread: a host says after a while that its status is no longer live, if Ironic answers and does not show its node; no other host
// says so.
func TestUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := enginetest.NewHosts()
		var keys []types.NamespacedName
		for i := range 3 {
			host := newHost()
			host.Name = enginetest.HostName(i)
			store.Add(host)
			keys = append(keys, keyOf(host))
		}
		p := &poller{hosts: store, clock: clock.RealClock{}}
		says := func(when string, i int, want string) {
			t.Helper()
			message := ""
			if c := meta.FindStatusCondition(store.Host(t, enginetest.HostName(i)).Status.Conditions, metal3.IronicReachableCondition); c != nil && c.Status == metav1.ConditionFalse {
				message = c.Message
			}
			if message != want {
				t.Errorf("%s, host %d says %q, want %q", when, i, message, want)
			}
		}
		began := time.Now()
		failed := map[types.NamespacedName]error{
			keys[0]: ironic.NewAPIError(t.Context(), "get node", 500, nil, nil), keys[1]: errors.New("etcdserver: request is too large"),
		}
		p.reportUnread(t.Context(), failed)
		says("at first", 0, "")
		time.Sleep(unreachableGrace + time.Second)
		for range 3 {
			p.reportUnread(t.Context(), failed)
		}
		says("later", 0, "Ironic answers, but has failed to show the node of this host since "+began.UTC().Format(time.RFC3339)+": HTTP 500")
		says("later", 1, "") // which is not Ironic's fault
		says("later", 2, "")
		if store.Records != 1 {
			t.Errorf("%d writes, want 1", store.Records)
		}
		again := map[types.NamespacedName]error{keys[2]: ironic.NewAPIError(t.Context(), "get node", 500, nil, nil)}
		for _, failed := range []map[types.NamespacedName]error{again, nil, again} { // in between, it was read
			p.reportUnread(t.Context(), failed)
			says("for a moment", 2, "")
			time.Sleep(unreachableGrace - time.Second)
		}
	})
}
