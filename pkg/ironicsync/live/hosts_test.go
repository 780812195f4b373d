// SPDX-License-Identifier: Apache-2.0

package live_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/enginetest"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
)

// inToldBubble is inBubble with a Refresher that is told of the hosts by changes.
func inToldBubble(t *testing.T, hosts int, test func(t *testing.T, b *bench, changes *live.HostChanges)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var changes *live.HostChanges
		b := newBench(t, hosts, enginetest.ReaderWait, func(deps *live.Deps) {
			changes = live.NewHostChanges(deps.Hosts)
			deps.Changes = changes
		})
		defer b.Wait()
		defer b.stop()
		test(t, b, changes)
	})
}

// TestToldOfHosts: observations list no hosts once a watch tells of them, and what the watch tells of new hosts and of those that were
// written by another client is followed by the next poll.
func TestToldOfHosts(t *testing.T) {
	inToldBubble(t, 3, func(t *testing.T, b *bench, changes *live.HostChanges) {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); changes.Run(ctx) }()
		defer func() { stop(); <-ended }()
		synctest.Wait()

		b.nodes.Say(enginetest.NodeID(1), "of now")
		b.list(t)
		if got := b.shown(t, 1); got != "of now" {
			t.Errorf("a host shows %q", got)
		}
		b.nodes.Say(enginetest.NodeID(3), "of a new host")
		b.hosts.Add(registeredHost(3))
		overwrite(t, b, 1)
		synctest.Wait()
		if err := b.Poll(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := b.shown(t, 3); got != "of a new host" {
			t.Errorf("a new host shows %q", got)
		}
		if got := b.shown(t, 1); got != "of now" {
			t.Errorf("a host whose status another client has written shows %q", got)
		}
		if lists := b.hosts.Lists(); lists != 0 {
			t.Errorf("the hosts were listed %d times", lists)
		}
	})
}

// TestReaderKnowsMore: a reader is shown what is in Ironic also if the watch does not tell yet that another client has written the host.
func TestReaderKnowsMore(t *testing.T) {
	inToldBubble(t, 2, func(t *testing.T, b *bench, changes *live.HostChanges) {
		list, err := b.hosts.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var objects []any
		for _, host := range live.PointersOf(list) {
			objects = append(objects, host)
		}
		if err := changes.Replace(objects, list.ResourceVersion); err != nil { // and nothing more
			t.Fatal(err)
		}
		b.nodes.Say(enginetest.NodeID(0), "of now")
		b.list(t)
		overwrite(t, b, 0)
		b.list(t)
		if got := b.shown(t, 0); got != "overwritten" {
			t.Fatalf("the host shows %q before anybody has told of it", got)
		}
		if err := b.RefreshAll(t.Context(), b.hosts.Host(t, enginetest.HostName(0))); err != nil {
			t.Fatal(err)
		}
		if got := b.shown(t, 0); got != "of now" {
			t.Errorf("the host shows %q", got)
		}
	})
}

// TestHostsAreStillRead: until all hosts have been read once, nobody is told that what is shown is live, and nobody lists them.
func TestHostsAreStillRead(t *testing.T) {
	inToldBubble(t, 2, func(t *testing.T, b *bench, changes *live.HostChanges) {
		stale := new(live.StaleError)
		if err := b.RefreshAll(t.Context()); !errors.As(err, &stale) || !strings.Contains(err.Error(), "not yet read all hosts") {
			t.Errorf("the error is %v", err)
		}
		if lists := b.hosts.Lists(); lists != 0 {
			t.Errorf("the hosts were listed %d times", lists)
		}
	})
}

// TestNewerThanTheWatch: a Refresher that begins when the watch has long told of all hosts lists them once.
func TestNewerThanTheWatch(t *testing.T) {
	inToldBubble(t, 2, func(t *testing.T, b *bench, changes *live.HostChanges) {
		if err := changes.Replace(nil, "0"); err != nil {
			t.Fatal(err)
		}
		deps := b.deps(enginetest.ReaderWait)
		deps.Changes = changes
		later := *b
		later.Refresher = live.NewRefresher(t.Context(), deps)
		defer later.Wait()
		other := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{UID: "of-another-ironic", ResourceVersion: "1000"}}
		other.Status.Record.Ironic = "room-b"
		if err := changes.Update(other); err != nil { // before the hosts are listed
			t.Fatal(err)
		}
		b.nodes.Say(enginetest.NodeID(0), "of now")
		for range 3 {
			later.list(t)
		}
		if got := b.shown(t, 0); got != "of now" {
			t.Errorf("the host shows %q", got)
		}
		if lists := b.hosts.Lists(); lists != 1 {
			t.Errorf("the hosts were listed %d times", lists)
		}
	})
}

// overwrite has another client write the status of a host.
func overwrite(t *testing.T, b *bench, i int) {
	t.Helper()
	host := b.hosts.Host(t, enginetest.HostName(i)).DeepCopy()
	if host.Status.Ironic == nil {
		host.Status.Ironic = &metal3.IronicStatus{}
	}
	host.Status.Ironic.LastError = "overwritten"
	if _, err := b.hosts.Record(t.Context(), host); err != nil {
		t.Fatal(err)
	}
}
