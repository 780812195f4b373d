// SPDX-License-Identifier: Apache-2.0

package live_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

// TestLostRace: when somebody writes the host between the reading and the
// recording, Ironic is asked again, and what the other one wrote stays.
func TestLostRace(t *testing.T) {
	for _, read := range reads {
		t.Run(read.name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, b *bench) {
				b.nodes.Say(enginetest.NodeID(0), "older")
				raced := false
				b.hosts.BeforeRecord = func(*metal3.BareMetalHost) {
					if raced {
						return
					}
					raced = true
					host := b.hosts.Host(t, enginetest.HostName(0))
					host.Spec.Online = true
					if _, err := b.hosts.Update(t.Context(), host); err != nil {
						t.Error(err)
					}
					b.nodes.Say(enginetest.NodeID(0), "newer")
				}
				if err := read.do(t.Context(), b); err != nil {
					t.Fatal(err)
				}
				host := b.hosts.Host(t, enginetest.HostName(0))
				if host.Status.Ironic.LastError != "newer" || !host.Spec.Online {
					t.Errorf("recorded is %q, spec.online is %t", host.Status.Ironic.LastError, host.Spec.Online)
				}
				if gets, lists := b.nodes.Asked(); gets+lists != 2 {
					t.Errorf("Ironic was asked %d times, want 2", gets+lists)
				}
			})
		})
	}
}

// TestPassesBetweenReads: what was seen of a node between two reads of the feed, such as a lock, does not stay recorded
// when the node is again as the feed has shown it before.
func TestPassesBetweenReads(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, b *bench) {
		recorded := func() string { return b.hosts.Host(t, enginetest.HostName(0)).Status.Ironic.LastError }
		poll := func() {
			t.Helper()
			time.Sleep(time.Second)
			if err := b.Poll(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		poll()
		b.nodes.Say(enginetest.NodeID(0), "as the feed shows it")
		raced := false
		b.hosts.BeforeRecord = func(*metal3.BareMetalHost) {
			if raced {
				return
			}
			raced = true
			host := b.hosts.Host(t, enginetest.HostName(0))
			host.Spec.Online = !host.Spec.Online
			if _, err := b.hosts.Update(t.Context(), host); err != nil {
				t.Error(err)
			}
			b.nodes.Say(enginetest.NodeID(0), "passing")
		}
		poll()
		if got := recorded(); !raced || got != "passing" {
			t.Fatalf("recorded is %q", got)
		}
		b.nodes.Say(enginetest.NodeID(0), "as the feed shows it")
		poll()
		if got := recorded(); got != "as the feed shows it" {
			t.Errorf("recorded is still %q", got)
		}
		gets, _ := b.nodes.Asked()
		poll()
		if again, _ := b.nodes.Asked(); again != gets {
			t.Errorf("a quiet node is read %d times", again-gets)
		}
	})
}

// TestDeletedMeanwhile: a host that goes away while it is observed is no error.
func TestDeletedMeanwhile(t *testing.T) {
	for _, read := range reads {
		t.Run(read.name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, b *bench) {
				gone := false
				b.hosts.BeforeRecord = func(*metal3.BareMetalHost) {
					if !gone {
						b.hosts.Remove(t, enginetest.HostName(0))
						gone = true
					}
				}
				if err := read.do(t.Context(), b); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestTwoReplicas has two replicas observe one Ironic into one store, for readers
// of both, with delays everywhere. Nobody is shown what was so before the request,
// and what is recorded never goes back.
func TestTwoReplicas(t *testing.T) {
	const (
		hosts    = 6
		readers  = 12
		duration = 10 * time.Second // of the bubble's time
	)
	const seed = 1
	synctest.Test(t, func(t *testing.T) {
		replicas := []*bench{newBench(t, hosts, enginetest.ReaderWait), newBench(t, 0, enginetest.ReaderWait)}
		b := replicas[0]
		replicas[1].Refresher = live.NewRefresher(t.Context(), b.deps(enginetest.ReaderWait))

		var mu sync.Mutex
		random := rand.New(rand.NewPCG(seed, 0))
		upTo := func(d time.Duration) time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return time.Duration(random.Int64N(int64(d)))
		}
		b.nodes.Single = func() time.Duration { return upTo(10 * time.Millisecond) }
		b.nodes.Bulk = func() time.Duration { return upTo(40 * time.Millisecond) }
		b.hosts.CacheLags = true
		b.hosts.BeforeGet = func() { time.Sleep(upTo(5 * time.Millisecond)) }
		b.hosts.BeforeRecord = func(*metal3.BareMetalHost) { time.Sleep(upTo(5 * time.Millisecond)) }
		b.hosts.Recorded = func(old, host *metal3.BareMetalHost) {
			if number(old) > number(host) {
				t.Errorf("%s: an observation of state %d replaces one of %d", host.Name, number(host), number(old))
			}
		}
		for i := range hosts {
			b.nodes.Say(enginetest.NodeID(i), "0")
		}
		now := func(i int) int {
			b.nodes.Mu.Lock()
			defer b.nodes.Mu.Unlock()
			n, _ := strconv.Atoi(b.nodes.ByID[enginetest.NodeID(i)].LastError)
			return n
		}

		end := time.Now().Add(duration)
		var all sync.WaitGroup
		for i := range hosts {
			all.Go(func() {
				for n := 1; time.Now().Before(end); n++ {
					time.Sleep(upTo(30 * time.Millisecond))
					b.nodes.Say(enginetest.NodeID(i), strconv.Itoa(n))
				}
			})
		}
		counts := make([]int, readers)
		for r := range readers {
			all.Go(func() {
				for time.Now().Before(end) {
					replica, i, bulk := replicas[upTo(2)], int(upTo(hosts)), upTo(5) == 0
					atLeast := now(i)
					var err error
					if bulk {
						err = replica.RefreshAll(t.Context())
					} else {
						err = replica.RefreshHost(t.Context(), enginetest.Namespace, enginetest.HostName(i))
					}
					if err != nil {
						t.Error(err)
					}
					if got := number(b.hosts.Host(t, enginetest.HostName(i))); got < atLeast {
						t.Errorf("a reader (bulk %t) is shown state %d of host %d, which was in %d before it asked", bulk, got, i, atLeast)
					}
					counts[r]++
					time.Sleep(upTo(20 * time.Millisecond))
				}
			})
		}
		all.Wait()
		total := 0
		for _, n := range counts {
			total += n
		}
		gets, lists := b.nodes.Asked()
		t.Logf("%d reads, %d requests for one node, %d for all, %d writes tried, %d done", total, gets, lists, b.hosts.Records, b.hosts.Version-hosts)
		b.stop()
		b.Wait()
		synctest.Wait()
	})
}

// number is the state of a host in Ironic as recorded.
func number(host *metal3.BareMetalHost) int {
	if host.Status.Ironic == nil {
		return -1
	}
	n, err := strconv.Atoi(host.Status.Ironic.LastError)
	if err != nil {
		panic(fmt.Sprintf("host %s: %v", host.Name, err))
	}
	return n
}

// TestSlowIronic: a bulk request that takes long, and many readers at all times.
func TestSlowIronic(t *testing.T) {
	const hosts, rounds = 60, 5
	inBubble(t, hosts, func(t *testing.T, b *bench) {
		b.nodes.Single = func() time.Duration { return 200 * time.Millisecond }
		b.nodes.Bulk = func() time.Duration { return 900 * time.Millisecond }
		var readers sync.WaitGroup
		for i := range hosts {
			readers.Go(func() {
				for range rounds {
					time.Sleep(time.Duration(rand.Int64N(int64(time.Second))))
					if err := b.RefreshHost(t.Context(), enginetest.Namespace, enginetest.HostName(i)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		readers.Wait()
		gets, lists := b.nodes.Asked()
		t.Logf("%d reads: %d requests for one node, %d for all, at most %d at a time", hosts*rounds, gets, lists, b.nodes.Most)
	})
}
