// SPDX-License-Identifier: Apache-2.0

package live

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// History knows when the hosts that have their nodes in an Ironic were observed. It outlives a Refresher: what is recorded is as old as
// it is while the Ironic cannot be used, and when it is reached in another way.
type History struct {
	mu sync.Mutex // guards all that follows
	// seen has when the latest observation of a single host began, if that is later than seenAll.
	seen    map[types.NamespacedName]time.Time
	seenAll time.Time // when the latest complete observation of all hosts began
	// unseen are the hosts that the observation at seenAll failed to show, by when they were seen before.
	unseen map[types.NamespacedName]time.Time
}

// newHistory returns a History in which nothing has been observed.
func newHistory() *History { return &History{seen: map[types.NamespacedName]time.Time{}} }

// LastSeen returns when the latest observation of a host began, or the zero time if there was none. The empty key stands for all
// hosts.
func (h *History) LastSeen(key types.NamespacedName) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lastSeenLocked(key)
}

func (h *History) lastSeenLocked(key types.NamespacedName) time.Time {
	if t, unseen := h.unseen[key]; unseen {
		return t
	}
	if t := h.seen[key]; t.After(h.seenAll) {
		return t
	}
	return h.seenAll
}

// saw notes when an observation of a single host began that has ended. tooMany is set if so many were noted since the last observation of
// all hosts that another one should be made.
func (h *History) saw(key types.NamespacedName, began time.Time) (tooMany bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen[key] = began
	if _, unseen := h.unseen[key]; unseen { // began may be before seenAll
		h.unseen[key] = began
	}
	return len(h.seen) > maxRemembered
}

// sawAll notes when an observation of all hosts began that has ended, and which hosts it failed to show.
func (h *History) sawAll(began time.Time, failed map[types.NamespacedName]error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !began.After(h.seenAll) {
		return
	}
	unseen := make(map[types.NamespacedName]time.Time, len(failed))
	for key := range failed {
		unseen[key] = h.lastSeenLocked(key)
	}
	h.seenAll, h.unseen = began, unseen
	for key, seen := range h.seen {
		if seen.Before(began) {
			delete(h.seen, key)
		}
	}
}
