// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"container/list"
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
	// greed bounds the share of a namespace: of more than one host in it, at most greed times as many may be running as
	// there is room left for. Nil and 0 are no bound.
	greed func() int

	mu sync.Mutex
	// grants are the hosts that may start and were not seen at work yet.
	grants map[host]grant
	// lost are the arrivals of hosts that did not ask while they might start, because whoever plans them has
	// a backlog. One that asks later gets its place back.
	lost map[host]uint64
	// waiting are the hosts that asked in vain, in each namespace in the order in which
	// they came; places are where each of them is. No namespace has an empty list.
	waiting  map[string]*list.List
	places   map[host]*list.Element
	arrivals uint64
}

type host struct{ namespace, name string }

// grant says since when a host may start, which arrival it was, and whether it has asked since then.
type grant struct {
	since  time.Time
	number uint64
	asked  bool
}

// arrival is a host in waiting, and which arrival it was of all.
type arrival struct {
	host
	number uint64
}

// New returns a Gate that lets limit hosts work at a time; 0 is no limit. busy
// tells how many are at work now, by namespace, whoever started them. It is called
// whenever a host asks to start, so it must not take longer with more hosts, and it must
// not call the Gate.
func New(limit int, busy func() map[string]int) *Gate {
	return &Gate{limit: limit, busy: busy, clock: clock.RealClock{}, grants: map[host]grant{}, lost: map[host]uint64{}, waiting: map[string]*list.List{}, places: map[host]*list.Element{}}
}

// NewPaced is New with a bound on how many start in each second, too.
func NewPaced(limit, perSecond int, busy func() map[string]int) *Gate {
	g := New(limit, busy)
	g.pace = rate.NewLimiter(rate.Limit(perSecond), perSecond)
	return g
}

// WithShares bounds the share of a namespace, and returns g: with greed 9 and a limit of 50, one namespace may have 45, and the
// next one four. greed must not call the Gate. A Gate that is in use must not be changed.
func (g *Gate) WithShares(greed func() int) *Gate {
	g.greed = greed
	return g
}

// TryStart reports whether the host may start now. If not, it waits for its turn,
// which NextReady announces. Asking again changes nothing: a host that waits keeps its
// place, and one that may start still may.
func (g *Gate) TryStart(namespace, name string) bool {
	if g.limit <= 0 {
		return true
	}
	h := host{namespace, name}
	g.mu.Lock()
	defer g.mu.Unlock()
	running, room := g.load()
	if granted, ok := g.grants[h]; ok {
		granted.asked = true
		g.grants[h] = granted
		return true
	}
	g.enqueue(h)
	if (g.greed != nil || room < len(g.places)) && !slices.Contains(g.turns(running, room, room), h) {
		return false
	}
	g.grant(h, true)
	return true
}

// NextReady returns the waiting host whose turn it is, if there is room: that of the
// namespace in which the fewest are running, and there the one that has waited
// longest. The room is kept for it until it asks with TryStart; it must ask, or be
// forgotten.
func (g *Gate) NextReady() (namespace, name string, ok bool) {
	if g.limit <= 0 {
		return "", "", false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.places) == 0 {
		return "", "", false
	}
	running, room := g.load()
	first := g.turns(running, room, 1)
	if len(first) == 0 {
		return "", "", false
	}
	g.grant(first[0], false)
	return first[0].namespace, first[0].name, true
}

// Keep has a host keep its place for longer that may start.
func (g *Gate) Keep(namespace, name string) {
	if g.limit <= 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	h := host{namespace, name}
	g.dequeue(h)
	delete(g.lost, h)
	g.grants[h] = grant{since: g.clock.Now(), asked: true}
}

// Seen says that busy counts the host from now on.
func (g *Gate) Seen(namespace, name string) { g.Forget(namespace, name) }

// Forget says that the host is gone, or does not want to start any more.
func (g *Gate) Forget(namespace, name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.grants, host{namespace, name})
	delete(g.lost, host{namespace, name})
	g.dequeue(host{namespace, name})
}

func (g *Gate) enqueue(h host) {
	if g.places[h] != nil {
		return
	}
	queue := g.waiting[h.namespace]
	if queue == nil {
		queue = list.New()
		g.waiting[h.namespace] = queue
	}
	number, lost := g.lost[h]
	if !lost {
		g.arrivals++
		g.places[h] = queue.PushBack(arrival{h, g.arrivals})
		return
	}
	delete(g.lost, h)
	next := queue.Front() // only other hosts that had lost their place can be before it
	for next != nil && next.Value.(arrival).number < number {
		next = next.Next()
	}
	if next == nil {
		g.places[h] = queue.PushBack(arrival{h, number})
	} else {
		g.places[h] = queue.InsertBefore(arrival{h, number}, next)
	}
}

func (g *Gate) dequeue(h host) {
	place := g.places[h]
	if place == nil {
		return
	}
	delete(g.places, h)
	queue := g.waiting[h.namespace]
	if queue.Remove(place); queue.Len() == 0 {
		delete(g.waiting, h.namespace)
	}
}

func (g *Gate) grant(h host, asked bool) {
	number := g.places[h].Value.(arrival).number
	g.dequeue(h)
	g.grants[h] = grant{g.clock.Now(), number, asked}
	if g.pace != nil {
		g.pace.AllowN(g.clock.Now(), 1)
	}
}

// load returns how many hosts are running or may start, by namespace, and how many
// more may. It drops grants that are too old.
func (g *Gate) load() (running map[string]int, room int) {
	maps.DeleteFunc(g.grants, func(h host, granted grant) bool {
		if g.clock.Since(granted.since) < grantTime {
			return false
		}
		if !granted.asked {
			g.lost[h] = granted.number
		}
		return true
	})
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

// turns returns the first n of those that wait and that there is room for, in the order in which it is their
// turn. It counts them in running.
func (g *Gate) turns(running map[string]int, room, n int) (order []host) {
	if room <= 0 {
		return nil
	}
	greed := 0
	if g.greed != nil {
		greed = g.greed()
	}
	first := make(map[string]*list.Element, len(g.waiting)) // of those not in order yet, by namespace
	for namespace, queue := range g.waiting {
		first[namespace] = queue.Front()
	}
	for ; len(order) < n && room > 0; room-- {
		var next arrival
		for namespace, place := range first {
			if n := running[namespace]; greed > 0 && n > 0 && n+1 > greed*(room-1) {
				continue // it has its share
			}
			candidate := place.Value.(arrival)
			fewer := running[namespace] - running[next.namespace]
			if next.number == 0 || fewer < 0 || fewer == 0 && candidate.number < next.number {
				next = candidate
			}
		}
		if next.number == 0 {
			break
		}
		order = append(order, next.host)
		running[next.namespace]++
		if first[next.namespace] = first[next.namespace].Next(); first[next.namespace] == nil {
			delete(first, next.namespace)
		}
	}
	return order
}
