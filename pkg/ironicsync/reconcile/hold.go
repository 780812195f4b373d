// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"maps"
	"sync"
)

// Hold keeps all machines from being touched while there is a reason: etcd was restored from a backup, and
// what it says of hosts may be outdated; or the Bare Metal Operator is running.
type Hold struct {
	changed chan struct{}

	mu sync.Mutex
	// messages are what is to be said, by the reasons of the condition Held.
	messages map[string]string
}

// NewHold returns a Hold without a reason.
func NewHold() *Hold { return &Hold{changed: make(chan struct{}, 1), messages: map[string]string{}} }

// Set sets the message of a reason; without a message, the reason is over. Every host is planned again if that is a change.
func (h *Hold) Set(reason, message string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if message == h.messages[reason] {
		return
	}
	h.messages[reason] = message
	maps.DeleteFunc(h.messages, func(_, message string) bool { return message == "" })
	select {
	case h.changed <- struct{}{}:
	default: // a change is about to be noticed
	}
}

// Message returns why nothing may be done to any machine for a reason, or an empty text.
func (h *Hold) Message(reason string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.messages[reason]
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
