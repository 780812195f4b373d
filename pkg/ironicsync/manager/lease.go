// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
)

// heldLease is a Lease that knows until when no other replica can take it. The elector itself
// notices only after a while that it has lost the Lease if this process was suspended.
type heldLease struct {
	resourcelock.Interface
	duration time.Duration
	clock    clock.PassiveClock

	mu sync.Mutex
	// holder is who had the Lease when it was last read or written.
	holder string
	held   bool
	// asked is when the renewal was asked for that has succeeded last.
	asked time.Time
}

func newHeldLease(lock resourcelock.Interface, duration time.Duration, clock clock.PassiveClock) *heldLease {
	return &heldLease{Interface: lock, duration: duration, clock: clock}
}

// Get implements resourcelock.Interface.
func (l *heldLease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.holder = record.HolderIdentity
		l.held = l.held && l.holder == l.Identity()
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l *heldLease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.note(record, func() error { return l.Interface.Create(ctx, record) })
}

// Update implements resourcelock.Interface. It gives up only what is this process's own: the elector releases a Lease that it has failed
// to renew by what it knew before, and would take it away from its successor.
func (l *heldLease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity != l.Identity() && !l.isOwn() {
		return nil
	}
	return l.note(record, func() error { return l.Interface.Update(ctx, record) })
}

func (l *heldLease) note(record resourcelock.LeaderElectionRecord, write func() error) error {
	asked := l.clock.Now()
	err := write()
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.holder = record.HolderIdentity
		l.held, l.asked = l.holder == l.Identity(), asked
	}
	return err
}

// isOwn reports whether the Lease was this process's own when it was last read or written.
func (l *heldLease) isOwn() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holder == l.Identity()
}

// isHeld reports whether the Lease cannot have run out, neither by wall time, which passes while the
// machine is suspended, nor by the monotonic clock, which nobody sets.
func (l *heldLease) isHeld() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	return l.held && now.Sub(l.asked) < l.duration && now.Round(0).Sub(l.asked.Round(0)) < l.duration
}
