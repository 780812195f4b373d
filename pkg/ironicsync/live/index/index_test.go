// SPDX-License-Identifier: Apache-2.0

package index_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live/index"
)

// start is the beginning of the tests, by our clock and by Ironic's, which is ten minutes ahead.
var (
	start       = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ironicStart = start.Add(10 * time.Minute)
)

// at and ironicAt are so many seconds later.
func at(seconds float64) time.Time {
	return start.Add(time.Duration(seconds * float64(time.Second)))
}
func ironicAt(seconds float64) time.Time {
	return ironicStart.Add(time.Duration(seconds * float64(time.Second)))
}

// node is a node that was changed at a time of Ironic's, and says what it was changed to.
func node(id string, updated float64, text string) ironic.Node {
	t := ironicAt(updated)
	return ironic.Node{UUID: id, LastError: text, UpdatedAt: &t}
}

func withBMC(n ironic.Node, address string) ironic.Node {
	n.Address.IPMIAddress = ironic.Text(address)
	return n
}

func keyOf(address string) bmc.Key { return bmc.RegisteredKey("", "", address, "") }

// changes is a part of the feed that Ironic answers with at a time.
func changes(answered float64, nodes ...ironic.Node) *ironic.Changes {
	c := &ironic.Changes{Nodes: nodes, AnsweredAt: ironicAt(answered)}
	for _, n := range nodes {
		if n.UpdatedAt.After(c.Newest) {
			c.Newest = *n.UpdatedAt
		}
	}
	return c
}

func truncated(c *ironic.Changes) *ironic.Changes {
	c.Truncated = true
	return c
}

// hostOf is the host of a node.
func hostOf(id, resourceVersion string) *metal3.BareMetalHost {
	host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{UID: "host", ResourceVersion: resourceVersion}}
	host.Status.Provisioning.ID = id
	return host
}

// says is what the index knows of a node, or "none".
func says(x *index.Index, id string) string {
	if n, _ := x.NodeOf(hostOf(id, "1")); n != nil {
		return n.LastError
	}
	return "none"
}

// feed applies a read of the feed that takes no time.
func feed(x *index.Index, now float64, nodes ...ironic.Node) {
	x.ApplyChanges(x.BeginFeed(at(now)), changes(now, nodes...), at(now))
}

// sweep applies a sweep that takes no time.
func sweep(x *index.Index, now float64, nodes ...ironic.Node) (missed int) {
	missed, _ = x.ApplySweep(x.BeginSweep(at(now)), nodes, at(now))
	return missed
}

// swept is an index that has seen the given nodes in the feed and in a sweep, at the start.
func swept(nodes ...ironic.Node) *index.Index {
	x := index.New()
	feed(x, 0, nodes...)
	sweep(x, 0, nodes...)
	return x
}

// TestFeedOverlaps: the feed is read from a little before the newest change, less the longer that is known,
// and not from a time in Ironic's future.
func TestFeedOverlaps(t *testing.T) {
	for name, test := range map[string]struct {
		updated float64 // of the newest change, by Ironic's clock
		read    float64 // when the feed is read again
		since   float64
	}{
		"at once":                 {updated: 0, read: 0, since: -3},
		"two seconds later":       {updated: 0, read: 2, since: -1},
		"much later":              {updated: 0, read: 100, since: 0},
		"long ago":                {updated: -1000, read: 0, since: -1003},
		"ahead of Ironic's clock": {updated: 3600, read: 0, since: 1 - 3},
		"a second ahead, which the Date header cannot tell": {updated: 1, read: 0, since: 1 - 3},
	} {
		t.Run(name, func(t *testing.T) {
			x := swept(node("a", test.updated, "changed"))
			if got, want := x.BeginFeed(at(test.read)).Since, ironicAt(test.since); !got.Equal(want) {
				t.Errorf("the feed is read from %s, want %s", got, want)
			}
		})
	}
}

// TestLateChange: a change that only a sweep shows is counted, and widens the overlap up to a minute; what the
// feed has shown, and nodes whose contents are the same, are not counted.
func TestLateChange(t *testing.T) {
	x := swept(node("a", 0, "first"), node("b", 0, "first"))
	if missed := sweep(x, 10, node("a", 5, "first"), node("b", 0, "first")); missed != 0 || x.Overlap() != 3*time.Second {
		t.Errorf("%d changes are counted where none was, the overlap is %s", missed, x.Overlap())
	}
	s := x.BeginSweep(at(20))
	feed(x, 20, node("a", 19, "in the feed"))
	if missed, _ := x.ApplySweep(s, []ironic.Node{node("a", 19, "in the feed"), node("b", 0, "first")}, at(0)); missed != 0 {
		t.Errorf("%d changes are counted that the feed has shown", missed)
	}
	for round, want := range []time.Duration{6, 12, 24, 48, 60, 60} {
		missed := sweep(x, float64(30+10*round), node("a", 19, "in the feed"), node("b", 15, fmt.Sprint("late ", round)))
		if missed != 1 || x.Overlap() != want*time.Second {
			t.Errorf("%d late changes are counted, the overlap is %s, want 1 and %s", missed, x.Overlap(), want*time.Second)
		}
	}
	s = x.BeginSweep(at(100))
	s.Unchecked = true
	if missed, _ := x.ApplySweep(s, []ironic.Node{node("a", 99, "new"), node("b", 99, "new")}, at(0)); missed != 0 {
		t.Errorf("%d changes are counted although the feed was not read", missed)
	}
}

// TestNewerContentsStay whatever the order in which reads end that were under way at the same time.
func TestNewerContentsStay(t *testing.T) {
	for name, do := range map[string]func(x *index.Index){
		"an earlier read of the feed ends later": func(x *index.Index) {
			earlier, later := x.BeginFeed(at(1)), x.BeginFeed(at(2))
			x.ApplyChanges(later, changes(2, node("a", 2, "newer")), at(3))
			x.ApplyChanges(earlier, changes(1, node("a", 1, "older")), at(4))
		},
		"the clock of the conductor was put right": func(x *index.Index) {
			feed(x, 1, node("a", 1, "older"))
			feed(x, 2, node("a", -100, "newer"))
		},
		"a sweep ends after the feed": func(x *index.Index) {
			s := x.BeginSweep(at(1))
			feed(x, 2, node("a", 2, "newer"))
			x.ApplySweep(s, []ironic.Node{node("a", 1, "older")}, at(0))
		},
		"an earlier sweep ends later": func(x *index.Index) {
			earlier, later := x.BeginSweep(at(1)), x.BeginSweep(at(2))
			if _, superseded := x.ApplySweep(later, []ironic.Node{node("a", 2, "newer")}, at(0)); superseded {
				t.Error("the later sweep was not applied")
			}
			if _, superseded := x.ApplySweep(earlier, []ironic.Node{node("a", 1, "older")}, at(0)); !superseded {
				t.Error("the earlier sweep was applied")
			}
		},
		"a sweep ends after a feed that began before it": func(x *index.Index) {
			f := x.BeginFeed(at(1))
			s := x.BeginSweep(at(2))
			x.ApplyChanges(f, changes(1, node("a", 1, "older")), at(3))
			x.ApplySweep(s, []ironic.Node{node("a", 2, "newer")}, at(3))
		},
		"a sweep has seen the node before it was created": func(x *index.Index) {
			s := x.BeginSweep(at(1))
			feed(x, 2, node("a", 2, "newer"))
			x.ApplySweep(s, nil, at(0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := swept(node("a", 0, "at first"))
			do(x)
			if got := says(x, "a"); got != "newer" {
				t.Errorf("the node says %q", got)
			}
		})
	}
}

// TestDeletedNode is not known any more after the next sweep, or at once if this process has deleted it.
func TestDeletedNode(t *testing.T) {
	x := swept(withBMC(node("a", 0, "there"), "10.0.0.1"), withBMC(node("b", 0, "there"), "10.0.0.1"), withBMC(node("c", 0, "there"), "10.0.0.1"))
	x.ForgetNode("a")
	x.ForgetNode("no-such")
	if got := idsWithBMC(x, "10.0.0.1"); says(x, "a") != "none" || !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("after ForgetNode, node a says %q, and those with the BMC are %v", says(x, "a"), got)
	}
	sweep(x, 10, withBMC(node("c", 0, "there"), "10.0.0.1"))
	if got := idsWithBMC(x, "10.0.0.1"); says(x, "b") != "none" || !slices.Equal(got, []string{"c"}) {
		t.Errorf("after a sweep, node b says %q, and those with the BMC are %v", says(x, "b"), got)
	}
}

// TestNodeDeletedDuringSweep: a read of the feed that began before a sweep does not keep a node that the sweep has not seen any more.
func TestNodeDeletedDuringSweep(t *testing.T) {
	x := swept(node("a", 0, "there"))
	f := x.BeginFeed(at(1))
	s := x.BeginSweep(at(2))
	x.ApplyChanges(f, changes(1, node("a", 1, "leaving")), at(3))
	x.ApplySweep(s, nil, at(3))
	if got := says(x, "a"); got != "none" {
		t.Errorf("the node says %q", got)
	}
}

// TestDeletedNodeStaysAway: what was read before this process has deleted a node does not bring it back. What was read after that
// does: it was created again.
func TestDeletedNodeStaysAway(t *testing.T) {
	x := swept(withBMC(node("a", 0, "there"), "10.0.0.1"))
	earlierFeed, earlierSweep := x.BeginFeed(at(1)), x.BeginSweep(at(1))
	x.ForgetNode("a")
	x.ApplyChanges(earlierFeed, changes(1, withBMC(node("a", 1, "leaving"), "10.0.0.1")), at(2))
	x.ApplySweep(earlierSweep, []ironic.Node{withBMC(node("a", 1, "leaving"), "10.0.0.1")}, at(0))
	if got := idsWithBMC(x, "10.0.0.1"); says(x, "a") != "none" || got != nil {
		t.Errorf("after earlier reads, the node says %q, and those with the BMC are %v", says(x, "a"), got)
	}
	feed(x, 3, withBMC(node("a", 3, "again"), "10.0.0.1"))
	if got := idsWithBMC(x, "10.0.0.1"); says(x, "a") != "again" || !slices.Equal(got, []string{"a"}) {
		t.Errorf("after a later read of the feed, the node says %q, and those with the BMC are %v", says(x, "a"), got)
	}
	x.ForgetNode("a")
	sweep(x, 4, withBMC(node("a", 3, "again"), "10.0.0.1"))
	if says(x, "a") != "again" {
		t.Errorf("after a later sweep, the node says %q", says(x, "a"))
	}
}

func idsWithBMC(x *index.Index, address string) []string {
	nodes, _ := x.NodesWithBMC(keyOf(address))
	var ids []string
	for _, n := range nodes {
		ids = append(ids, n.UUID)
	}
	slices.Sort(ids)
	return ids
}

// TestNodesWithBMC follow the addresses of nodes.
func TestNodesWithBMC(t *testing.T) {
	x := swept(withBMC(node("a", 0, "there"), "10.0.0.1"), withBMC(node("b", 0, "there"), "10.0.0.2"))
	feed(x, 1, withBMC(node("b", 1, "there"), "10.0.0.1"))
	if first, second := idsWithBMC(x, "10.0.0.1"), idsWithBMC(x, "10.0.0.2"); !slices.Equal(first, []string{"a", "b"}) || second != nil {
		t.Errorf("the nodes are %v and %v", first, second)
	}
}

// TestAge: it is known as of when all nodes are known, and not at all before a sweep has ended.
func TestAge(t *testing.T) {
	key := keyOf("10.0.0.1")
	x := index.New()
	expect := func(when string, want time.Time, trusted bool) {
		t.Helper()
		if _, asOf := x.NodesWithBMC(key); !asOf.Equal(want) {
			t.Errorf("%s: as of %s, want %s", when, asOf, want)
		}
		if got := x.IsFeedTrusted(at(5), false); got != trusted {
			t.Errorf("%s: the feed is trusted: %t", when, got)
		}
	}
	expect("at first", time.Time{}, false)
	first := x.BeginSweep(at(1))
	if !first.First {
		t.Error("it is not told that the first sweep is the first")
	}
	feed(x, 1.5, node("a", 1, "changed"))
	expect("while the first sweep is under way", time.Time{}, false)
	x.ApplySweep(first, nil, at(0))
	expect("after the first sweep", at(1), true)
	earlier := x.BeginFeed(at(1.8))
	feed(x, 2)
	expect("after a read of the feed", at(2), true)
	x.ApplyChanges(earlier, changes(2), at(2.5))
	expect("after a read that began earlier", at(2), true)

	x.ApplyChanges(x.BeginFeed(at(3)), truncated(changes(3, node("a", 3, "changed"))), at(3))
	expect("after a read that was truncated", at(2), false)
	feed(x, 3.5)
	expect("after another read", at(2), false)
	s := x.BeginSweep(at(4))
	if s.First {
		t.Error("the second sweep is taken for the first")
	}
	x.ApplyChanges(x.BeginFeed(at(4.2)), truncated(changes(4.2, node("a", 4.2, "changed"))), at(4.3))
	x.ApplySweep(s, nil, at(0))
	expect("after a sweep, and a truncated read since it began", at(4), false)
	x.ApplySweep(x.BeginSweep(at(4.5)), nil, at(0))
	expect("after a sweep that began later", at(4.5), true)
	feed(x, 4.8)
	expect("after a read that leads on from it", at(4.8), true)
}

// TestTrust: the feed is trusted for half a minute after a sweep, longer while the next is under way.
func TestTrust(t *testing.T) {
	x := swept()
	for _, test := range []struct {
		now                            float64
		trusted, trustedMeanwhile, due bool
	}{
		{now: 0, trusted: true, trustedMeanwhile: true},
		{now: 24.9, trusted: true, trustedMeanwhile: true},
		{now: 25, trusted: true, trustedMeanwhile: true, due: true},
		{now: 30, trustedMeanwhile: true, due: true},
		{now: 119.9, trustedMeanwhile: true, due: true},
		{now: 120, due: true},
	} {
		if got := x.IsFeedTrusted(at(test.now), false); got != test.trusted {
			t.Errorf("after %v s, the feed is trusted: %t", test.now, got)
		}
		if got := x.IsFeedTrusted(at(test.now), true); got != test.trustedMeanwhile {
			t.Errorf("after %v s, while a sweep is under way, the feed is trusted: %t", test.now, got)
		}
		if got := x.IsSweepDue(at(test.now)); got != test.due {
			t.Errorf("after %v s, a sweep is due: %t", test.now, got)
		}
	}
}

// TestTrustInSlowIronic: the longer a sweep takes, the more rarely there is one, and the longer the feed suffices.
func TestTrustInSlowIronic(t *testing.T) {
	for name, test := range map[string]struct {
		took                float64
		due, trusted, until float64
	}{
		"a thousand nodes":   {took: 0.2, due: 25, trusted: 30, until: 120},
		"ten thousand nodes": {took: 2, due: 25, trusted: 30, until: 120},
		"slow":               {took: 6, due: 60, trusted: 65, until: 155},
		"hardly answers":     {took: 100, due: 300, trusted: 305, until: 395},
	} {
		t.Run(name, func(t *testing.T) {
			x := index.New()
			x.ApplySweep(x.BeginSweep(at(0)), nil, at(test.took))
			if x.IsSweepDue(at(test.due-.1)) || !x.IsSweepDue(at(test.due)) {
				t.Errorf("the next sweep is not due after %v s", test.due)
			}
			if !x.IsFeedTrusted(at(test.trusted-.1), false) || x.IsFeedTrusted(at(test.trusted), false) {
				t.Errorf("the feed is not trusted for %v s", test.trusted)
			}
			if !x.IsFeedTrusted(at(test.until-.1), true) || x.IsFeedTrusted(at(test.until), true) {
				t.Errorf("the feed is not trusted for %v s while a sweep is under way", test.until)
			}
		})
	}
}

// TestRecorded: a version of a host shows its node until either of them changes. A lock only moves updated_at.
func TestRecorded(t *testing.T) {
	x := swept(node("a", 0, "first"))
	host := hostOf("a", "1")
	_, generation := x.NodeOf(host)
	if x.IsRecorded(host, generation) || x.IsPending(host, generation) {
		t.Error("what was not recorded is taken for recorded")
	}
	x.SetPending(host, generation)
	if x.IsRecorded(host, generation) || !x.IsPending(host, generation) || x.IsPending(hostOf("a", "2"), generation) {
		t.Error("the host is not pending, or another version of it is")
	}
	x.SetRecorded(host, generation)
	if !x.IsRecorded(host, generation) || x.IsPending(host, generation) || x.IsRecorded(hostOf("a", "2"), generation) {
		t.Error("the host is not recorded, or another version of it is")
	}
	feed(x, 1, node("a", 1, "first"))
	if _, locked := x.NodeOf(host); locked != generation {
		t.Error("a lock has changed the generation")
	}
	feed(x, 2, node("a", 2, "second"))
	if _, changed := x.NodeOf(host); changed == generation || x.IsRecorded(host, changed) {
		t.Error("the host is taken for one that shows a change which was not recorded")
	}
	x.HostChanged(hostOf("a", "3"), true)
	if x.IsRecorded(host, generation) {
		t.Error("a host that was deleted is remembered")
	}
}

// TestInventoryMissing counts from when the inventory of an inspection was first found missing, by our clock.
func TestInventoryMissing(t *testing.T) {
	x := swept(node("a", 0, "inspected"))
	n, _ := x.NodeOf(hostOf("a", "1"))
	first, second := ironicAt(-100), ironicAt(50)
	for _, test := range []struct {
		finished *time.Time
		now      float64
		want     time.Duration
	}{{&first, 1, 0}, {&first, 11, 10 * time.Second}, {&second, 60, 0}, {&second, 61, time.Second}} {
		n.InspectionFinishedAt = test.finished
		if got := x.InventoryMissing(n, at(test.now)); got != test.want {
			t.Errorf("after %v s: %s, want %s", test.now, got, test.want)
		}
	}
	// It is asked for again after an eighth of that time.
	if x.IsInventoryDue(n, at(61.4)) || !x.IsInventoryDue(n, at(61.5)) {
		t.Error("after a second, it is not due half a second later")
	}
	x.InventoryMissing(n, at(140))
	if x.IsInventoryDue(n, at(149)) || !x.IsInventoryDue(n, at(150)) {
		t.Error("after 80 s, it is not due 10 s later")
	}
	n.InspectionFinishedAt = &first
	if !x.IsInventoryDue(n, at(141)) {
		t.Error("that of another inspection is not due")
	}
}

// TestSlowAnswerWithANodeOfTheFuture: while Ironic takes long to answer, it goes on changing nodes. The next read shows that, also if
// the newest time of the answer is one that no clock has.
func TestSlowAnswerWithANodeOfTheFuture(t *testing.T) {
	x := index.New()
	sweep := x.BeginSweep(at(0))
	x.ApplySweep(sweep, []ironic.Node{node("future", 3600, ""), node("a", -60, "")}, at(0))
	read := x.BeginFeed(at(1))
	x.ApplyChanges(read, changes(31, node("future", 3600, "")), at(31)) // Ironic has read its database at 1 s
	if since := x.BeginFeed(at(32)).Since; since.After(ironicAt(2)) {
		t.Errorf("the feed is read from %s on, a change after %s is missed", since.Sub(ironicStart), 2*time.Second)
	}
}

// TestLateAnswer: an answer that comes after that of a later read, of a time before it, does not pass for a clock that was set back.
func TestLateAnswer(t *testing.T) {
	x := swept(node("a", 0, ""))
	earlier, later := x.BeginFeed(at(10)), x.BeginFeed(at(19))
	x.ApplyChanges(later, changes(20, node("a", 19, "")), at(20))
	overlap, since := x.Overlap(), x.BeginFeed(at(21)).Since
	x.ApplyChanges(earlier, changes(11, node("a", 5, "")), at(21))
	if got := x.Overlap(); got != overlap {
		t.Errorf("the feed is read %s back, want %s", got, overlap)
	}
	if got := x.BeginFeed(at(21)).Since; !got.Equal(since) || !x.IsFeedTrusted(at(21), false) {
		t.Errorf("the feed is read from %s, want %s", got, since)
	}
}

// TestUnreadable: a node that Ironic cannot show is neither gone nor changed, and has the BMC that was last read of it. As long as none
// ever was, it is not known who has a BMC.
func TestUnreadable(t *testing.T) {
	damaged := func(n ironic.Node) ironic.Node {
		return ironic.Node{UUID: n.UUID, Driver: n.Driver, Address: n.Address, Unreadable: "HTTP 500"}
	}
	unidentified := ironic.Node{UUID: "a", Unreadable: "HTTP 500"}
	a, b := withBMC(node("a", 0, "first"), "192.0.2.1"), withBMC(node("b", 0, "first"), "192.0.2.2")
	a.Driver, b.Driver = "ipmi", "ipmi"
	knows := func(x *index.Index, when string, asOf float64) {
		t.Helper()
		nodes, got := x.NodesWithBMC(keyOf("192.0.2.1"))
		if len(nodes) != 1 || nodes[0].UUID != "a" || !got.Equal(at(asOf)) {
			t.Errorf("%s: as of %s, %d nodes have the BMC, want that of node a as of %s", when, got, len(nodes), at(asOf))
		}
		if !slices.Equal(x.Unreadable(), []string{"a"}) {
			t.Errorf("%s: %q are unreadable", when, x.Unreadable())
		}
	}
	x := swept(a, b)
	if missed := sweep(x, 10, damaged(a), b); missed != 0 {
		t.Errorf("%d changes were missed", missed)
	}
	knows(x, "identified", 10)
	sweep(x, 20, unidentified, b)
	knows(x, "known before", 20)
	feed(x, 30, node("b", 29, "second"))
	knows(x, "the feed goes on", 30)
	if missed := sweep(x, 40, a, node("b", 29, "second")); missed != 0 || says(x, "a") != "first" || len(x.Unreadable()) != 0 {
		t.Errorf("readable again: %d changes were missed, it says %q, %q are unreadable", missed, says(x, "a"), x.Unreadable())
	}
	x = index.New()
	sweep(x, 0, unidentified, b)
	if _, asOf := x.NodesWithBMC(keyOf("192.0.2.1")); !asOf.IsZero() {
		t.Errorf("all nodes with the BMC are said to be known as of %s", asOf)
	}
	sweep(x, 10, damaged(a), b)
	knows(x, "identified later", 10)
	x.ForgetNode("a")
	if len(x.Unreadable()) != 0 {
		t.Errorf("%q are unreadable, and deleted", x.Unreadable())
	}
}
