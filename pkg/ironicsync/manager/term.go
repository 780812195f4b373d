// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"
)

// Runnable is a part of the leader's work. It works until ctx ends, and returns when everything that it has
// started has ended. An error ends the term.
type Runnable func(ctx context.Context) error

// Term is a period in which this replica leads.
type Term struct {
	lease     *heldLease // nil without leader election
	guard     *restoreGuard
	runnables []Runnable
	mayYield  bool
}

// Add adds what is to run in this term. It must be called by Setup.
func (t *Term) Add(runnables ...Runnable) { t.runnables = append(t.runnables, runnables...) }

// Leading reports whether no other replica can lead at this moment. It may return false before the term is
// known to have ended: this process may have been suspended meanwhile.
func (t *Term) Leading() bool { return t.lease == nil || t.lease.isHeld() }

// Restored returns why nothing may be done to machines; an empty string if something may. The reason is that
// the server's etcd was restored from a backup, and that nobody has let the server go on since.
func (t *Term) Restored() string { return t.guard.restored() }

// RestoredAt returns the count in the server's etcd at its last restore from a backup; 0 if there was none.
func (t *Term) RestoredAt() int64 { return t.guard.restoredAt.Load() }

// MayYield reports whether a Runnable of this term may return ErrYield.
func (t *Term) MayYield() bool { return t.mayYield }

// MayAct reports whether machines may be touched at this moment: this replica leads, and nothing is Restored.
func (t *Term) MayAct() bool { return t.Leading() && t.Restored() == "" }

// Confirm finds out whether the server's etcd was restored since the guard looked last, which it does every minute: what was decided since then
// may be by objects of long ago. It returns an error if it was, or if that is not known, and asks etcd once otherwise.
func (t *Term) Confirm(ctx context.Context) error { return t.guard.confirm(ctx) }

// OnRestored makes the term call changed whenever Restored has changed. It must be called by Setup, and
// changed must not block.
func (t *Term) OnRestored(changed func()) { t.guard.notify = append(t.guard.notify, changed) }

// work runs everything that setup adds, until ctx ends or a part of it fails. Only when all of it has stopped
// is it counted that this term has written to etcd.
func (t *Term) work(ctx context.Context, setup Setup) error {
	if err := t.guard.check(ctx); err != nil {
		return err // and tried again: nothing is done to machines before it is known
	}
	defer t.guard.countStop(ctx)
	if err := setup(ctx, t); err != nil {
		return err
	}
	group, running := errgroup.WithContext(ctx)
	for _, run := range t.runnables {
		group.Go(func() error { return run(running) })
	}
	group.Go(func() error { t.guard.run(running); return nil })
	err := group.Wait()
	if ctx.Err() != nil && errors.Is(context.Cause(running), context.Cause(ctx)) {
		return nil // what fails because ctx has ended has not failed
	}
	return err
}
