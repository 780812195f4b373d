// SPDX-License-Identifier: Apache-2.0

package index_test

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live/index"
)

// named is a version of a host that has a node.
func named(uid, node, resourceVersion string) *metal3.BareMetalHost {
	host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), ResourceVersion: resourceVersion}}
	host.Status.Provisioning.ID = node
	return host
}

// allRecorded is an index with hosts 1 and 2, versions 11 and 12, which show what nodes a and b say.
func allRecorded() *index.Index {
	x := swept(node("a", 0, "first"), node("b", 0, "first"))
	hosts := []*metal3.BareMetalHost{named("1", "a", "11"), named("2", "b", "12")}
	x.ReplaceHosts(hosts, "20")
	for _, host := range hosts {
		_, generation := x.NodeOf(host)
		x.SetRecorded(host, generation)
	}
	return x
}

// due are the UIDs of the hosts that have to be looked at after a read of the feed, with a question mark for one that was not known
// before the read.
func due(x *index.Index, read index.FeedRead) (uids []string) {
	for _, c := range x.DueInFeed(read) {
		uid := string(c.Host.UID)
		if !c.KnownBefore {
			uid += "?"
		}
		uids = append(uids, uid)
	}
	slices.Sort(uids)
	return uids
}

// TestDueHosts: only the hosts that have changed, or whose nodes have, are looked at, until what their nodes say is recorded.
func TestDueHosts(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*index.Index)
		// during happens while the feed is read.
		during func(*index.Index)
		want   []string
	}{
		"nothing":          {},
		"a node":           {change: func(x *index.Index) { feed(x, 1, node("a", 1, "second")) }, want: []string{"1"}},
		"a lock":           {change: func(x *index.Index) { feed(x, 1, node("a", 1, "first")) }},
		"a late change":    {change: func(x *index.Index) { sweep(x, 30, node("a", 1, "second"), node("b", 0, "first")) }, want: []string{"1"}},
		"a lost node":      {change: func(x *index.Index) { sweep(x, 30, node("b", 0, "first")) }, want: []string{"1"}},
		"a deleted node":   {change: func(x *index.Index) { x.ForgetNode("b") }, want: []string{"2"}},
		"a host":           {change: func(x *index.Index) { x.HostChanged(named("1", "a", "21"), false) }, want: []string{"1"}},
		"a host meanwhile": {during: func(x *index.Index) { x.HostChanged(named("1", "a", "21"), false) }, want: []string{"1?"}},
		"a read host":      {change: func(x *index.Index) { x.KnowHosts(named("1", "a", "21")) }, want: []string{"1"}},
		"an old version":   {change: func(x *index.Index) { x.KnowHosts(named("1", "a", "10")) }},
		"the same version": {change: func(x *index.Index) { x.HostChanged(named("1", "a", "11"), false) }},
		"a new host":       {change: func(x *index.Index) { x.KnowHosts(named("3", "a", "21")) }, want: []string{"3"}},
		"a deleted host": {change: func(x *index.Index) {
			x.HostChanged(named("1", "a", "22"), true)
			feed(x, 1, node("a", 1, "second"))
		}},
		"a deleted host that was read before": {change: func(x *index.Index) {
			x.HostChanged(named("1", "a", "22"), true)
			x.KnowHosts(named("1", "a", "21"))
		}},
		"a host that a list no longer has": {change: func(x *index.Index) {
			x.ReplaceHosts([]*metal3.BareMetalHost{named("2", "b", "12")}, "30")
			feed(x, 1, node("a", 1, "second"))
		}},
		"a host that is newer than the list": {change: func(x *index.Index) {
			x.KnowHosts(named("3", "a", "31"))
			x.ReplaceHosts([]*metal3.BareMetalHost{named("1", "a", "11"), named("2", "b", "12")}, "30")
		}, want: []string{"3"}},
		"another node": {change: func(x *index.Index) {
			x.HostChanged(named("1", "b", "21"), false)
			_, generation := x.NodeOf(named("1", "b", "21"))
			x.SetRecorded(named("1", "b", "21"), generation)
			feed(x, 1, node("a", 1, "second"))
			feed(x, 2, node("b", 2, "second"))
		}, want: []string{"1", "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			x := allRecorded()
			if got := due(x, x.BeginFeed(at(0))); got != nil {
				t.Fatalf("at the start, hosts %v are looked at", got)
			}
			if test.change != nil {
				test.change(x)
			}
			read := x.BeginFeed(at(40))
			if test.during != nil {
				test.during(x)
			}
			if got := due(x, read); !slices.Equal(got, test.want) {
				t.Errorf("hosts %v are looked at, want %v", got, test.want)
			}
		})
	}
}

// TestUnpolled: the host of a node that Ironic does not poll is looked at each time while Ironic is at work on the node, and not when it
// rests.
func TestUnpolled(t *testing.T) {
	for state, want := range map[ironic.ProvisionState][]string{ironic.DeployWait: {"1"}, ironic.Cleaning: {"1"}, ironic.Active: nil} {
		t.Run(string(state), func(t *testing.T) {
			x := allRecorded()
			alone := node("a", 1, "first")
			alone.ParentNode, alone.ProvisionState = "a", state
			feed(x, 1, alone)
			host := named("1", "a", "11")
			_, generation := x.NodeOf(host)
			x.SetRecorded(host, generation)
			for range 2 {
				if got := due(x, x.BeginFeed(at(2))); !slices.Equal(got, want) {
					t.Errorf("hosts %v are looked at, want %v", got, want)
				}
			}
		})
	}
}

// TestEventsBeforeTheFirstList: an Index that is newer than the watch is told of events before it has listed the hosts. They say
// nothing of hosts that have not changed since, and a host that has gone by then does not come back.
func TestEventsBeforeTheFirstList(t *testing.T) {
	x := swept(node("a", 0, "first"), node("b", 0, "first"), node("c", 0, "first"))
	x.HostChanged(named("elsewhere", "x", "30"), true)
	x.HostChanged(named("2", "b", "31"), false)
	x.HostChanged(named("3", "c", "32"), true)
	x.ReplaceHosts([]*metal3.BareMetalHost{named("1", "a", "11"), named("2", "b", "12"), named("3", "c", "13")}, "29")
	if got, want := due(x, x.BeginFeed(at(1))), []string{"1", "2"}; !slices.Equal(got, want) {
		t.Errorf("due are %q, want %q", got, want)
	}
	x.KnowHosts(named("3", "c", "13")) // read before it went
	if n := x.CountHosts(); n != 2 {
		t.Errorf("%d hosts are known", n)
	}
}
