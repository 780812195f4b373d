// SPDX-License-Identifier: Apache-2.0

package flight_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live/flight"
)

const (
	keys     = 100
	patience = 2 * time.Second
)

// source is what is observed: a number for each key, which only grows. An observation takes a while, and
// shows the numbers as they were when it began.
type source struct {
	mu     sync.Mutex
	states [keys]int
	shown  [keys]int // as last observed
	err    error
	// one and all are how long observations take, held keeps back those that begin from now on.
	one, all func() time.Duration
	held     chan struct{}
	// asked counts the observations that have begun, of single keys and of all; ones and alls are under way,
	// and most is how many were at most.
	askedOnes, askedAlls int
	ones, alls           int
	mostOnes, mostAlls   int
}

func (s *source) change(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *source) state(key int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.states[key]
}

func (s *source) lastShown(key int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown[key]
}

// observe waits as long as an observation takes, and returns the states when it began.
func (s *source) observe(ctx context.Context, took func() time.Duration, count, asked, most *int) ([keys]int, error) {
	s.mu.Lock()
	states, held, err := s.states, s.held, s.err
	*asked++
	*count++
	*most = max(*most, *count)
	var duration time.Duration
	if took != nil {
		duration = took()
	}
	s.mu.Unlock()
	defer s.change(func() { *count-- })
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return states, ctx.Err()
		}
	}
	select {
	case <-time.After(duration):
	case <-ctx.Done():
		return states, ctx.Err()
	}
	return states, err
}

func (s *source) observeOne(ctx context.Context, key int) (int, error) {
	states, err := s.observe(ctx, s.one, &s.ones, &s.askedOnes, &s.mostOnes)
	if err == nil {
		s.change(func() { s.shown[key] = max(s.shown[key], states[key]) })
	}
	return states[key], err
}

func (s *source) observeAll(ctx context.Context, _ []int) error {
	states, err := s.observe(ctx, s.all, &s.alls, &s.askedAlls, &s.mostAlls)
	if err == nil {
		s.change(func() {
			for key := range states {
				s.shown[key] = max(s.shown[key], states[key])
			}
		})
	}
	return err
}

// partial is an error that concerns a single key.
type partial struct{ key int }

func (p partial) Error() string { return fmt.Sprintf("key %d cannot be observed", p.key) }

func errorFor(key int, err error) error {
	if p, ok := errors.AsType[partial](err); ok && p.key != key {
		return nil
	}
	return err
}

// inBubble runs a test with a group that observes a source. When it ends, so do the observations: a bubble
// fails a test that leaves a goroutine.
func inBubble(t *testing.T, test func(t *testing.T, s *source, g *flight.Group[int, int], stop func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		ctx, cancel := context.WithCancel(t.Context())
		g := flight.NewGroup(ctx, flight.Config[int, int]{
			Clock: clock.RealClock{}, ObserveOne: s.observeOne, ObserveAll: s.observeAll, ErrorFor: errorFor,
			AllIsCheaper: func(ones int) bool { return ones > 5 },
			MaxOnes:      4, MaxAlls: 3, OneTimeout: time.Second, Patience: patience, MinGatherTime: 100 * time.Millisecond,
		})
		defer g.Wait()
		defer cancel()
		test(t, s, g, cancel)
	})
}

// joins are the ways to wait for an observation of key 0.
var joins = map[string]func(g *flight.Group[int, int]) *flight.Flight[int]{
	"one": func(g *flight.Group[int, int]) *flight.Flight[int] { return g.JoinOne(0) },
	"all": func(g *flight.Group[int, int]) *flight.Flight[int] { return g.JoinAll() },
}

func isDone(f *flight.Flight[int]) bool {
	select {
	case <-f.Done():
		return true
	default:
		return false
	}
}

// TestNobodyJoinsWhatIsUnderWay: who arrives while an observation is under way waits for the next, and shares
// it with all who arrive until that begins.
func TestNobodyJoinsWhatIsUnderWay(t *testing.T) {
	for name, join := range joins {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *source, g *flight.Group[int, int], _ func()) {
				takes := func() time.Duration { return time.Millisecond }
				held := make(chan struct{})
				s.one, s.all, s.held = takes, takes, held
				first := join(g)
				synctest.Wait()
				s.change(func() { s.states[0], s.held = 1, nil })
				second := join(g)
				if second == first {
					t.Fatal("a reader has joined an observation that was under way")
				}
				for range 3 {
					if third := join(g); third != second {
						t.Error("a reader has not joined the observation that has not begun")
					}
				}
				synctest.Wait()
				if isDone(second) {
					t.Error("the second observation has not waited for the first")
				}
				close(held)
				<-first.Done()
				if got := s.lastShown(0); got != 0 {
					t.Errorf("the first observation has shown state %d", got)
				}
				<-second.Done()
				if got := s.lastShown(0); got != 1 {
					t.Errorf("the second observation has shown state %d", got)
				}
				if n := s.askedOnes + s.askedAlls; n != 2 {
					t.Errorf("five readers cost %d observations, want 2", n)
				}
			})
		})
	}
}

// TestNoAnswerIsOlderThanItsRequest has readers of all kinds, who come at any time, and observations that take
// any time.
func TestNoAnswerIsOlderThanItsRequest(t *testing.T) {
	for seed := range uint64(5) {
		inBubble(t, func(t *testing.T, s *source, g *flight.Group[int, int], _ func()) {
			var mu sync.Mutex
			random := rand.New(rand.NewPCG(seed, 0))
			upTo := func(d time.Duration) time.Duration {
				mu.Lock()
				defer mu.Unlock()
				return time.Duration(random.Int64N(int64(d)))
			}
			s.one = func() time.Duration { return upTo(20 * time.Millisecond) }
			s.all = func() time.Duration { return upTo(3 * time.Second) } // some become overdue
			end := time.Now().Add(time.Minute)
			var everybody sync.WaitGroup
			for range 30 {
				everybody.Go(func() {
					for time.Now().Before(end) {
						key := int(upTo(keys))
						s.change(func() { s.states[key]++ })
						atLeast := s.state(key)
						f := g.JoinOne(key)
						switch upTo(4) {
						case 0:
							g.LeaveOne(key, f)
							f = g.JoinAll()
						case 1: // is impatient
							select {
							case <-f.Done():
							case <-time.After(upTo(30 * time.Millisecond)):
								g.LeaveOne(key, f)
								continue
							}
						}
						<-f.Done()
						result, err := f.Result()
						if err != nil {
							t.Error(err)
						}
						if got := s.lastShown(key); got < atLeast || result != 0 && result < atLeast {
							t.Errorf("seed %d: a reader is shown state %d and given %d of key %d, which was %d before it asked", seed, got, result, key, atLeast)
						}
						time.Sleep(upTo(300 * time.Millisecond))
					}
				})
			}
			everybody.Wait()
			if s.mostOnes > 4 || s.mostAlls > 3 {
				t.Errorf("%d observations of single keys and %d of all were under way at a time", s.mostOnes, s.mostAlls)
			}
		})
	}
}

// TestOnesAreBounded: few readers of single keys cost one observation each, a bounded number at a time.
func TestOnesAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, s *source, g *flight.Group[int, int], _ func()) {
		s.one = func() time.Duration { return 10 * time.Millisecond }
		began := time.Now()
		var last *flight.Flight[int]
		for key := range 8 { // four begin at once, so that no more than four are waiting
			last = g.JoinOne(key)
		}
		<-last.Done()
		synctest.Wait()
		if s.askedOnes != 8 || s.askedAlls != 0 || s.mostOnes != 4 {
			t.Errorf("%d observations of single keys, %d of all, %d at a time", s.askedOnes, s.askedAlls, s.mostOnes)
		}
		if took := time.Since(began); took != 20*time.Millisecond {
			t.Errorf("took %s", took)
		}
	})
}

// TestOneThatHangs delays other readers of its key for no longer than the time-out, and those of other keys
// not at all.
func TestOneThatHangs(t *testing.T) {
	inBubble(t, func(t *testing.T, s *source, g *flight.Group[int, int], _ func()) {
		s.held = make(chan struct{})
		hung := g.JoinOne(0)
		synctest.Wait()
		s.change(func() { s.held, s.states[0] = nil, 1 })
		began := time.Now()
		same, other := g.JoinOne(0), g.JoinOne(1)
		<-other.Done()
		if waited := time.Since(began); waited != 0 {
			t.Errorf("a reader of another key waited %s", waited)
		}
		<-same.Done()
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("a reader of the same key waited %s", waited)
		}
		if _, err := hung.Result(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the observation that hung has ended with %v", err)
		}
		if got, err := same.Result(); got != 1 || err != nil {
			t.Errorf("got state %d, %v", got, err)
		}
	})
}

// TestOverdue: an observation of all keys that seems to hang lets others begin beside it, a bounded number,
// and is completed all the same.
func TestOverdue(t *testing.T) {
	inBubble(t, func(t *testing.T, s *source, g *flight.Group[int, int], _ func()) {
		held := make(chan struct{})
		s.held = held
		began := time.Now()
		var hung []*flight.Flight[int]
		for range 3 {
			hung = append(hung, g.JoinAll())
			time.Sleep(patience)
		}
		synctest.Wait()
		if s.alls != 3 {
			t.Errorf("after %s, %d observations are under way", time.Since(began), s.alls)
		}
		s.change(func() { s.held = nil })
		next := g.JoinAll()
		time.Sleep(10 * patience)
		if isDone(next) {
			t.Error("a fourth observation began beside three that hang")
		}
		close(held)
		for _, f := range append(hung, next) {
			<-f.Done()
			if _, err := f.Result(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestAllServesOnes: when many readers wait for single keys, observations of all keys serve them, which take
// at most a third of the time.
func TestAllServesOnes(t *testing.T) {
	for _, takes := range []time.Duration{20 * time.Millisecond, 200 * time.Millisecond, 800 * time.Millisecond} {
		t.Run(takes.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *source, g *flight.Group[int, int], _ func()) {
				s.one = func() time.Duration { return 50 * time.Millisecond }
				s.all = func() time.Duration { return takes }
				began := time.Now()
				var slowest time.Duration
				var readers sync.WaitGroup
				for key := range keys {
					readers.Go(func() {
						for range 10 {
							asked := time.Now()
							<-g.JoinOne(key).Done()
							s.change(func() { slowest = max(slowest, time.Since(asked)) })
						}
					})
				}
				readers.Wait()
				took := time.Since(began)
				t.Logf("%d reads in %s, the slowest in %s: %d observations of single keys, %d of all", 10*keys, took, slowest, s.askedOnes, s.askedAlls)
				if s.askedOnes > 4 || s.askedAlls > 11 { // four readers are a round ahead of the others
					t.Errorf("%d observations of single keys and %d of all", s.askedOnes, s.askedAlls)
				}
				// The last one is followed by no pause. If an observation takes long, readers' patience comes first.
				if busy := time.Duration(s.askedAlls) * takes; takes <= patience/6 && busy > took/3+takes {
					t.Errorf("observations of all keys took %s of %s", busy, took)
				}
				if slowest > patience+takes {
					t.Errorf("a reader waited %s", slowest)
				}
			})
		})
	}
}

// TestOnesBesideWhatIsOverdue: while an observation of all keys is overdue, readers of single keys, however many, do not wait for
// another one, which would be overdue, too.
func TestOnesBesideWhatIsOverdue(t *testing.T) {
	inBubble(t, func(t *testing.T, s *source, g *flight.Group[int, int], _ func()) {
		s.one = func() time.Duration { return time.Millisecond }
		s.all = func() time.Duration { return 5 * patience }
		for key := range keys {
			g.JoinOne(key)
		}
		time.Sleep(patience)
		synctest.Wait()
		began := time.Now()
		var flights []*flight.Flight[int]
		for key := range keys {
			flights = append(flights, g.JoinOne(key))
		}
		for _, f := range flights {
			<-f.Done()
		}
		if waited := time.Since(began); waited > time.Second {
			t.Errorf("%d readers waited %s", keys, waited)
		}
	})
}

// TestErrorIsShared by all readers of a flight; a reader of one key is not told what concerns another.
func TestErrorIsShared(t *testing.T) {
	for name, join := range joins {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *source, g *flight.Group[int, int], _ func()) {
				refused := errors.New("connection refused")
				s.err, s.one, s.all = refused, func() time.Duration { return time.Millisecond }, func() time.Duration { return time.Millisecond }
				first := join(g)
				second, third := join(g), join(g)
				for _, f := range []*flight.Flight[int]{first, second, third} {
					<-f.Done()
					if _, err := f.Result(); !errors.Is(err, refused) {
						t.Errorf("got %v", err)
					}
				}
				if n := s.askedOnes + s.askedAlls; n > 2 {
					t.Errorf("three readers cost %d observations", n)
				}
			})
		})
	}
	t.Run("of one key in an observation of all", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *source, g *flight.Group[int, int], _ func()) {
			s.one = func() time.Duration { return 500 * time.Millisecond }
			s.err = partial{50}
			flights := map[int]*flight.Flight[int]{}
			for key := 40; key < 60; key++ {
				flights[key] = g.JoinOne(key)
			}
			for key, f := range flights {
				<-f.Done()
				_, err := f.Result()
				if key >= 44 && (err != nil) != (key == 50) { // four have begun one by one
					t.Errorf("key %d: %v", key, err)
				}
			}
			if s.askedAlls != 2 { // as soon as there are too many readers, and once more for those who come later
				t.Errorf("all keys were observed %d times", s.askedAlls)
			}
		})
	})
}

// TestContextEnds: observations end with the context of the group, and nothing begins after that by itself.
func TestContextEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, s *source, g *flight.Group[int, int], stop func()) {
		s.held = make(chan struct{})
		one, all := g.JoinOne(0), g.JoinAll()
		for key := range 20 {
			g.JoinOne(key)
		}
		synctest.Wait()
		began := time.Now()
		stop()
		g.Wait()
		if took := time.Since(began); took != 0 {
			t.Errorf("the observations took %s to end", took)
		}
		for _, f := range []*flight.Flight[int]{one, all} {
			<-f.Done()
			if _, err := f.Result(); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		}
		time.Sleep(time.Hour)
		if s.ones+s.alls != 0 {
			t.Errorf("%d observations are under way", s.ones+s.alls)
		}
	})
}

// TestOnesBesideAlls: readers of single keys are served, however many of all keys there are: some have joined whenever an observation
// of all keys ends.
func TestOnesBesideAlls(t *testing.T) {
	inBubble(t, func(t *testing.T, s *source, g *flight.Group[int, int], _ func()) {
		s.all = func() time.Duration { return 50 * time.Millisecond }
		end := make(chan struct{})
		var lists sync.WaitGroup
		defer lists.Wait()
		defer close(end)
		for range 2 {
			lists.Go(func() {
				for {
					select {
					case <-g.JoinAll().Done():
					case <-end:
						return
					}
				}
			})
		}
		for range 3 { // the later ones while others are gathered
			var ones []*flight.Flight[int]
			for key := range 10 { // for more than five, one of all is cheaper
				ones = append(ones, g.JoinOne(key))
			}
			timeout := time.After(500 * time.Millisecond)
			for key, f := range ones {
				select {
				case <-f.Done():
				case <-timeout:
					t.Fatalf("key %d is not observed", key)
				}
			}
		}
	})
}

// TestGivenUp: nobody waits for what nobody waits for any more.
func TestGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T, s *source, g *flight.Group[int, int], _ func()) {
		s.one = func() time.Duration { return 500 * time.Millisecond }
		s.held = make(chan struct{}) // what is under way ends when that is closed, or by its own limit
		joined := map[int]*flight.Flight[int]{}
		for key := range 9 { // four of them are under way at a time, and five wait
			joined[key] = g.JoinOne(key)
		}
		again := g.JoinOne(8)
		for key, f := range joined {
			g.LeaveOne(key, f) // for key 8, there is another reader
		}
		later := g.JoinOne(50)
		if back := g.JoinOne(4); back == joined[4] {
			t.Error("who comes back waits for an observation that does not begin")
		}
		close(s.held)
		<-again.Done()
		<-later.Done()
		synctest.Wait()
		if s.change(func() {}); s.askedOnes != 4+3 {
			t.Errorf("%d keys are observed, want those that were under way, 4, 8 and 50", s.askedOnes)
		}
	})
}
