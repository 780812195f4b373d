// SPDX-License-Identifier: Apache-2.0

package live_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

func (b *bench) list(t *testing.T) {
	t.Helper()
	if err := b.RefreshAll(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestListGoesByTheFeed: after the first list, each shows what has changed in Ironic
// before it at the price of asking for what has changed, whatever the clocks say.
func TestListGoesByTheFeed(t *testing.T) {
	const hosts, rounds = 20, 200
	for name, test := range map[string]struct {
		clock time.Duration
		lag   time.Duration // of the conductor of every other node
	}{
		"one clock":                           {},
		"Ironic ten minutes ahead":            {clock: 10 * time.Minute},
		"Ironic ten minutes behind":           {clock: -10 * time.Minute},
		"one conductor a second behind":       {lag: time.Second},
		"one conductor a second ahead":        {lag: -time.Second},
		"one conductor some minutes ahead":    {lag: -5 * time.Minute},
		"behind, and a conductor behind that": {clock: -10 * time.Minute, lag: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, hosts, func(t *testing.T, b *bench) {
				b.nodes.Change(func() {
					b.nodes.Clock, b.nodes.Lag = test.clock, map[string]time.Duration{}
					for i := 0; i < hosts; i += 2 {
						b.nodes.Lag[enginetest.NodeID(i)] = test.lag
					}
				})
				for i := range hosts {
					b.nodes.Say(enginetest.NodeID(i), "begin")
				}
				b.list(t)
				for round := range rounds {
					first, second := round%hosts, (round*7+3)%hosts
					text := fmt.Sprintf("round %d", round)
					b.nodes.Say(enginetest.NodeID(first), text)
					b.nodes.Say(enginetest.NodeID(second), text)
					b.list(t)
					for _, i := range []int{first, second} {
						if got := b.shown(t, i); got != text {
							t.Fatalf("in %s, host %d shows %q", text, i, got)
						}
					}
					time.Sleep(time.Duration(round%7) * 300 * time.Millisecond)
				}
				gets, lists := b.nodes.Asked()
				t.Logf("%d lists: all nodes were read %d times, single ones %d times, the feed %d times", rounds+1, lists, gets, b.nodes.Feeds())
				if gets > 2*lists || lists > 9 { // single ones where a sweep records the same two hosts at the same time
					t.Errorf("%d lists within 3 minutes read all nodes %d times and single ones %d times", rounds+1, lists, gets)
				}
			})
		})
	}
}

// TestNodeFromTheFuture: one node whose updated_at is an hour ahead hides no change of
// another one.
func TestNodeFromTheFuture(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, b *bench) {
		b.nodes.Change(func() { b.nodes.Lag = map[string]time.Duration{enginetest.NodeID(0): -time.Hour} })
		b.list(t)
		b.nodes.Say(enginetest.NodeID(0), "from the future")
		for round := range 20 {
			b.list(t)
			text := fmt.Sprintf("round %d", round)
			b.nodes.Say(enginetest.NodeID(1), text)
			b.list(t)
			if got := b.shown(t, 1); got != text {
				t.Fatalf("in %s, host 1 shows %q", text, got)
			}
			time.Sleep(time.Second)
		}
		if got := b.shown(t, 0); got != "from the future" {
			t.Errorf("host 0 shows %q", got)
		}
	})
}

// TestClockPutRight: the updated_at of a node goes back when the clock of its conductor is
// put right, and its changes show all the same.
func TestClockPutRight(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, time.Second} {
		inBubble(t, 2, func(t *testing.T, b *bench) {
			b.nodes.Change(func() { b.nodes.Lag = map[string]time.Duration{enginetest.NodeID(0): -ahead} })
			b.nodes.Say(enginetest.NodeID(0), "ahead")
			b.list(t)
			b.nodes.Say(enginetest.NodeID(0), "ahead still")
			b.list(t)
			b.nodes.Change(func() { b.nodes.Lag = nil })
			for round := range 10 {
				text := fmt.Sprintf("right again, round %d", round)
				b.nodes.Say(enginetest.NodeID(0), text)
				b.list(t)
				if got := b.shown(t, 0); got != text {
					t.Fatalf("%s ahead: in %q the host shows %q", ahead, text, got)
				}
				time.Sleep(700 * time.Millisecond)
			}
		})
	}
}

// TestClockSetBack: all of Ironic's clocks are set back, and what changes then is older than what was read last.
func TestClockSetBack(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, 20 * time.Second} {
		inBubble(t, 2, func(t *testing.T, b *bench) {
			b.nodes.Change(func() { b.nodes.Clock = by })
			b.nodes.Say(enginetest.NodeID(0), "before")
			b.list(t)
			b.nodes.Change(func() { b.nodes.Clock = 0 })
			for round := range 20 {
				text := fmt.Sprintf("set back, round %d", round)
				b.nodes.Say(enginetest.NodeID(round%2), text)
				b.list(t)
				if got := b.shown(t, round%2); got != text {
					t.Fatalf("%s back: in %q the host shows %q", by, text, got)
				}
				time.Sleep(700 * time.Millisecond)
			}
			if _, sweeps := b.nodes.Asked(); sweeps > 4 {
				t.Errorf("%d sweeps", sweeps)
			}
		})
	}
}

// TestFeedIsChecked: what a conductor does whose clock lags by five seconds is not in
// the part of the feed that is read. The next sweep finds it, which is counted, and the
// feed is read further back from then on.
func TestFeedIsChecked(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, b *bench) {
		b.nodes.Change(func() { b.nodes.Lag = map[string]time.Duration{enginetest.NodeID(0): 5 * time.Second} })
		b.list(t)
		missed := feedMisses(t)
		change := func(text string) {
			b.nodes.Say(enginetest.NodeID(1), text) // by the other conductor
			b.list(t)
			b.nodes.Say(enginetest.NodeID(0), text)
			b.list(t)
		}
		change("first")
		if got := b.shown(t, 0); got == "first" {
			t.Fatal("the feed has shown what it should not have, so the test tells nothing")
		}
		time.Sleep(30 * time.Second)
		b.list(t)
		if got := b.shown(t, 0); got != "first" {
			t.Errorf("after a sweep the host shows %q", got)
		}
		if n := feedMisses(t) - missed; n != 1 {
			t.Errorf("%v changes are said to be missed, want 1", n)
		}
		for _, text := range []string{"second", "third"} {
			change(text)
			if got := b.shown(t, 0); got != text {
				t.Errorf("the host shows %q, want %q", got, text)
			}
			time.Sleep(time.Minute)
		}
		if n := feedMisses(t) - missed; n != 1 {
			t.Errorf("%v changes are said to be missed although lists showed all but the first", n)
		}
	})
}

// TestDeletedNodeInAList shows within 30 s, without a list that waits for all nodes.
func TestDeletedNodeInAList(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, b *bench) {
		b.nodes.Bulk = func() time.Duration { return time.Second }
		b.list(t)
		b.nodes.Change(func() { delete(b.nodes.ByID, enginetest.NodeID(1)) })
		began := time.Now()
		for b.hosts.Host(t, enginetest.HostName(1)).Status.Ironic != nil {
			if time.Since(began) > 30*time.Second {
				t.Fatal("the host still shows its node")
			}
			asked := time.Now()
			b.list(t)
			if took := time.Since(asked); took > 100*time.Millisecond {
				t.Errorf("a list took %s", took)
			}
			time.Sleep(time.Second)
		}
	})
}

// TestOvertakenSweep: a read of all nodes that another one has overtaken does not say that lists are live before what the
// other one has read is recorded.
func TestOvertakenSweep(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, b *bench) {
		takes := make(chan time.Duration, 2)
		takes <- 2300 * time.Millisecond
		takes <- 10 * time.Millisecond
		b.nodes.Bulk = func() time.Duration { return <-takes }
		b.hosts.BeforeRecord = func(*metal3.BareMetalHost) { time.Sleep(time.Second) }
		b.nodes.Say(enginetest.NodeID(0), "before the list")
		var readers sync.WaitGroup
		defer readers.Wait()
		read := func() {
			if err := b.RefreshAll(t.Context()); err == nil && b.shown(t, 0) != "before the list" {
				t.Errorf("a list is live and shows %q", b.shown(t, 0))
			}
		}
		readers.Go(read)
		time.Sleep(2050 * time.Millisecond)
		readers.Go(read)
	})
}

// TestSlowSweep: all nodes take longer to read than a reader waits, and somebody lists
// every two seconds. The read of all nodes is finished, and lists are live from then on.
func TestSlowSweep(t *testing.T) {
	for _, takes := range []time.Duration{5 * time.Second, 20 * time.Second} {
		t.Run(takes.String(), func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, b *bench) {
				b.nodes.Bulk = func() time.Duration { return takes }
				stale, began := 0, time.Now()
				for n := 0; time.Since(began) < 5*time.Minute; n++ {
					text := fmt.Sprint(n)
					b.nodes.Say(enginetest.NodeID(n%3), text)
					switch err := b.RefreshAll(t.Context()); {
					case err == nil && b.shown(t, n%3) != text:
						t.Fatalf("a list shows %q, want %q", b.shown(t, n%3), text)
					case err != nil && time.Since(began) > takes+5*time.Second:
						t.Fatalf("after %s: %v", time.Since(began), err)
					case err != nil:
						stale++
					}
					time.Sleep(2 * time.Second)
				}
				if stale == 0 {
					t.Error("no list was stale, so the test tells nothing")
				}
			})
		})
	}
}

// TestManyChanges: more has changed than the feed shows at once.
func TestManyChanges(t *testing.T) {
	const hosts = 50
	inBubble(t, hosts, func(t *testing.T, b *bench) {
		deps := b.deps(enginetest.ReaderWait)
		deps.Nodes = truncatingNodes{b.nodes, 20}
		b.Refresher = live.NewRefresher(t.Context(), deps)
		b.list(t)
		for round := range 20 {
			text := fmt.Sprintf("round %d", round)
			for i := range hosts {
				b.nodes.Say(enginetest.NodeID(i), text)
			}
			b.list(t)
			for i := range hosts {
				if got := b.shown(t, i); got != text {
					t.Fatalf("in %s, host %d shows %q", text, i, got)
				}
			}
			time.Sleep(500 * time.Millisecond)
		}
	})
}

type truncatingNodes struct {
	*enginetest.Nodes
	limit int
}

func (n truncatingNodes) ChangedSince(ctx context.Context, since time.Time, expected int) (*ironic.Changes, error) {
	changes, err := n.Nodes.ChangedSince(ctx, since, expected)
	if err == nil && len(changes.Nodes) > n.limit {
		changes.Nodes, changes.Truncated = changes.Nodes[:n.limit], true
	}
	return changes, err
}

// unrecordable are hosts of which etcd does not take some.
type unrecordable struct {
	*enginetest.Hosts
	refuses func(*metal3.BareMetalHost) error
}

func (u unrecordable) Record(ctx context.Context, host *metal3.BareMetalHost) (*metal3.BareMetalHost, error) {
	if err := u.refuses(host); err != nil {
		return nil, err
	}
	return u.Hosts.Record(ctx, host)
}

// TestOneBadHost: nothing about one host makes the read of another one stale.
func TestOneBadHost(t *testing.T) {
	tooLarge := errors.New("etcdserver: request is too large")
	for name, test := range map[string]struct {
		inventory string
		refuses   func(*metal3.BareMetalHost) error
		// partial is set when the status of the bad host cannot be live.
		partial bool
		// problem is what the bad host says in its condition.
		problem string
	}{
		"frequency NaN":         {inventory: `{"cpu": {"frequency": "NaN"}, "memory": {"physical_mb": 4096}}`, problem: `inventory.cpu.frequency is "NaN"`},
		"frequency Infinity":    {inventory: `{"cpu": {"frequency": "Infinity"}}`, problem: `inventory.cpu.frequency is "Infinity"`},
		"an inventory of 2 MiB": {inventory: `{"hostname": "` + strings.Repeat("x", 2<<20) + `"}`, problem: "larger"},
		"not what Ironic sends": {inventory: `{"memory": "much"}`, problem: `inventory.memory is "much"`},
		"etcd does not take it": {inventory: fourGigabytes, refuses: func(h *metal3.BareMetalHost) error { return refuseIf(h.Status.HardwareDetails != nil, tooLarge) }, problem: "too large"},
		"a bug that it meets":   {refuses: func(h *metal3.BareMetalHost) error { panicIf(h.Name == enginetest.HostName(0)); return nil }, partial: true},
		"etcd takes none of it": {refuses: func(h *metal3.BareMetalHost) error { return refuseIf(h.Name == enginetest.HostName(0), tooLarge) }, partial: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, b *bench) {
				if test.refuses != nil {
					deps := b.deps(enginetest.ReaderWait)
					deps.Hosts = unrecordable{b.hosts, test.refuses}
					b.Refresher = live.NewRefresher(t.Context(), deps)
				}
				if test.inventory != "" {
					b.inspected(0, time.Now())
					b.inventory(test.inventory)
				}
				for round := range 40 {
					text := fmt.Sprintf("round %d", round)
					for i := range 3 {
						b.nodes.Say(enginetest.NodeID(i), text)
					}
					err := b.RefreshAll(t.Context())
					partial := new(live.PartialError)
					switch {
					case err == nil && !test.partial:
					case test.partial && errors.As(err, &partial) && len(partial.Hosts) == 1 && partial.Hosts[types.NamespacedName{Namespace: enginetest.Namespace, Name: enginetest.HostName(0)}] != nil:
					default:
						t.Fatalf("in %s: %v", text, err)
					}
					for i := range 3 {
						if got := b.shown(t, i); got != text && !(test.partial && i == 0) {
							t.Fatalf("in %s, host %d shows %q", text, i, got)
						}
						if err := b.RefreshHost(t.Context(), enginetest.Namespace, enginetest.HostName(i)); (err != nil) != (test.partial && i == 0) {
							t.Fatalf("host %d read alone: %v", i, err)
						}
					}
					time.Sleep(time.Second)
				}
				_, lists := b.nodes.Asked()
				if lists > 3 {
					t.Errorf("all nodes were read %d times in 40 s", lists)
				}
				said := ""
				for _, c := range b.hosts.Host(t, enginetest.HostName(0)).Status.Conditions {
					if c.Type == metal3.InventoryReadCondition {
						said = c.Message
					}
				}
				if (said != "") != (test.problem != "") || !strings.Contains(said, test.problem) {
					t.Errorf("the host says %q of its inventory, want %q", said, test.problem)
				}
			})
		})
	}
}

// TestOneBadHostAtRest: the same, if nothing changes between two lists, so that the feed shows no node.
func TestOneBadHostAtRest(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, b *bench) {
		bad := types.NamespacedName{Namespace: enginetest.Namespace, Name: enginetest.HostName(0)}
		meetsBug := true
		deps := b.deps(enginetest.ReaderWait)
		deps.Hosts = unrecordable{b.hosts, func(h *metal3.BareMetalHost) error { panicIf(meetsBug && h.Name == bad.Name); return nil }}
		atRest := false
		deps.Cluster = func() string { panicIf(meetsBug && atRest); return "" } // asked for what is due, which is one host then
		b.Refresher = live.NewRefresher(t.Context(), deps)
		time.Sleep(10 * time.Second)            // more than the feed is read back,
		b.nodes.Say(enginetest.NodeID(1), "up") // which always shows the newest node
		for round := range 5 {
			partial := new(live.PartialError)
			if err := b.RefreshAll(t.Context()); !errors.As(err, &partial) || len(partial.Hosts) != 1 || partial.Hosts[bad] == nil {
				t.Fatalf("list %d: %v", round, err)
			}
			atRest = true
			time.Sleep(10 * time.Second)
		}
		meetsBug = false
		b.list(t)
		if got := b.shown(t, 0); got != "nothing yet" {
			t.Errorf("the host shows %q", got)
		}
	})
}

func panicIf(is bool) {
	if is {
		panic("index out of range")
	}
}

func refuseIf(refuse bool, err error) error {
	if refuse {
		return err
	}
	return nil
}

// TestUnfinishedObservation: where more has changed than can be recorded in the time that a reader
// waits, the next observation goes on with the rest, and reads no node again for that.
func TestUnfinishedObservation(t *testing.T) {
	const hosts = 100
	inBubble(t, hosts, func(t *testing.T, b *bench) {
		if err := b.RefreshAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		for i := range hosts {
			b.nodes.Say(enginetest.NodeID(i), "changed")
			time.Sleep(time.Millisecond) // each has an updated_at of its own
		}
		b.hosts.BeforeRecord = func(*metal3.BareMetalHost) { time.Sleep(300 * time.Millisecond) }
		gets, lists := b.nodes.Asked()
		if err := b.RefreshAll(t.Context()); err == nil {
			t.Fatal("all was recorded in time: the test shows nothing")
		}
		time.Sleep(5 * time.Second) // more than the feed is read back
		for round := 0; b.RefreshAll(t.Context()) != nil; round++ {
			if round == 3 {
				t.Fatal("the rest is not recorded")
			}
		}
		for i := range hosts {
			if got := b.shown(t, i); got != "changed" {
				t.Errorf("host %d shows %q", i, got)
			}
		}
		if g, l := b.nodes.Asked(); g != gets || l != lists {
			t.Errorf("%d nodes were read one by one, and all nodes %d times", g-gets, l-lists)
		}
	})
}

// TestUnreadableNode: a node that Ironic cannot show costs its host the live status, and no other. It is not taken for lost.
func TestUnreadableNode(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, b *bench) {
		first := types.NamespacedName{Namespace: enginetest.Namespace, Name: enginetest.HostName(0)}
		b.list(t)
		for round := range 90 {
			text := fmt.Sprintf("round %d", round)
			unreadable := round >= 10 && round < 80
			b.nodes.Change(func() { b.nodes.Unreadable = map[string]bool{enginetest.NodeID(0): unreadable} })
			for i := range 3 {
				b.nodes.Say(enginetest.NodeID(i), text)
			}
			err := b.RefreshAll(t.Context())
			if partial := new(live.PartialError); unreadable && (!errors.As(err, &partial) || len(partial.Hosts) != 1 || !live.IsFromIronic(partial.Hosts[first]) || !strings.Contains(err.Error(), "HTTP 500")) || !unreadable && err != nil {
				t.Fatalf("in %s: %v", text, err)
			}
			for i := range 3 {
				want := text
				if i == 0 && unreadable {
					want = "round 9"
				}
				if got := b.shown(t, i); got != want {
					t.Fatalf("in %s, host %d shows %q", text, i, got)
				}
				err := b.RefreshHost(t.Context(), enginetest.Namespace, enginetest.HostName(i))
				if (err != nil) != (unreadable && i == 0) {
					t.Fatalf("host %d read alone: %v", i, err)
				}
				if stale := new(live.StaleError); errors.As(err, &stale) && time.Since(stale.Observed) < time.Duration(round-9)*time.Second {
					t.Fatalf("in %s, host %d is said to have been seen %s ago", text, i, time.Since(stale.Observed))
				}
			}
			time.Sleep(time.Second)
		}
		if _, lists := b.nodes.Asked(); lists > 6 {
			t.Errorf("all nodes were read %d times in 90 s", lists)
		}
		time.Sleep(time.Minute)
		b.list(t)
		if got := unreadableNodes(t); got != 0 {
			t.Errorf("%v nodes are said to be unreadable, after all were read", got)
		}
	})
}

// TestWhatFails: if Ironic fails to show a node, it is told whether it shows the others, as far as that is known.
func TestWhatFails(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, b *bench) {
		b.nodes.Change(func() { b.nodes.Unreadable = map[string]bool{enginetest.NodeID(0): true} })
		says := func(when, want string) {
			t.Helper()
			stale := new(live.StaleError)
			if err := b.RefreshHost(t.Context(), enginetest.Namespace, enginetest.HostName(0)); !errors.As(err, &stale) {
				t.Fatalf("%s: %v", when, err)
			}
			if s := stale.Silence(); s.ConditionReason() != want || s.Reason == "" || !s.Since.Time.Equal(stale.Observed) {
				t.Errorf("%s: %+v, want %s", when, s, want)
			}
		}
		says("before anything was read", metal3.UnreachableReason)
		b.nodes.Change(func() { b.nodes.Unreadable = nil })
		b.list(t)
		b.nodes.Change(func() { b.nodes.Unreadable = map[string]bool{enginetest.NodeID(0): true} })
		time.Sleep(time.Second)
		says("a moment after all were read", metal3.NodeUnreadableReason)
		time.Sleep(time.Minute)
		says("long after that", metal3.UnreachableReason)
		if err := b.RefreshAll(t.Context()); err == nil {
			t.Error("a list says nothing")
		}
		says("once all others were read", metal3.NodeUnreadableReason)
		b.nodes.Change(func() { b.nodes.Err = &ironic.UnavailableError{Op: "get", Reason: "connection refused"} })
		says("when Ironic is away", metal3.UnreachableReason)
		b.nodes.Change(func() { b.nodes.Err = &ironic.APIError{Status: 401, Op: "get"} })
		says("when it refuses the server", metal3.RefusedReason)
	})
}

// TestUnreadableFromTheStart: the same, if the node never was read.
func TestUnreadableFromTheStart(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, b *bench) {
		b.nodes.Change(func() { b.nodes.Unreadable = map[string]bool{enginetest.NodeID(0): true} })
		partial := new(live.PartialError)
		if err := b.RefreshAll(t.Context()); !errors.As(err, &partial) || len(partial.Hosts) != 1 {
			t.Errorf("the first list: %v", err)
		}
		if got := unreadableNodes(t); got != 1 {
			t.Errorf("%v nodes are said to be unreadable, want 1", got)
		}
		if host := b.hosts.Host(t, enginetest.HostName(0)); host.Status.Provisioning.ID != enginetest.NodeID(0) || host.Status.Record.Observed {
			t.Errorf("the host is said to have been observed: %+v", host.Status)
		}
	})
}
