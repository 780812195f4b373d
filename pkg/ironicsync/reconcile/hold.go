package reconcile

import (
	"context"
	"sync"
)

// Hold keeps all machines from being touched while it has a reason: etcd was restored from a backup, and
// what it says of hosts may be outdated.
type Hold struct {
	changed chan struct{}

	mu     sync.Mutex
	reason string
}

// NewHold returns a Hold without a reason.
func NewHold() *Hold { return &Hold{changed: make(chan struct{}, 1)} }

// Set sets the reason; an empty one ends the Hold. Every host is planned again if that is a change.
func (h *Hold) Set(reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if reason == h.reason {
		return
	}
	h.reason = reason
	select {
	case h.changed <- struct{}{}:
	default: // a change is about to be noticed
	}
}

// Reason returns why nothing may be done to any machine, or an empty text.
func (h *Hold) Reason() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.reason
}

// onChange calls changed after each change until ctx ends.
func (h *Hold) onChange(ctx context.Context, changed func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.changed:
			changed()
		}
	}
}
