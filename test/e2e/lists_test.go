// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// listRounds is 500 in make soak. There is everything that changes nodes within 100 rounds.
var listRounds = flag.Int("list-rounds", 100, "how often nodes are changed past our server with a LIST after each change")

// listed are nodes that are changed past our server, and the paused hosts that show them.
type listed struct {
	t     *testing.T
	ctx   context.Context
	ns    string
	names []string          // of the hosts
	id    map[string]string // of the node of each
	want  map[string]*metal3.IronicStatus
	done  map[string]int // changes so far
	next  int            // the host whose node is changed next
	round int
}

// listedNodes are more than one page of the newest that our server asks for.
const listedNodes = 24

func newListed(t *testing.T, ctx context.Context, ns string) *listed {
	t.Helper()
	return newListedBy(t, ctx, ns, func(int, string) {})
}

// newListedBy gives each node to a conductor before anything is done to it.
func newListedBy(t *testing.T, ctx context.Context, ns string, give func(i int, node string)) *listed {
	t.Helper()
	l := &listed{t: t, ctx: ctx, ns: ns, id: map[string]string{}, want: map[string]*metal3.IronicStatus{}, done: map[string]int{}}
	for i := range listedNodes {
		name := fmt.Sprintf("w-%02d", i)
		l.names, l.id[name] = append(l.names, name), observedHost(t, ctx, ns, name).Status.Provisioning.ID
		give(i, l.id[name])
	}
	for _, to := range []struct{ verb, state string }{{"manage", "manageable"}, {"provide", "available"}} {
		for _, id := range l.id {
			if err := bed(ctx).ironic.Operator().Provision(ctx, id, to.verb); err != nil {
				t.Fatal(err)
			}
		}
		for name, id := range l.id {
			shown := shownOf(waitNode(t, ctx, id, func(n testbed.Node) bool { return n.ProvisionState == to.state && n.Reservation == "" }))
			l.want[name] = &shown
		}
	}
	return l
}

// change changes the next node in one of several ways, and returns when Ironic says so.
func (l *listed) change() {
	l.t.Helper()
	name := l.names[l.next]
	l.next = (l.next + 7) % len(l.names) // all of them, and not in their order
	shown := changeNode(l.t, l.ctx, l.id[name], l.done[name])
	l.want[name] = &shown
	l.done[name]++
}

// changeTwo changes two nodes within the same second.
func (l *listed) changeTwo() {
	l.change()
	l.change()
}

// changeMany changes more nodes than a first look at the newest brings.
func (l *listed) changeMany() {
	for range listedNodes / 2 {
		l.change()
	}
}

// takeNameAway calls the next node like that of another host, to which it belongs then.
func (l *listed) takeNameAway() {
	l.rename("-of-another")
	l.want[l.names[l.next]] = nil
}

func (l *listed) giveNameBack() {
	l.rename("")
	name := l.names[l.next]
	shown := shownOf(waitNode(l.t, l.ctx, l.id[name], func(n testbed.Node) bool { return n.Reservation == "" }))
	l.want[name] = &shown
}

func (l *listed) rename(suffix string) {
	l.t.Helper()
	name := l.names[l.next]
	// With each PATCH Ironic 29.0.5 makes a node its own parent. It could not be switched
	// any more, unless it had a power supply of its own.
	err := bed(l.ctx).ironic.Operator().PatchNode(l.ctx, l.id[name], testbed.Patch{Op: "add", Path: "/name", Value: l.ns + "~" + name + suffix},
		testbed.Patch{Op: "add", Path: "/driver_info/has_dedicated_power_supply", Value: true})
	if err != nil {
		l.t.Fatal(err)
	}
}

// changeWhileListed changes a node after Ironic has read it from its database for one
// LIST and before that is answered: the LIST after it must not be served the same.
func (l *listed) changeWhileListed() {
	l.t.Helper()
	listed := make(chan error, 1)
	list := func() {
		_, err := bed(l.ctx).Hosts(l.ns).List(l.ctx, metav1.ListOptions{})
		listed <- err
	}
	if sim, ok := bed(l.ctx).ironic.(*simulated); ok {
		asked := sim.Stats().Total
		sim.SetFaults(ironicsim.Faults{LatencyPerNode: 200 * time.Millisecond / time.Duration(len(sim.NodeUUIDs()))})
		defer sim.SetFaults(ironicsim.Faults{})
		go list()
		testbed.EventuallyEvery(l.t, l.ctx, time.Millisecond, func() string {
			if sim.Stats().Total == asked {
				return "the LIST does not reach Ironic"
			}
			return ""
		})
	} else {
		go list()
	}
	l.change()
	l.list("changed while all were read")
	if err := <-listed; err != nil {
		l.t.Fatal(err)
	}
}

// shown is what a LIST says of the hosts' nodes.
func (l *listed) shown() map[string]*metal3.IronicStatus {
	l.t.Helper()
	options := []metav1.ListOptions{{}, {ResourceVersion: "0"}}[l.round%2]
	list, err := bed(l.ctx).Hosts(l.ns).List(l.ctx, options)
	if err != nil {
		l.t.Fatal(err)
	}
	shown := map[string]*metal3.IronicStatus{}
	for i := range list.Items {
		shown[list.Items[i].Name] = withoutParent(list.Items[i].Status.Ironic)
	}
	return shown
}

// list reads all hosts and compares them with what Ironic says.
func (l *listed) list(what string) {
	l.t.Helper()
	if diff := cmp.Diff(l.want, l.shown()); diff != "" {
		l.t.Fatalf("round %d, %s: LIST is not what Ironic says (-Ironic +LIST):\n%s", l.round, what, diff)
	}
}

// rounds changes nodes n times, in all ways, and lists at once after each.
func (l *listed) rounds(n int) {
	l.t.Helper()
	began := time.Now()
	for l.round = range n {
		switch {
		case l.round%100 == 99:
			l.changeMany()
			l.list("many nodes changed")
		case l.round%20 == 19:
			l.changeWhileListed()
		case l.round%10 == 4:
			l.changeTwo()
			l.list("two nodes changed in one second")
		case l.round%10 == 6:
			l.takeNameAway()
			l.list("name taken away")
		case l.round%10 == 7:
			l.giveNameBack()
			l.list("name given back")
		default:
			l.change()
			l.list("one node changed")
		}
	}
	l.t.Logf("%d changes, each shown by the LIST after it, in %s", n, time.Since(began).Round(100*time.Millisecond))
}

// TestListsShowEachChange changes nodes through Ironic's own API and lists the hosts at
// once: each LIST shows all of it.
func TestListsShowEachChange(t *testing.T) {
	ctx, ns := s.Begin(t)
	newListed(t, ctx, ns).rounds(*listRounds)
}

// TestListsWhateverTheClock is that with an Ironic whose clock is not our server's, or
// whose conductors do not agree.
func TestListsWhateverTheClock(t *testing.T) {
	for _, test := range []struct {
		name  string
		clock ironicsim.Clock
		// offsets are those of the conductors that have the nodes in turn.
		offsets []time.Duration
	}{
		{name: "IronicAhead", clock: ironicsim.Clock{Offset: 10 * time.Minute}},
		{name: "IronicBehind", clock: ironicsim.Clock{Offset: -10 * time.Minute}},
		// MariaDB cuts the fraction off, so that many changes have the same time. MySQL rounds: some are of the next second.
		{name: "WholeSeconds", clock: ironicsim.Clock{WholeSeconds: true}},
		{name: "RoundedSeconds", clock: ironicsim.Clock{WholeSeconds: true, Offset: 500 * time.Millisecond}},
		{name: "ConductorBehind", offsets: []time.Duration{0, -time.Second}},
		{name: "NodesOfTheFuture", offsets: []time.Duration{0, 0, 0, 0, 0, 0, 0, time.Hour}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ctx, ns := s.Begin(t)
			ctx, sim := onSimulatorOfItsOwn(t, ctx, ns, ironicsim.Options{})
			sim.SetClock(test.clock)
			l := newListedBy(t, ctx, ns, func(i int, node string) {
				if len(test.offsets) == 0 {
					return
				}
				if err := sim.SetNodeClock(node, test.offsets[i%len(test.offsets)]); err != nil {
					t.Fatal(err)
				}
			})
			l.rounds(*listRounds / 5)
		})
	}
}

// TestNodeDeletedPastUs: a node that somebody deleted in Ironic is gone from the next
// GET, and from lists within half a minute.
func TestNodeDeletedPastUs(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	l := newListed(t, ctx, ns)
	l.list("before")
	for _, name := range l.names[:2] {
		if err := bed(ctx).ironic.Operator().DeleteNode(ctx, l.id[name]); err != nil {
			t.Fatal(err)
		}
	}
	expectLost := func(host *metal3.BareMetalHost) string {
		c := meta.FindStatusCondition(host.Status.Conditions, metal3.RegisteredCondition)
		if host.Status.Ironic != nil || c == nil || c.Status != metav1.ConditionFalse || c.Reason != metal3.NodeLostReason {
			return fmt.Sprintf("host %s shows a node that is no more: %+v, %+v", host.Name, host.Status.Ironic, c)
		}
		return ""
	}
	if complaint := expectLost(bed(ctx).GetHost(t, ctx, ns, l.names[0])); complaint != "" {
		t.Error("GET: " + complaint)
	}
	testbed.EventuallyEvery(t, ctx, 250*time.Millisecond, func() string {
		list, err := bed(ctx).Hosts(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for i := range list.Items {
			if list.Items[i].Name == l.names[1] {
				return expectLost(&list.Items[i])
			}
		}
		return "host " + l.names[1] + " is not in the list"
	})
}
