// SPDX-License-Identifier: Apache-2.0

package live_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

// bench is a Refresher between fake hosts and a fake Ironic.
type bench struct {
	*live.Refresher
	hosts *enginetest.Hosts
	nodes *enginetest.Nodes
	stop  context.CancelFunc
}

// newBench has so many hosts, worker-0 and on. adapt changes what the Refresher works with.
func newBench(t *testing.T, hosts int, wait time.Duration, adapt ...func(*live.Deps)) *bench {
	b := &bench{hosts: enginetest.NewHosts(), nodes: enginetest.NewNodes()}
	for i := range hosts {
		b.hosts.Add(registeredHost(i))
		b.nodes.Say(enginetest.NodeID(i), "nothing yet")
	}
	var ctx context.Context
	ctx, b.stop = context.WithCancel(t.Context())
	deps := b.deps(wait)
	for _, change := range adapt {
		change(&deps)
	}
	b.Refresher = live.NewRefresher(ctx, deps)
	return b
}

// deps are those of the bench's Refresher.
func (b *bench) deps(wait time.Duration) live.Deps {
	return live.Deps{Hosts: b.hosts, Nodes: b.nodes, Secrets: enginetest.NoSecret, Clock: clock.RealClock{}, Wait: wait, Cluster: enginetest.UnknownCluster}
}

// inBubble runs a test in a bubble. When the test ends, so do the observations:
// a bubble fails a test that leaves a goroutine.
func inBubble(t *testing.T, hosts int, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, hosts, enginetest.ReaderWait)
		defer b.Wait()
		defer b.stop()
		test(t, b)
	})
}

func registeredHost(i int) *metal3.BareMetalHost {
	host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: enginetest.Namespace, Name: enginetest.HostName(i)}}
	host.Spec.BMC.Address = "ipmi://" + enginetest.NodeBMC
	host.Status.Provisioning.ID = enginetest.NodeID(i)
	return host
}

// shown is the last error of a host as recorded.
func (b *bench) shown(t *testing.T, i int) string {
	t.Helper()
	if s := b.hosts.Host(t, enginetest.HostName(i)).Status.Ironic; s != nil {
		return s.LastError
	}
	return ""
}

// read is one way to refresh host 0.
type read struct {
	name string
	do   func(ctx context.Context, b *bench) error
}

var reads = []read{
	{"single", func(ctx context.Context, b *bench) error {
		return b.RefreshHost(ctx, enginetest.Namespace, enginetest.HostName(0))
	}},
	{"bulk", func(ctx context.Context, b *bench) error { return b.RefreshAll(ctx) }},
}

// TestReaderJoinsTheNextObservation: what changes in Ironic while an observation
// is under way is not in it, so that a reader who comes then is not served by it.
func TestReaderJoinsTheNextObservation(t *testing.T) {
	for _, read := range reads {
		t.Run(read.name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, b *bench) {
				held := b.nodes.Hold()
				first := make(chan error, 1)
				go func() { first <- read.do(t.Context(), b) }()
				synctest.Wait() // the request is at Ironic

				b.nodes.Say(enginetest.NodeID(0), "changed")
				b.nodes.Resume()
				late := make(chan error, 3)
				for range cap(late) {
					go func() { late <- read.do(t.Context(), b) }()
				}
				synctest.Wait()
				select {
				case err := <-late:
					t.Fatalf("a late reader was served by the observation under way: %v", err)
				default:
				}
				if got := waitingReads(t); got != 4 {
					t.Errorf("%v reads are said to wait, want 4", got)
				}
				close(held)
				if err := <-first; err != nil {
					t.Error(err)
				}
				for range cap(late) {
					if err := <-late; err != nil {
						t.Error(err)
					}
				}
				if got := b.shown(t, 0); got != "changed" {
					t.Errorf("the late readers are shown %q", got)
				}
				gets, lists := b.nodes.Asked()
				feeds := b.nodes.Feeds()
				if read.name == "bulk" {
					feeds-- // the first sweep finds out where the feed begins
				}
				if gets+lists+feeds != 2 {
					t.Errorf("four readers cost %d requests for one node, %d for all and %d for those that changed, want 2 together", gets, lists, feeds)
				}
			})
		})
	}
}

func TestLoneReader(t *testing.T) {
	tests := []struct {
		read        read
		gets, lists int
	}{{reads[0], 1, 0}, {reads[1], 0, 1}}
	for _, test := range tests {
		t.Run(test.read.name, func(t *testing.T) {
			inBubble(t, 10, func(t *testing.T, b *bench) {
				b.nodes.Say(enginetest.NodeID(0), "changed")
				if err := test.read.do(t.Context(), b); err != nil {
					t.Fatal(err)
				}
				if got := b.shown(t, 0); got != "changed" {
					t.Errorf("shown is %q", got)
				}
				gets, lists := b.nodes.Asked()
				if gets != test.gets || lists != test.lists || b.nodes.Inventories != 0 {
					t.Errorf("asked for one node %d times, for all %d times, for inventories %d times", gets, lists, b.nodes.Inventories)
				}
				// And once more: nothing has changed, so nothing is written.
				before := b.hosts.Records
				if err := test.read.do(t.Context(), b); err != nil {
					t.Fatal(err)
				}
				if b.hosts.Records != before {
					t.Errorf("a quiet host was written %d times", b.hosts.Records-before)
				}
			})
		})
	}
}

// TestManyReaders has 200 clients read 200 hosts at once, each once or for a while.
func TestManyReaders(t *testing.T) {
	const hosts = 200
	for _, rounds := range []int{1, 8} {
		t.Run(fmt.Sprintf("%d each", rounds), func(t *testing.T) {
			inBubble(t, hosts, func(t *testing.T, b *bench) {
				b.nodes.Single = func() time.Duration { return 5 * time.Millisecond }
				b.nodes.Bulk = func() time.Duration { return 30 * time.Millisecond }
				began := time.Now()
				slowest := make([]time.Duration, hosts)
				var readers sync.WaitGroup
				for i := range hosts {
					readers.Go(func() {
						for round := range rounds {
							now := fmt.Sprintf("round %d", round)
							b.nodes.Say(enginetest.NodeID(i), now)
							asked := time.Now()
							if err := b.RefreshHost(t.Context(), enginetest.Namespace, enginetest.HostName(i)); err != nil {
								t.Error(err)
							}
							slowest[i] = max(slowest[i], time.Since(asked))
							if got := b.shown(t, i); got != now {
								t.Errorf("host %d shows %q in round %d", i, got, round)
							}
						}
					})
				}
				readers.Wait()
				gets, lists := b.nodes.Asked()
				var worst time.Duration
				for _, s := range slowest {
					worst = max(worst, s)
				}
				t.Logf("%d reads of %d hosts: %d requests for one node, %d for all, at most %d at a time, in %s, the slowest read %s",
					hosts*rounds, hosts, gets, lists, b.nodes.Most, time.Since(began), worst)
				if total := gets + lists; total > 10+3*rounds {
					t.Errorf("%d reads cost Ironic %d requests", hosts*rounds, total)
				}
				if b.nodes.Most > 5 {
					t.Errorf("Ironic saw %d requests at a time", b.nodes.Most)
				}
			})
		})
	}
}

// TestManyReadersOfASlowList: if a list of all nodes fails, or takes longer than readers of single hosts may wait, these are served one
// by one, however many they are.
func TestManyReadersOfASlowList(t *testing.T) {
	const hosts = 200
	for name, ironicIs := range map[string]func(*enginetest.Nodes){
		"slow":    func(n *enginetest.Nodes) { n.Bulk = func() time.Duration { return 1500 * time.Millisecond } },
		"failing": func(n *enginetest.Nodes) { n.BulkErr = &ironic.APIError{Status: 500, Op: "list nodes"} },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, hosts, func(t *testing.T, b *bench) {
				b.nodes.Single = func() time.Duration { return 5 * time.Millisecond }
				ironicIs(b.nodes)
				_ = b.RefreshAll(t.Context())
				var readers sync.WaitGroup
				for i := range hosts {
					readers.Go(func() {
						for range 5 {
							asked := time.Now()
							err := b.RefreshHost(t.Context(), enginetest.Namespace, enginetest.HostName(i))
							if took := time.Since(asked); err != nil || took > time.Second {
								t.Errorf("a read took %s: %v", took, err)
							}
						}
					})
				}
				readers.Wait()
			})
		})
	}
}

// TestErrorIsShared: all who joined an observation learn why it failed, and the
// price is one request.
func TestErrorIsShared(t *testing.T) {
	const readers = 10
	for _, read := range reads {
		t.Run(read.name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, b *bench) {
				if err := read.do(t.Context(), b); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute) // of the bubble's time: the error tells how old the status is
				observed := time.Now()
				held := b.nodes.Hold()
				go func() { _ = read.do(t.Context(), b) }()
				synctest.Wait()
				refused := &ironic.UnavailableError{Op: "get", Reason: "connection refused"}
				b.nodes.Change(func() { b.nodes.Held, b.nodes.Err = nil, refused })
				errs := make(chan error, readers)
				for range readers {
					go func() { errs <- read.do(t.Context(), b) }()
				}
				synctest.Wait()
				close(held)
				for range readers {
					err := <-errs
					var stale *live.StaleError
					if !errors.As(err, &stale) || !errors.Is(err, refused) {
						t.Fatalf("got %v", err)
					}
					want := "live status is not available, Ironic: connection refused; status is as of " + observed.UTC().Format(time.RFC3339)
					if stale.Error() != want || !stale.Observed.Equal(observed) {
						t.Errorf("got %q, want %q", stale, want)
					}
				}
				gets, lists := b.nodes.Asked()
				feeds := b.nodes.Feeds()
				if read.name == "bulk" {
					feeds -= 2 // one at the beginning, and one that checks the feed after a sweep
				}
				if gets+lists+feeds != 3 {
					t.Errorf("asked %d times, want 3", gets+lists+feeds)
				}
			})
		})
	}
}

// TestReaderWhoLeaves: one that hangs up takes nothing from those who wait on.
func TestReaderWhoLeaves(t *testing.T) {
	for _, read := range reads {
		t.Run(read.name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, b *bench) {
				b.nodes.Say(enginetest.NodeID(0), "changed")
				held := b.nodes.Hold()
				ctx, leave := context.WithCancel(t.Context())
				left, stayed := make(chan error, 1), make(chan error, 1)
				go func() { left <- read.do(ctx, b) }()
				synctest.Wait() // the one who leaves has begun the observation
				go func() { stayed <- read.do(t.Context(), b) }()
				synctest.Wait()
				leave()
				if err := <-left; !errors.Is(err, context.Canceled) {
					t.Errorf("the one who left got %v", err)
				}
				b.nodes.Resume()
				close(held)
				if err := <-stayed; err != nil {
					t.Errorf("the one who stayed got %v", err)
				}
				if got := b.shown(t, 0); got != "changed" {
					t.Errorf("shown is %q", got)
				}
			})
		})
	}
}

// TestReadHost: readers of a host are given what the observation has recorded, each a copy
// of his own; where all hosts were observed, they have to read it.
func TestReadHost(t *testing.T) {
	inBubble(t, 8, func(t *testing.T, b *bench) {
		b.nodes.Say(enginetest.NodeID(0), "changed")
		read := make(chan *metal3.BareMetalHost, 3)
		for range cap(read) {
			go func() {
				host, err := b.ReadHost(t.Context(), enginetest.Namespace, enginetest.HostName(0))
				if err != nil {
					t.Error(err)
				}
				read <- host
			}()
		}
		for range cap(read) {
			host := <-read
			if host == nil {
				t.Fatal("no host")
			}
			if diff := cmp.Diff(b.hosts.Host(t, enginetest.HostName(0)), host); diff != "" || host.Status.Ironic.LastError != "changed" {
				t.Errorf("not what was recorded (-recorded +read):\n%s", diff)
			}
			host.Status.Ironic.LastError = "the reader's own"
		}
		if host, err := b.ReadHost(t.Context(), enginetest.Namespace, "no-such"); host != nil || err != nil {
			t.Errorf("a host that is not there: %v, %v", host, err)
		}
	})
}

// TestUnregisteredHost costs Ironic nothing.
func TestUnregisteredHost(t *testing.T) {
	inBubble(t, 0, func(t *testing.T, b *bench) {
		b.hosts.Add(&metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: enginetest.Namespace, Name: enginetest.HostName(0)}})
		before := b.hosts.Host(t, enginetest.HostName(0))
		if err := b.RefreshHost(t.Context(), enginetest.Namespace, enginetest.HostName(0)); err != nil {
			t.Error(err)
		}
		if err := b.RefreshHost(t.Context(), enginetest.Namespace, "no-such"); err != nil {
			t.Errorf("a host that is not there: %v", err)
		}
		if gets, lists := b.nodes.Asked(); gets+lists != 0 {
			t.Errorf("Ironic was asked %d times", gets+lists)
		}
		if err := b.RefreshAll(t.Context()); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(before, b.hosts.Host(t, enginetest.HostName(0))); diff != "" {
			t.Errorf("the host was written:\n%s", diff)
		}
	})
}

// TestNothingIsRememberedForEver: a replica that serves only GETs drops what it remembers of hosts
// that were deleted, however many are created, read and deleted.
func TestNothingIsRememberedForEver(t *testing.T) {
	const hosts = 1100
	inBubble(t, hosts, func(t *testing.T, b *bench) {
		for i := range hosts {
			if err := b.RefreshHost(t.Context(), enginetest.Namespace, enginetest.HostName(i)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if _, lists := b.nodes.Asked(); lists != 1 {
			t.Errorf("after %d GETs, all nodes were read %d times, want once", hosts, lists)
		}
	})
}
