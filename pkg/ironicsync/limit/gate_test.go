// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// fleet is what works on hosts, in place of Ironic.
type fleet struct {
	*Gate
	clock *clocktesting.FakePassiveClock
	// working are the hosts at work, by the order of their start.
	working []host
}

func newFleet(limit int) *fleet {
	f := &fleet{clock: clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}
	f.Gate = New(limit, func() map[string]int {
		busy := map[string]int{}
		for _, h := range f.working {
			busy[h.namespace]++
		}
		return busy
	})
	f.Gate.clock = f.clock
	return f
}

func (f *fleet) later(d time.Duration) { f.clock.SetTime(f.clock.Now().Add(d)) }

// begin has a host at work, as an informer shows it.
func (f *fleet) begin(h host) {
	f.working = append(f.working, h)
	f.Seen(h.namespace, h.name)
}

func (f *fleet) end(h host) {
	f.working = slices.DeleteFunc(f.working, func(w host) bool { return w == h })
}

func (f *fleet) expectTry(t *testing.T, want bool, hosts ...host) {
	t.Helper()
	for _, h := range hosts {
		if got := f.TryStart(h.namespace, h.name); got != want {
			t.Errorf("TryStart(%s/%s) is %v, want %v", h.namespace, h.name, got, want)
		}
	}
}

func (f *fleet) expectNext(t *testing.T, want ...host) {
	t.Helper()
	var got []string
	for {
		namespace, name, ok := f.NextReady()
		if !ok {
			break
		}
		got = append(got, namespace+"/"+name)
	}
	var names []string
	for _, h := range want {
		names = append(names, h.namespace+"/"+h.name)
	}
	if diff := cmp.Diff(names, got); diff != "" {
		t.Errorf("whose turn it is (-want +got):\n%s", diff)
	}
}

// many are hosts of a namespace.
func many(namespace string, n int) []host {
	var hosts []host
	for i := range n {
		hosts = append(hosts, host{namespace, fmt.Sprintf("host-%03d", i)})
	}
	return hosts
}

func TestWithoutLimit(t *testing.T) {
	f := newFleet(0)
	f.expectTry(t, true, many("a", 1000)...)
	f.expectNext(t)
}

func TestLimit(t *testing.T) {
	f := newFleet(2)
	a := many("a", 4)
	f.expectTry(t, true, a[0], a[1])
	f.expectTry(t, false, a[2], a[3])
	f.expectTry(t, true, a[0]) // it still may
	f.expectNext(t)

	f.begin(a[0])
	f.begin(a[1])
	f.expectTry(t, false, a[3], a[2]) // they keep their places
	f.expectNext(t)

	f.end(a[0])
	f.expectNext(t, a[2])
	f.expectTry(t, false, a[0], a[3]) // the room is kept
	f.expectTry(t, true, a[2])
}

func TestHostsThatOthersStartedCount(t *testing.T) {
	f := newFleet(1)
	f.begin(host{"a", "by-an-operator"})
	f.begin(host{"a", "by-another"}) // more than the limit
	f.expectTry(t, false, host{"b", "x"})
	f.end(host{"a", "by-another"})
	f.expectNext(t)
	f.end(host{"a", "by-an-operator"})
	f.expectNext(t, host{"b", "x"})
}

func TestNamespacesTakeTurns(t *testing.T) {
	f := newFleet(3)
	a, b, c := many("a", 6), many("b", 4), many("c", 1)
	for _, h := range a[:3] {
		f.expectTry(t, true, h)
		f.begin(h)
	}
	f.expectTry(t, false, a[3], a[4], b[0], b[1], c[0])

	f.end(a[0])
	f.expectTry(t, false, a[5]) // the room is another namespace's
	f.expectNext(t, b[0])
	f.end(a[1])
	f.expectNext(t, c[0])
	f.end(a[2]) // now nothing of a is running
	f.expectNext(t, a[3])
	for _, h := range []host{a[3], b[0], c[0]} {
		f.expectTry(t, true, h)
		f.begin(h)
	}
	f.end(b[0])
	f.end(c[0])
	f.expectNext(t, b[1], a[4])
}

// TestRoomForAll: who waits elsewhere is no reason to wait when there is room for
// both.
func TestRoomForAll(t *testing.T) {
	f := newFleet(2)
	a, b := many("a", 3), many("b", 1)
	f.begin(a[0])
	f.begin(a[1])
	f.expectTry(t, false, b[0])
	f.end(a[0])
	f.expectTry(t, false, a[2])
	f.end(a[1])
	f.expectTry(t, true, a[2])
	f.expectNext(t, b[0])
}

func TestGrantsEnd(t *testing.T) {
	f := newFleet(1)
	a := many("a", 3)
	f.expectTry(t, true, a[0])
	f.expectTry(t, false, a[1], a[2])

	f.later(grantTime - time.Second)
	f.expectTry(t, true, a[0]) // asking again does not prolong it
	f.expectNext(t)
	f.later(time.Second)
	f.expectNext(t, a[1])
	f.expectTry(t, false, a[0]) // behind the others now

	f.Forget("a", a[1].name) // gone
	f.expectNext(t, a[2])
	f.Forget("a", a[0].name)
	f.begin(a[2])
	f.end(a[2])
	f.expectNext(t)
}

// TestPlaceIsKept: a host that is planned so late that it may not start any more is the next one all the
// same. One that has tried to start, in vain, goes to the end.
func TestPlaceIsKept(t *testing.T) {
	hosts := []host{{"a", "0"}, {"a", "1"}, {"a", "2"}, {"a", "3"}}
	f := newFleet(1)
	f.expectTry(t, true, hosts[0])
	f.begin(hosts[0])
	f.expectTry(t, false, hosts[1:]...)
	f.end(hosts[0])
	f.expectNext(t, hosts[1])
	f.later(grantTime)
	f.expectNext(t, hosts[2])
	f.expectTry(t, false, hosts[1])
	f.later(grantTime)
	f.expectNext(t, hosts[1])
	f.expectTry(t, true, hosts[1])
	f.later(grantTime)
	f.expectTry(t, false, hosts[1])
	f.expectTry(t, true, hosts[2])
	f.begin(hosts[2])
	f.end(hosts[2])
	f.expectNext(t, hosts[3])
	f.begin(hosts[3])
	f.end(hosts[3])
	f.expectNext(t, hosts[1])
	f.Forget("a", "1")
	if len(f.grants)+len(f.lost)+len(f.places) != 0 {
		t.Errorf("remembered: %v, %v, %v", f.grants, f.lost, f.places)
	}
}

// TestPlaceIsKeptAmongNamespaces: the place that is kept counts among hosts of other namespaces, too.
func TestPlaceIsKeptAmongNamespaces(t *testing.T) {
	working, first, second := host{"c", "0"}, host{"b", "0"}, host{"a", "0"}
	f := newFleet(1)
	f.expectTry(t, true, working)
	f.begin(working)
	f.expectTry(t, false, first, second)
	f.end(working)
	f.expectNext(t, first)
	f.later(grantTime)
	f.expectNext(t, second)
	f.expectTry(t, false, first)
	f.later(grantTime)
	f.expectTry(t, false, second)
	f.expectTry(t, true, first)
}

// TestFairness: a few hosts of one namespace need not wait for a hundred of
// another, which are all started, too, and there are never too many at a time.
func TestFairness(t *testing.T) {
	const limit = 5
	f := newFleet(limit)
	var order []host
	start := func(h host) {
		f.expectTry(t, true, h)
		f.begin(h)
		order = append(order, h)
		if len(f.working) > limit {
			t.Fatalf("%d hosts at work", len(f.working))
		}
	}
	ask := func(hosts []host) {
		for _, h := range hosts {
			if !slices.Contains(order, h) && f.TryStart(h.namespace, h.name) {
				start(h)
			}
		}
	}
	all := append(many("a", 100), many("b", 2)...)
	ask(all)
	for len(f.working) > 0 {
		f.later(time.Minute)
		f.end(f.working[0])
		ask(all[90:95]) // planned anew meanwhile, for other reasons
		for {
			namespace, name, ok := f.NextReady()
			if !ok {
				break
			}
			start(host{namespace, name})
		}
	}
	want := slices.Concat(all[:5], all[100:], all[5:100])
	if diff := cmp.Diff(want, order, cmp.AllowUnexported(host{})); diff != "" {
		t.Errorf("order of starts (-want +got):\n%s", diff)
	}
}

func TestConcurrentUse(t *testing.T) {
	const limit = 5
	f := newFleet(limit)
	var mu sync.Mutex
	started := 0
	var all sync.WaitGroup
	for _, h := range append(many("a", 50), many("b", 50)...) {
		all.Go(func() {
			if f.TryStart(h.namespace, h.name) {
				mu.Lock()
				started++
				mu.Unlock()
			}
			f.NextReady()
		})
	}
	all.Wait()
	if started > limit || started == 0 {
		t.Errorf("%d hosts may start, want 1 to %d", started, limit)
	}
}

func TestCounts(t *testing.T) {
	for _, tt := range []struct {
		state ironic.ProvisionState
		boot  string
		want  bool
	}{
		{ironic.Cleaning, "ipxe", true},
		{ironic.CleanWait, "ipxe", true},
		{ironic.Inspecting, "pxe", true},
		{ironic.InspectWait, "pxe", true},
		{ironic.Deploying, "redfish-https", true},
		{ironic.DeployWait, "", true},
		{ironic.Deleting, "ipxe", true},
		{ironic.Verifying, "ipxe", false},
		{ironic.Manageable, "ipxe", false},
		{ironic.Available, "ipxe", false},
		{ironic.Active, "ipxe", false},
		{ironic.CleanFail, "ipxe", false},
		{ironic.Servicing, "ipxe", false},
		{ironic.Deploying, "redfish-virtual-media", false},
		{ironic.Cleaning, "idrac-redfish-virtual-media", false},
	} {
		if got := Counts(tt.state, tt.boot); got != tt.want {
			t.Errorf("Counts(%q, %q) is %v", tt.state, tt.boot, got)
		}
	}
}
