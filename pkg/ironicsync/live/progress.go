// SPDX-License-Identifier: Apache-2.0

package live

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// progress knows which hosts were observed when, and what is under way.
type progress struct {
	mu sync.Mutex // guards all that follows
	// seen has when the latest observation of a single host began, if that is later than seenAll.
	seen    map[types.NamespacedName]time.Time
	seenAll time.Time // when the latest complete observation of all hosts began
	// unseen are the hosts that the observation at seenAll failed to show, by when they were seen before.
	unseen map[types.NamespacedName]time.Time
	// sweeping is set while a sweep for which no reader waits is under way in the background.
	sweeping bool
	// unreadable are the nodes that Ironic could not show when all were last read.
	unreadable []string
}

// saw notes when an observation of a single host began that has ended. tooMany is set if so many were noted since the last observation of
// all hosts that another one should be made.
func (p *progress) saw(key types.NamespacedName, began time.Time) (tooMany bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[key] = began
	if _, unseen := p.unseen[key]; unseen { // began may be before seenAll
		p.unseen[key] = began
	}
	return len(p.seen) > maxRemembered
}

// sawAll notes when an observation of all hosts began that has ended, and which hosts it failed to show.
func (p *progress) sawAll(began time.Time, failed map[types.NamespacedName]error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !began.After(p.seenAll) {
		return
	}
	unseen := make(map[types.NamespacedName]time.Time, len(failed))
	for key := range failed {
		unseen[key] = p.lastSeenLocked(key)
	}
	p.seenAll, p.unseen = began, unseen
	for key, seen := range p.seen {
		if seen.Before(began) {
			delete(p.seen, key)
		}
	}
}

// lastSeen returns when the latest observation of a host began. The empty key stands for all
// hosts.
func (p *progress) lastSeen(key types.NamespacedName) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lastSeenLocked(key)
}

func (p *progress) lastSeenLocked(key types.NamespacedName) time.Time {
	if t, unseen := p.unseen[key]; unseen {
		return t
	}
	if t := p.seen[key]; t.After(p.seenAll) {
		return t
	}
	return p.seenAll
}

// isSweeping reports whether a sweep is under way in the background.
func (p *progress) isSweeping() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sweeping
}

// beginSweep notes that a sweep begins in the background, and returns true, if one is due and none is under way.
func (p *progress) beginSweep(isDue func() bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sweeping || !isDue() {
		return false
	}
	p.sweeping = true
	return true
}

// endSweep notes that the sweep has ended.
func (p *progress) endSweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweeping = false
}

// setUnreadable notes the nodes that Ironic could not show, and reports whether they were others before.
func (p *progress) setUnreadable(nodes []string) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed = !slices.Equal(p.unreadable, nodes)
	p.unreadable = nodes
	return changed
}
