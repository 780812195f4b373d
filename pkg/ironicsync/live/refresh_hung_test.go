// SPDX-License-Identifier: Apache-2.0

package live_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

// TestHungIronic: a reader is not kept longer than its wait, and the first one
// after Ironic answers again is shown what is so now, while the requests from
// before hang on.
func TestHungIronic(t *testing.T) {
	for _, read := range reads {
		// before is how long before Ironic answers again another reader has read.
		for _, before := range []time.Duration{time.Millisecond, time.Second, enginetest.ReaderWait, 10 * time.Second} {
			t.Run(fmt.Sprintf("%s, %s after another read", read.name, before), func(t *testing.T) {
				inBubble(t, 1, func(t *testing.T, b *bench) {
					b.nodes.Hold()
					stale := make(chan error, 1)
					go func() {
						began := time.Now()
						err := read.do(t.Context(), b)
						if waited := time.Since(began); waited > enginetest.ReaderWait {
							t.Errorf("a reader of a hung Ironic waited %s", waited)
						}
						stale <- err
					}()
					time.Sleep(before)
					b.nodes.Resume()
					b.nodes.Say(enginetest.NodeID(0), "back")
					began := time.Now()
					if err := read.do(t.Context(), b); err != nil {
						t.Errorf("the first read after Ironic is back: %v", err)
					}
					if got := b.shown(t, 0); got != "back" {
						t.Errorf("it shows %q", got)
					}
					t.Logf("the first read after Ironic is back took %s", time.Since(began))
					var want *live.StaleError
					if err := <-stale; !errors.As(err, &want) && before >= enginetest.ReaderWait {
						t.Errorf("the reader of the hung Ironic got %v", err)
					}
				})
			})
		}
	}
}

// TestHungIronicWithManyReaders: readers of all kinds keep coming while nothing
// answers.
func TestHungIronicWithManyReaders(t *testing.T) {
	const hosts = 50
	inBubble(t, hosts, func(t *testing.T, b *bench) {
		if err := b.RefreshAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.nodes.Hold()
		waits := make(chan time.Duration, 10*hosts)
		reader := func(do func() error) {
			began := time.Now()
			if err := do(); err == nil {
				t.Error("a read of a hung Ironic succeeded")
			}
			waits <- time.Since(began)
		}
		n := 0
		for range 9 { // some 3 s
			for i := range hosts {
				go reader(func() error { return b.RefreshHost(t.Context(), enginetest.Namespace, enginetest.HostName(i)) })
				n++
			}
			go reader(func() error { return b.RefreshAll(t.Context()) })
			n++
			time.Sleep(333 * time.Millisecond)
		}
		for range n {
			if w := <-waits; w > enginetest.ReaderWait {
				t.Errorf("a reader waited %s", w)
			}
		}
		gets, lists := b.nodes.Asked()
		t.Logf("%d reads of a hung Ironic: %d requests for one node, %d for all, at most %d at a time", n, gets, lists, b.nodes.Most)
		if b.nodes.Most > 4+3 { // as many of single hosts, and of all, as may be under way at a time
			t.Errorf("%d requests hang at Ironic", b.nodes.Most)
		}
		b.nodes.Resume()
		for i := range hosts {
			b.nodes.Say(enginetest.NodeID(i), "back")
		}
		for i := range hosts {
			if err := b.RefreshHost(t.Context(), enginetest.Namespace, enginetest.HostName(i)); err != nil {
				t.Fatalf("host %d: %v", i, err)
			}
			if got := b.shown(t, i); got != "back" {
				t.Errorf("host %d shows %q", i, got)
			}
		}
	})
}

// TestImpatientReaders: clients with short time-outs are answered with what is recorded, for which there is time left; others hang up.
// They must not keep the way blocked for one that has the time.
func TestImpatientReaders(t *testing.T) {
	for _, read := range reads {
		t.Run(read.name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, b *bench) {
				b.nodes.Hold()
				for range 5 {
					ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
					var stale *live.StaleError
					if err := read.do(ctx, b); !errors.As(err, &stale) || !ironic.IsUnavailable(err) || ctx.Err() != nil {
						t.Errorf("got %v, with %v", err, ctx.Err())
					}
					cancel()
					if err := read.do(ctx, b); !errors.Is(err, context.Canceled) {
						t.Errorf("got %v", err)
					}
				}
				b.nodes.Resume()
				b.nodes.Say(enginetest.NodeID(0), "back")
				if err := read.do(t.Context(), b); err != nil {
					t.Error(err)
				}
				if got := b.shown(t, 0); got != "back" {
					t.Errorf("shown is %q", got)
				}
			})
		})
	}
}

// TestWaitEndsEverything: when the server ends, so do the observations, however
// many hang, and those who wait for them are told.
func TestWaitEndsEverything(t *testing.T) {
	const readers = 40
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, readers, enginetest.ReaderWait)
		b.nodes.Hold()
		errs := make(chan error, 2*readers)
		for i := range readers {
			go func() { errs <- b.RefreshHost(t.Context(), enginetest.Namespace, enginetest.HostName(i)) }()
			go func() { errs <- b.RefreshAll(t.Context()) }()
		}
		synctest.Wait()
		began := time.Now()
		b.stop()
		b.Wait()
		if waited := time.Since(began); waited != 0 {
			t.Errorf("the observations took %s to end", waited)
		}
		if b.nodes.InFlight != 0 {
			t.Errorf("%d requests are still under way", b.nodes.InFlight)
		}
		for range 2 * readers {
			if err := <-errs; err == nil {
				t.Error("a reader was told that all is well")
			}
		}
		// The bubble ends here, and fails if anything else goes on.
	})
}

// TestShortWait: the limits of the observations follow the wait that is configured.
func TestShortWait(t *testing.T) {
	for _, read := range reads {
		t.Run(read.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, 1, 300*time.Millisecond)
				defer b.Wait()
				defer b.stop()
				b.nodes.Hold()
				if err := read.do(t.Context(), b); err == nil {
					t.Error("a read of a hung Ironic succeeded")
				}
				b.nodes.Resume()
				if err := read.do(t.Context(), b); err != nil {
					t.Errorf("the first read after Ironic is back: %v", err)
				}
			})
		})
	}
}
