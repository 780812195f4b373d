// SPDX-License-Identifier: Apache-2.0

package live_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
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
		tellOnce(t, b, changes)
		b.nodes.Say(enginetest.NodeID(0), "of now")
		b.list(t)
		overwrite(t, b, 0)
		b.list(t)
		if got := b.shown(t, 0); got != "overwritten" {
			t.Fatalf("the host shows %q before anybody has told of it", got)
		}
		b.Know([]*metal3.BareMetalHost{b.hosts.Host(t, enginetest.HostName(0))})
		if err := b.RefreshAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := b.shown(t, 0); got != "of now" {
			t.Errorf("the host shows %q", got)
		}
	})
}

// tellOnce tells of all hosts that there are, and of nothing that becomes of them.
func tellOnce(t *testing.T, b *bench, changes *live.HostChanges) {
	t.Helper()
	list, err := b.hosts.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var objects []any
	for _, host := range live.PointersOf(list) {
		objects = append(objects, host)
	}
	if err := changes.Replace(objects, list.ResourceVersion); err != nil {
		t.Fatal(err)
	}
}

// TestManyReadersKnowMore: so many readers of single hosts that a sweep serves them are shown what is in Ironic, too, if
// the watch does not tell yet that hosts were created, or written by another client.
func TestManyReadersKnowMore(t *testing.T) {
	const known, hosts = 10, 20
	inToldBubble(t, known, func(t *testing.T, b *bench, changes *live.HostChanges) {
		tellOnce(t, b, changes)
		for i := range known {
			b.nodes.Say(enginetest.NodeID(i), "of now")
		}
		b.list(t)
		listed := b.hosts.Lists()
		for i := range hosts {
			if i < known {
				overwrite(t, b, i)
				continue
			}
			b.hosts.Add(registeredHost(i))
			b.nodes.Say(enginetest.NodeID(i), "of now")
		}
		b.nodes.Single = func() time.Duration { return 5 * time.Millisecond }
		gets, lists := b.nodes.Asked()
		var readers sync.WaitGroup
		for i := range hosts {
			readers.Go(func() {
				if err := b.RefreshHost(t.Context(), enginetest.Namespace, enginetest.HostName(i)); err != nil {
					t.Error(err)
				}
				if got := b.shown(t, i); got != "of now" {
					t.Errorf("host %d shows %q", i, got)
				}
			})
		}
		readers.Wait()
		getsThen, listsThen := b.nodes.Asked()
		if listsThen == lists || getsThen-gets > hosts/2 {
			t.Errorf("%d readers cost %d requests for one node, %d for all", hosts, getsThen-gets, listsThen-lists)
		}
		if more := b.hosts.Lists() - listed; more != 0 {
			t.Errorf("the hosts were listed %d times", more)
		}
	})
}

// unreadHosts cannot be read one by one while etcd does not answer.
type unreadHosts struct {
	live.Hosts
	err error
}

func (h *unreadHosts) Get(ctx context.Context, namespace, name string) (*metal3.BareMetalHost, error) {
	time.Sleep(5 * time.Millisecond) // so that readers wait for others
	if h.err != nil {
		return nil, h.err
	}
	return h.Hosts.Get(ctx, namespace, name)
}

// TestManyReadersWithoutEtcd: what cannot be read from etcd is not said to be live, and a host that does not exist is no
// error of the others.
func TestManyReadersWithoutEtcd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changes *live.HostChanges
		var hosts *unreadHosts
		b := newBench(t, 2, enginetest.ReaderWait, func(deps *live.Deps) {
			hosts = &unreadHosts{Hosts: deps.Hosts}
			changes = live.NewHostChanges(deps.Hosts)
			deps.Hosts, deps.Changes = hosts, changes
		})
		defer b.Wait()
		defer b.stop()
		tellOnce(t, b, changes)
		for _, hosts.err = range []error{nil, errors.New("etcd does not answer")} {
			var readers sync.WaitGroup
			for i := range 20 { // most of which do not exist
				readers.Go(func() {
					err := b.RefreshHost(t.Context(), enginetest.Namespace, enginetest.HostName(i))
					if stale := new(live.StaleError); hosts.err == nil && err != nil || hosts.err != nil && !errors.As(err, &stale) {
						t.Errorf("host %d: %v while etcd says %v", i, err, hosts.err)
					}
				})
			}
			readers.Wait()
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
