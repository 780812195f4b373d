// Package capacity bounds how many hosts are inspected, provisioned and
// deprovisioned at a time, and shares what there is between namespaces.
package capacity

import (
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
)

// grantTime is how long a host that may start is counted before it is seen at
// work: after that, its start has failed or is not wanted any more.
const grantTime = 30 * time.Second

// Gate decides who may start. It has no goroutines and no timers: room is noticed
// when somebody asks. All methods may be called concurrently.
type Gate struct {
	limit int
	busy  func() map[string]int
	clock clock.PassiveClock
	pace  *rate.Limiter // nil: as fast as there is room

	mu sync.Mutex
	// grants are the hosts that may start and were not seen at work yet.
	grants map[host]time.Time
	// waiting are the hosts that asked in vain, by the order in which they came.
	waiting  map[host]uint64
	arrivals uint64
}

type host struct{ namespace, name string }

// New returns a Gate that lets limit hosts work at a time; 0 is no limit. busy
// tells how many are at work now, by namespace, whoever started them. It must not
// call the Gate.
func New(limit int, busy func() map[string]int) *Gate {
	return &Gate{limit: limit, busy: busy, clock: clock.RealClock{}, grants: map[host]time.Time{}, waiting: map[host]uint64{}}
}

// NewPaced is New with a bound on how many start in each second, too.
func NewPaced(limit, perSecond int, busy func() map[string]int) *Gate {
	g := New(limit, busy)
	g.pace = rate.NewLimiter(rate.Limit(perSecond), perSecond)
	return g
}

// TryStart tells whether the host may start now. If not, it waits for its turn,
// which Next announces. Asking again changes nothing: a host that waits keeps its
// place, and one that may start still may.
func (g *Gate) TryStart(namespace, name string) bool {
	if g.limit <= 0 {
		return true
	}
	h := host{namespace, name}
	g.mu.Lock()
	defer g.mu.Unlock()
	running, room := g.load()
	if _, granted := g.grants[h]; granted {
		return true
	}
	if _, waits := g.waiting[h]; !waits {
		g.arrivals++
		g.waiting[h] = g.arrivals
	}
	if !slices.Contains(g.turns(running, room), h) {
		return false
	}
	g.grant(h)
	return true
}

// Next returns the waiting host whose turn it is, if there is room: that of the
// namespace in which the fewest are running, and there the one that has waited
// longest. The room is kept for it until it asks with TryStart; it must ask, or be
// forgotten.
func (g *Gate) NextReady() (namespace, name string, ok bool) {
	if g.limit <= 0 {
		return "", "", false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		return "", "", false // the usual case: busy need not count
	}
	running, room := g.load()
	first := g.turns(running, min(room, 1))
	if len(first) == 0 {
		return "", "", false
	}
	g.grant(first[0])
	return first[0].namespace, first[0].name, true
}

// Seen says that busy counts the host from now on.
func (g *Gate) Seen(namespace, name string) { g.Forget(namespace, name) }

// Forget says that the host is gone, or does not want to start any more.
func (g *Gate) Forget(namespace, name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.grants, host{namespace, name})
	delete(g.waiting, host{namespace, name})
}

func (g *Gate) grant(h host) {
	delete(g.waiting, h)
	g.grants[h] = g.clock.Now()
	if g.pace != nil {
		g.pace.AllowN(g.clock.Now(), 1)
	}
}

// load returns how many hosts are running or may start, by namespace, and how many
// more may. It drops grants that are too old.
func (g *Gate) load() (running map[string]int, room int) {
	maps.DeleteFunc(g.grants, func(_ host, since time.Time) bool { return g.clock.Since(since) >= grantTime })
	running = map[string]int{}
	maps.Copy(running, g.busy())
	for h := range g.grants {
		running[h.namespace]++
	}
	room = g.limit
	for _, n := range running {
		room -= n
	}
	if g.pace != nil {
		room = min(room, int(g.pace.TokensAt(g.clock.Now())))
	}
	return running, room
}

// turns returns the first n of those that wait, in the order in which it is their
// turn. It counts them in running.
func (g *Gate) turns(running map[string]int, n int) []host {
	if n <= 0 {
		return nil
	}
	queues := map[string][]host{}
	for h := range g.waiting {
		queues[h.namespace] = append(queues[h.namespace], h)
	}
	for _, queue := range queues {
		slices.SortFunc(queue, func(a, b host) int { return int(g.waiting[a]) - int(g.waiting[b]) })
	}
	var order []host
	for len(order) < n && len(queues) > 0 {
		var first host
		for namespace, queue := range queues {
			fewer := running[namespace] - running[first.namespace]
			if first == (host{}) || fewer < 0 || fewer == 0 && g.waiting[queue[0]] < g.waiting[first] {
				first = queue[0]
			}
		}
		order = append(order, first)
		running[first.namespace]++
		if queues[first.namespace] = queues[first.namespace][1:]; len(queues[first.namespace]) == 0 {
			delete(queues, first.namespace)
		}
	}
	return order
}
