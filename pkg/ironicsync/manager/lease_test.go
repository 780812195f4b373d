// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
)

// fakeLock is a Lease that can be written as long as there is no error.
type fakeLock struct {
	resourcelock.Interface
	takes time.Duration
	err   error
	// holder has the Lease, and writes is how often it was written.
	holder string
	writes int
}

func (*fakeLock) Identity() string { return "this replica" }
func (l *fakeLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &resourcelock.LeaderElectionRecord{HolderIdentity: l.holder}, nil, l.err
}
func (l *fakeLock) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	time.Sleep(l.takes)
	if l.err == nil {
		l.holder = record.HolderIdentity
		l.writes++
	}
	return l.err
}
func (l *fakeLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, record)
}

// TestHeldLease checks until when a replica may act: others count from when they see the renewal,
// which is not before it was asked for.
func TestHeldLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock := &fakeLock{}
		lease := newHeldLease(lock, 10*time.Second, clock.RealClock{})
		expect := func(when string, want bool) {
			t.Helper()
			if got := lease.isHeld(); got != want {
				t.Errorf("%s: held is %t", when, got)
			}
		}
		write := func(write func(context.Context, resourcelock.LeaderElectionRecord) error, holder string) {
			_ = write(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: holder}) // the elector looks at the error
		}
		expect("at the beginning", false)
		write(lease.Create, "this replica")
		expect("created", true)
		time.Sleep(9 * time.Second)
		expect("nine seconds later", true)
		time.Sleep(time.Second)
		expect("ten seconds later", false)

		lock.takes = 4 * time.Second
		write(lease.Update, "this replica")
		expect("renewed slowly", true)
		time.Sleep(6 * time.Second)
		expect("ten seconds after the renewal was asked for", false)

		lock.takes = 0
		write(lease.Update, "this replica")
		lock.err = errors.New("the cluster cannot be reached")
		time.Sleep(5 * time.Second)
		write(lease.Update, "this replica")
		expect("not renewed", true)
		time.Sleep(5 * time.Second)
		expect("not renewed in time", false)

		lock.err = nil
		write(lease.Update, "this replica")
		write(lease.Update, "")
		expect("released", false)
	})
}

// TestLeaseOfSuccessor: a replica that has lost the Lease does not act, and does not release it, because another one has it now.
func TestLeaseOfSuccessor(t *testing.T) {
	lock := &fakeLock{}
	lease := newHeldLease(lock, 10*time.Second, clock.RealClock{})
	if err := lease.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "this replica"}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := lease.Get(t.Context()); err != nil || !lease.isHeld() {
		t.Errorf("%v, held: %t", err, lease.isHeld())
	}
	lock.holder = "another replica"
	if _, _, err := lease.Get(t.Context()); err != nil || lease.isHeld() {
		t.Errorf("%v, held: %t although another one has it", err, lease.isHeld())
	}
	if err := lease.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil || lock.writes != 1 {
		t.Errorf("%v, the Lease of another one was released", err)
	}
}
