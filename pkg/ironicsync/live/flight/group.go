// SPDX-License-Identifier: Apache-2.0

package flight

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Config says how a Group observes.
type Config[K comparable, V any] struct {
	Clock clock.WithDelayedExecution
	// ObserveOne observes one key. Its result is shared by all readers of the flight.
	ObserveOne func(ctx context.Context, key K) (V, error)
	// ObserveAll observes all keys. If the observation also serves readers of single keys, whose result
	// is the zero V then, ones has these.
	ObserveAll func(ctx context.Context, ones []K) error
	// ErrorFor returns what the error of an observation of all keys means for a reader of one key.
	ErrorFor func(key K, err error) error
	// AllIsCheaper reports whether an observation of all keys is cheaper than one of each of so many
	// single keys. It is called under the lock of the Group.
	AllIsCheaper func(ones int) bool

	// MaxOnes and MaxAlls bound the observations of single keys, and of all keys, that are under way
	// at a time.
	MaxOnes, MaxAlls int
	// OneTimeout bounds an observation of a single key.
	OneTimeout time.Duration
	// Patience is how long an observation of all keys may delay the next one.
	Patience time.Duration
	// MinGatherTime is the minimum time for which readers of single keys are gathered after an
	// observation of all keys on their behalf.
	MinGatherTime time.Duration
}

// Flight is one observation, for which any number of readers wait.
type Flight[V any] struct {
	done chan struct{}
	// result and err must not be read before done is closed.
	result V
	err    error
	// overdue is set when the observation has lasted as long as it may delay the next one. The lock
	// of the Group guards it, and readers, of a single key.
	overdue bool
	readers int
}

func newFlight[V any]() *Flight[V] { return &Flight[V]{done: make(chan struct{})} }

// Done is closed when the observation has ended.
func (f *Flight[V]) Done() <-chan struct{} { return f.done }

// Result returns the result of the observation, which all its readers share. It must not be called
// before Done is closed.
func (f *Flight[V]) Result() (V, error) { return f.result, f.err }

func (f *Flight[V]) land(result V, err error) {
	f.result, f.err = result, err
	close(f.done)
}

// Group begins observations and tells who waits for which; see the package's documentation.
type Group[K comparable, V any] struct {
	config  Config[K, V]
	ctx     context.Context // ends with the server; observations outlive the reader that started them
	running sync.WaitGroup

	mu          sync.Mutex
	waitingOnes map[K]*Flight[V] // flights of single keys that have not begun
	order       []K              // of waitingOnes, as they came; also of some that nobody waits for any more
	waitingAll  *Flight[V]       // the flight of all keys that has not begun; may be nil
	ones        map[K]bool       // single keys whose observation is under way
	alls        []*Flight[V]     // flights of all keys that are under way
	// gathering is set while readers of single keys are gathered for the next observation of all keys
	// on their behalf: there are too many for one observation each.
	gathering bool
}

// NewGroup returns a Group whose observations are cancelled when ctx ends.
func NewGroup[K comparable, V any](ctx context.Context, config Config[K, V]) *Group[K, V] {
	return &Group[K, V]{config: config, ctx: ctx, waitingOnes: map[K]*Flight[V]{}, ones: map[K]bool{}}
}

// Wait returns when all observations that are under way have ended. Cancel the context given to
// NewGroup first.
func (g *Group[K, V]) Wait() { g.running.Wait() }

// JoinOne returns the next observation of a key, which has not begun yet. Call LeaveOne when it is not waited for any more.
func (g *Group[K, V]) JoinOne(key K) *Flight[V] {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := g.waitingOnes[key]
	if f == nil {
		f = newFlight[V]()
		g.waitingOnes[key] = f
		g.order = append(g.order, key)
		g.dispatch()
	}
	f.readers++
	return f
}

// LeaveOne says that a reader does not wait for the observation of a key any more. If nobody does, it does not begin: those who
// wait for others are not to wait for it.
func (g *Group[K, V]) LeaveOne(key K, f *Flight[V]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f.readers--
	if f.readers == 0 && g.waitingOnes[key] == f {
		delete(g.waitingOnes, key)
	}
}

// JoinAll returns the next observation of all keys, which has not begun yet.
func (g *Group[K, V]) JoinAll() *Flight[V] {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := g.waitingAll
	if f == nil {
		f = newFlight[V]()
		g.waitingAll = f
		g.dispatch()
	}
	return f
}

// dispatch begins the flights that may begin now. g.mu is held.
func (g *Group[K, V]) dispatch() {
	// Those who wait for single keys come along with those who wait for all: there may always be some of the latter.
	forOnes := !g.gathering && !slices.ContainsFunc(g.alls, isOverdue) && g.config.AllIsCheaper(len(g.waitingOnes))
	if forOnes || g.waitingAll != nil {
		g.dispatchAll(forOnes)
	}
	if forOnes || g.gathering || len(g.ones) >= g.config.MaxOnes {
		return // endGathering, and the end of a flight, dispatch
	}
	g.order = slices.DeleteFunc(g.order, func(key K) bool {
		f := g.waitingOnes[key]
		switch {
		case f == nil: // nobody waits for it any more, or it comes twice: somebody left, and others came
			return true
		case len(g.ones) >= g.config.MaxOnes || g.ones[key]:
			return false
		}
		g.startOne(key, f)
		return true
	})
}

func isOverdue[V any](f *Flight[V]) bool { return f.overdue }

// dispatchAll begins a flight of all keys unless one is under way. Those that are overdue do not
// count, so that requests made before an outage do not delay the first reader after it. g.mu is held.
func (g *Group[K, V]) dispatchAll(forOnes bool) {
	isOnTime := func(f *Flight[V]) bool { return !isOverdue(f) }
	if len(g.alls) < g.config.MaxAlls && !slices.ContainsFunc(g.alls, isOnTime) {
		g.startAll(forOnes)
	}
}

// startOne begins a flight of a single key. g.mu is held.
func (g *Group[K, V]) startOne(key K, f *Flight[V]) {
	delete(g.waitingOnes, key)
	g.ones[key] = true
	g.running.Go(func() {
		ctx, cancel := context.WithTimeout(g.ctx, g.config.OneTimeout)
		defer cancel()
		f.land(g.config.ObserveOne(ctx, key))

		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.ones, key)
		g.dispatch()
	})
}

// startAll begins a flight of all keys. With forOnes, it also serves the readers that wait for single
// keys. g.mu is held.
func (g *Group[K, V]) startAll(forOnes bool) {
	f := g.waitingAll
	g.waitingAll = nil
	var joined map[K]*Flight[V]
	if forOnes {
		joined, g.waitingOnes, g.order = g.waitingOnes, map[K]*Flight[V]{}, nil
		g.gathering = true
	}
	if f == nil {
		f = newFlight[V]()
	}
	g.alls = append(g.alls, f)
	g.running.Go(func() {
		overdue := g.config.Clock.AfterFunc(g.config.Patience, func() { g.letNextBegin(f) })
		defer overdue.Stop()
		began := g.config.Clock.Now()
		err := g.config.ObserveAll(g.ctx, slices.Collect(maps.Keys(joined)))
		var none V
		f.land(none, err)
		for key, one := range joined {
			one.land(none, g.config.ErrorFor(key, err))
		}

		if forOnes {
			g.config.Clock.AfterFunc(g.gatherTime(g.config.Clock.Since(began)), g.endGathering)
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.alls = slices.DeleteFunc(g.alls, func(other *Flight[V]) bool { return other == f })
		g.dispatch()
	})
}

// gatherTime returns for how long readers of single keys are gathered after an observation of all
// keys that took so long. Those who were gathered meanwhile must have enough time left for the next.
func (g *Group[K, V]) gatherTime(took time.Duration) time.Duration {
	return min(max(g.config.MinGatherTime, 2*took), g.config.Patience-2*took)
}

// letNextBegin lets the next flight begin beside a flight of all keys that seems to hang. A timer
// calls it, and not a reader that has waited too long, because a reader whose own timeout is short
// stops waiting before that.
func (g *Group[K, V]) letNextBegin(f *Flight[V]) {
	if g.ctx.Err() != nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	f.overdue = true
	g.gathering = false
	g.dispatch()
}

// endGathering begins the flights that wait since the last observation of all keys on behalf of
// readers of single keys.
func (g *Group[K, V]) endGathering() {
	if g.ctx.Err() != nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gathering = false
	g.dispatch()
}
