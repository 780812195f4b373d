// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
)

const (
	leaseNamespace = "metal3-system"
	leaseName      = "metal3-apiserver"
)

// fakeCount is a count in memory.
type fakeCount struct {
	mu    sync.Mutex
	count int64
	err   error
	lost  bool // the answers to Set, which has happened
	// before and after are called once, around the next Get.
	before, after func()
}

func (c *fakeCount) Get(context.Context) (int64, error) {
	before, after := c.before, c.after
	c.before, c.after = nil, nil
	if before != nil {
		before()
	}
	if after != nil {
		defer after()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count, c.err
}

func (c *fakeCount) Set(_ context.Context, previous, count int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if previous != c.count {
		return errors.New("another process has counted meanwhile")
	}
	c.count = count
	if c.lost {
		return errors.New("no answer")
	}
	return nil
}

func (c *fakeCount) restore(count int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count = count
}

func newGuard(count Counter) *restoreGuard {
	leases := fake.NewClientset(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leaseNamespace, Name: leaseName}}).CoordinationV1().Leases(leaseNamespace)
	return &restoreGuard{leases: leases, namespace: leaseNamespace, name: leaseName, count: count, at: &fakeCount{}, counted: new(atomic.Int64), clock: clock.RealClock{}}
}

// successor is the guard of another process.
func (g *restoreGuard) successor() *restoreGuard {
	return &restoreGuard{leases: g.leases, namespace: g.namespace, name: g.name, count: g.count, at: g.at, counted: new(atomic.Int64), clock: g.clock}
}

// letGoOn does what the documentation tells administrators to do after a restore.
func letGoOn(t *testing.T, leases coordinationclient.LeaseInterface) {
	t.Helper()
	// The leader may renew the Lease at the same moment.
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		lease, err := leases.Get(t.Context(), leaseName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		delete(lease.Annotations, restoredAnnotation)
		_, err = leases.Update(t.Context(), lease, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRestoreGuard: a server whose etcd is older than it was is held until somebody has
// removed the annotation that says so, and is not held again for the same reason.
func TestRestoreGuard(t *testing.T) {
	count := &fakeCount{}
	guard := newGuard(count)
	restoredAt := int64(0)
	check := func(what string, wanted bool) {
		t.Helper()
		if err := guard.check(t.Context()); err != nil {
			t.Fatal(err)
		}
		if held := guard.restored() != ""; held != wanted {
			t.Errorf("%s: held %t, because %q", what, held, guard.restored())
		}
		// What was recorded before is of a backup, and what is recorded when the server goes on is not.
		if at := guard.restoredAt.Load(); wanted && at != count.count || !wanted && at >= count.count || at < restoredAt {
			t.Errorf("%s: restored at the count %d, before at %d, and it is %d", what, at, restoredAt, count.count)
		} else {
			restoredAt = at
		}
	}
	check("a new installation", false)
	backup := count.count
	check("a minute later", false)
	count.restore(count.count + 1) // a process that died between etcd and the Lease
	check("killed", false)
	count.restore(backup)
	check("restored", true)
	for _, word := range []string{"restored", restoredAnnotation, leaseNamespace + "/" + leaseName} {
		if !strings.Contains(guard.restored(), word) {
			t.Errorf("%q does not tell %q", guard.restored(), word)
		}
	}
	other := guard.successor()
	if err := other.check(t.Context()); err != nil || other.restored() == "" {
		t.Errorf("another leader, which has seen nothing, goes on (%v)", err)
	}
	check("and time alone", true)
	letGoOn(t, guard.leases)
	check("let go on", false)
	check("a minute later", false)
	count.restore(count.count - 1)
	check("restored to a minute ago", true)
	letGoOn(t, guard.leases)
	check("let go on once more", false)
	check("another minute later", false)
	count.restore(0)
	check("replaced by an empty one", true)

	deleteLease := func() {
		if err := guard.leases.Delete(t.Context(), leaseName, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	deleteLease()
	check("its Lease deleted", true)
	letGoOn(t, guard.leases)
	check("let go on with the new Lease", false)
	check("another minute later", false)
	deleteLease()
	check("its Lease deleted while this process knows the count", false)
	check("a minute after that", false)
	deleteLease()
	count.restore(count.count - 1)
	check("its Lease deleted, and restored", true)
	deleteLease()
	check("its Lease deleted while it is held", true)
	letGoOn(t, guard.leases)
	check("let go on for the last time", false)
	deleteLease()
	guard = guard.successor()
	check("its Lease deleted while no process ran", true)
	letGoOn(t, guard.leases)
	check("let go on by the successor", false)
	guard = guard.successor()
	guard.name = "of-another-name"
	check("another Lease", true)
}

// TestRestoreGuardOfNewInstallation: a process that dies before the first count is in the Lease holds nothing.
func TestRestoreGuardOfNewInstallation(t *testing.T) {
	guard := newGuard(&fakeCount{count: firstCount})
	if err := guard.check(t.Context()); err != nil || guard.restored() != "" {
		t.Errorf("held because of %q (%v)", guard.restored(), err)
	}
}

// TestTwoCount: a former leader that ends its term counts while its successor begins. Neither takes that for a restore.
func TestTwoCount(t *testing.T) {
	for name, meanwhile := range map[string]func(*fakeCount, func()){
		"before etcd is read": func(c *fakeCount, counts func()) { c.before = counts },
		"after etcd was read": func(c *fakeCount, counts func()) { c.after = counts },
	} {
		t.Run(name, func(t *testing.T) {
			count := &fakeCount{}
			former := newGuard(count)
			for range 3 {
				if err := former.check(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			next := former.successor()
			meanwhile(count, func() {
				if err := former.check(t.Context()); err != nil {
					t.Error(err)
				}
			})
			_ = next.check(t.Context()) // another one has counted meanwhile
			for _, guard := range []*restoreGuard{next, former} {
				if err := guard.check(t.Context()); err != nil || guard.restored() != "" {
					t.Errorf("%v, restored: %q", err, guard.restored())
				}
			}
		})
	}
}

// TestRestoreGuardNotifies: while the server runs, a restore is noticed within some 70 seconds and that it
// may go on within some 6, and each is told once.
func TestRestoreGuardNotifies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		count := &fakeCount{}
		guard := newGuard(count)
		notified := 0
		guard.notify = append(guard.notify, func() { notified++ })
		if err := guard.check(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); guard.run(ctx) }()
		expect := func(when string, held bool, want int) {
			t.Helper()
			synctest.Wait()
			if (guard.restored() != "") != held || notified != want {
				t.Errorf("%s: held because of %q, and %d changes were notified, want %d", when, guard.restored(), notified, want)
			}
		}
		time.Sleep(10 * time.Minute)
		expect("nothing has happened", false, 0)
		count.restore(0)
		time.Sleep(70 * time.Second)
		expect("restored", true, 1)
		count.mu.Lock()
		count.err = errors.New("etcd does not answer")
		count.mu.Unlock()
		time.Sleep(time.Minute)
		expect("not known", true, 1)
		count.mu.Lock()
		count.err = nil
		count.mu.Unlock()
		letGoOn(t, guard.leases)
		time.Sleep(6 * time.Second)
		expect("let go on", false, 2)
		cancel()
		<-ended
	})
}

// TestConfirm: a restore is noticed at once by who asks before a step that interrupts what a machine runs, and not only when the guard looks
// again. That another process, or this one at the same moment, has counted is none.
func TestConfirm(t *testing.T) {
	count := &fakeCount{}
	g := newGuard(count)
	if err := g.check(t.Context()); err != nil {
		t.Fatal(err)
	}
	confirmed := func(what string, want bool) {
		t.Helper()
		if err := g.confirm(t.Context()); (err == nil) != want {
			t.Errorf("%s: %v", what, err)
		}
	}
	confirmed("nothing has happened", true)
	if err := g.successor().check(t.Context()); err != nil {
		t.Fatal(err)
	}
	confirmed("another process has counted", true)
	count.err = errors.New("no answer")
	confirmed("etcd does not answer", false)
	count.err = nil
	if confirmed("etcd answers", true); g.restored() != "" {
		t.Error(g.restored())
	}
	count.restore(1)
	if confirmed("etcd was restored", false); g.restored() == "" {
		t.Error("it does not hold the hosts")
	}
	letGoOn(t, g.leases)
	if err := g.check(t.Context()); err != nil {
		t.Fatal(err)
	}
	confirmed("somebody has let it go on", true)
}

// TestConfirmWithoutLease: what this process has written to etcd tells it of a restore, too, when the Lease could not be told; and that a count
// got no answer, and was written, is no restore.
func TestConfirmWithoutLease(t *testing.T) {
	count := &fakeCount{}
	g := newGuard(count)
	for range 2 {
		if err := g.check(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	count.lost = true
	if err := g.check(t.Context()); err == nil {
		t.Error("a count without an answer passes for one that was written")
	}
	leases := g.leases
	g.leases = forbiddenLeases{leases}
	if err := g.confirm(t.Context()); err != nil {
		t.Errorf("after a count without an answer: %v", err)
	}
	g.leases, count.lost = leases, false
	if err := g.check(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.leases = unwritableLeases{leases}
	if err := g.check(t.Context()); err == nil {
		t.Error("a Lease that could not be told passes for one that was")
	}
	g.leases = leases
	count.restore(count.count - 1) // what the Lease has
	if err := g.confirm(t.Context()); err == nil || g.restored() == "" {
		t.Error("a backup with the count of the Lease is not noticed")
	}
}

// forbiddenLeases can be read by nobody.
type forbiddenLeases struct {
	coordinationclient.LeaseInterface
}

func (forbiddenLeases) Get(context.Context, string, metav1.GetOptions) (*coordinationv1.Lease, error) {
	return nil, errors.New("forbidden")
}

// unwritableLeases can be read only.
type unwritableLeases struct {
	coordinationclient.LeaseInterface
}

func (unwritableLeases) Update(context.Context, *coordinationv1.Lease, metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return nil, errors.New("forbidden")
}
