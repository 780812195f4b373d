// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// The leader counts in two places: in the server's etcd, and in an annotation of its Lease, which
// is in the etcd of the cluster. A backup of the server's etcd has an older count. (The revision of
// etcd does not tell: it is raised when a backup is restored, so that the watches of clients go on.)
const (
	// countAnnotation is the count in the Lease.
	countAnnotation = "metal3.io/etcd-count"
	// restoredAnnotation says that etcd was restored. Whoever removes it lets the server go on.
	restoredAnnotation = "metal3.io/restored"
)

const (
	// firstCount is the count of a new installation. A process that dies before it has written it to the Lease
	// leaves it in etcd alone.
	firstCount = 1
	// countInterval is how often the leader counts.
	countInterval = time.Minute
	// restoredInterval is how often a server that is held looks whether it may go on.
	restoredInterval = 5 * time.Second
	// restoreCheckTimeout limits a check.
	restoreCheckTimeout = 5 * time.Second
)

// Counter is a number that is stored in the server's etcd; 0 if it never was.
type Counter interface {
	Get(context.Context) (int64, error)
	// Set replaces a count. It fails if another process has replaced it since: a former leader whose
	// machine was suspended must not set it back.
	Set(ctx context.Context, previous, count int64) error
}

// restoreGuard finds out whether the server's etcd was restored from a backup.
type restoreGuard struct {
	leases          coordinationclient.LeaseInterface
	namespace, name string
	count           Counter
	// at is the count at the last restore, which is stored in etcd, too, beside the hosts whose records it is about. restoredAt is what it is.
	at         Counter
	restoredAt atomic.Int64
	// counted is the count that this process has written to etcd last; 0 if it has written none, or etcd was restored since. As long as
	// it is what etcd has, etcd was not restored, whatever has become of the Lease. It outlives terms.
	counted *atomic.Int64
	clock   clock.Clock
	// checking is held during a check.
	checking sync.Mutex
	// pending is the count that was to be written to etcd last, with or without success.
	pending atomic.Int64
	// notify are called after reason has changed.
	notify []func()

	mu sync.Mutex
	// reason is why nothing may be done to machines; empty when something may.
	reason string
}

func (g *restoreGuard) restored() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.reason
}

func (g *restoreGuard) setRestored(reason string) {
	g.mu.Lock()
	changed := g.reason != reason
	g.reason = reason
	g.mu.Unlock()
	if changed {
		for _, notify := range g.notify {
			notify()
		}
	}
}

// check compares the counts, counts on, and notes whether something may be done to machines.
func (g *restoreGuard) check(ctx context.Context) error {
	g.checking.Lock()
	defer g.checking.Unlock()
	return g.checkLocked(ctx)
}

func (g *restoreGuard) checkLocked(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, restoreCheckTimeout)
	defer cancel()
	reason, err := g.compare(ctx)
	if err != nil {
		return fmt.Errorf("finding out whether etcd was restored, with Lease %s/%s: %w", g.namespace, g.name, err)
	}
	if reason != "" {
		reason = fmt.Sprintf("%s. Nothing is done to any machine until somebody has looked at what is recorded and has removed the annotation %s from Lease %s/%s", reason, restoredAnnotation, g.namespace, g.name)
	}
	g.setRestored(reason)
	return nil
}

// confirm finds out whether etcd was restored since it was last counted, by one read of etcd. It returns an error if it was, or if that is
// not known.
func (g *restoreGuard) confirm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, restoreCheckTimeout)
	defer cancel()
	is, err := g.isCounted(ctx)
	if err == nil && !is {
		err = g.checkUnlessCounted(ctx)
	}
	if err != nil {
		return err
	}
	if reason := g.restored(); reason != "" {
		return errors.New(reason)
	}
	return nil
}

// isCounted reports whether what etcd has is what this process has counted last, or was about to when it got no answer.
func (g *restoreGuard) isCounted(ctx context.Context) (bool, error) {
	count, err := g.count.Get(ctx)
	if err != nil {
		return false, fmt.Errorf("finding out whether etcd was restored: %w", err)
	}
	return count != 0 && (count == g.counted.Load() || count == g.pending.Load()), nil
}

// checkUnlessCounted looks again when no check is under way, which may have counted meanwhile.
func (g *restoreGuard) checkUnlessCounted(ctx context.Context) error {
	g.checking.Lock()
	defer g.checking.Unlock()
	if is, err := g.isCounted(ctx); err != nil || is {
		return err
	}
	return g.checkLocked(ctx)
}

// compare returns that etcd was restored; an empty string if it was not, or if somebody has let
// the server go on since.
func (g *restoreGuard) compare(ctx context.Context) (reason string, err error) {
	var inEtcd, inLease int64
	err = g.updateLease(ctx, func(lease *coordinationv1.Lease) (changed bool, err error) {
		// After the Lease, each time: what another process counts meanwhile, such as a former leader that ends its term, is in etcd first.
		if inEtcd, err = g.count.Get(ctx); err != nil {
			return false, err
		}
		inLease = countOf(lease)
		reason = g.judge(lease, inEtcd)
		// Before it can be seen, and so before somebody can let the server go on.
		if err := g.noteRestore(ctx, reason != "", max(inLease, inEtcd)); err != nil || reason == "" || reason == lease.Annotations[restoredAnnotation] {
			return false, err
		}
		lease.Annotations[countAnnotation] = strconv.FormatInt(max(inLease, inEtcd), 10)
		lease.Annotations[restoredAnnotation] = reason
		return true, nil
	})
	if reason != "" {
		g.counted.Store(0)
		g.pending.Store(0)
	}
	switch {
	case err != nil:
		return "", err
	case reason != "" && inEtcd < inLease:
		return reason, g.count.Set(ctx, inEtcd, inLease) // the annotation tells it, and the count goes on from here
	case reason != "":
		return reason, nil
	}
	// First in etcd: a process that dies in between leaves it ahead, which means nothing.
	g.pending.Store(inEtcd + 1)
	if err := g.count.Set(ctx, inEtcd, inEtcd+1); err != nil {
		return "", err
	}
	g.counted.Store(inEtcd + 1)
	return "", g.updateLease(ctx, func(lease *coordinationv1.Lease) (changed bool, err error) {
		lease.Annotations[countAnnotation] = strconv.FormatInt(max(inEtcd+1, countOf(lease)), 10)
		return true, nil
	})
}

// noteRestore records at which count etcd was restored, while nobody has let the server go on, and learns of the last restore otherwise. Nothing is
// counted meanwhile, so each later restore is at a higher count, also one of a backup that was made in between.
func (g *restoreGuard) noteRestore(ctx context.Context, restored bool, count int64) error {
	at, err := g.at.Get(ctx)
	if err != nil {
		return err
	}
	if restored && at != count {
		if err := g.at.Set(ctx, at, count); err != nil {
			return err
		}
		at = count
	}
	g.restoredAt.Store(at)
	return nil
}

// countOf returns the count in the Lease; 0 if it has none.
func countOf(lease *coordinationv1.Lease) int64 {
	count, _ := strconv.ParseInt(lease.Annotations[countAnnotation], 10, 64)
	return count
}

// judge returns why etcd, which has this count, seems to be another one than it was; an empty string if it does not.
func (g *restoreGuard) judge(lease *coordinationv1.Lease, inEtcd int64) (reason string) {
	_, counted := lease.Annotations[countAnnotation]
	switch noted, inLease := lease.Annotations[restoredAnnotation], countOf(lease); {
	case noted != "":
		return noted
	case inLease > inEtcd:
		return fmt.Sprintf("The server's etcd was restored from a backup or replaced (its count is %d, that of the Lease %d)", inEtcd, inLease)
	case inEtcd < g.counted.Load(): // which the Lease was not told
		return fmt.Sprintf("The server's etcd was restored from a backup or replaced (its count is %d, and the server has written %d)", inEtcd, g.counted.Load())
	case !counted && inEtcd == g.counted.Load(): // somebody has deleted the Lease
		return ""
	case !counted && inEtcd > firstCount:
		// Deleting the Lease, or having another one used, must not end a hold.
		return fmt.Sprintf("Whether the server's etcd was restored from a backup is not known, because the Lease is new and has no count to compare with that of etcd (%d)", inEtcd)
	}
	return ""
}

// SeemsRestored returns why the first leader will find that etcd was restored; empty if it will not. It changes nothing.
func (m *Manager) SeemsRestored(ctx context.Context) (reason string, err error) {
	g := m.newRestoreGuard()
	lease, err := g.leases.Get(ctx, g.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease, err = &coordinationv1.Lease{}, nil
	}
	if err != nil {
		return "", err
	}
	inEtcd, err := g.count.Get(ctx) // after the Lease, as in compare
	if err != nil {
		return "", err
	}
	return g.judge(lease, inEtcd), nil
}

// updateLease changes the Lease, which the elector writes every second. Without election, nobody else creates it.
func (g *restoreGuard) updateLease(ctx context.Context, change func(*coordinationv1.Lease) (changed bool, err error)) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		lease, err := g.leases.Get(ctx, g.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			empty := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: g.name}}
			lease, err = g.leases.Create(ctx, empty, metav1.CreateOptions{})
		}
		if err != nil {
			return err
		}
		lease = lease.DeepCopy()
		if lease.Annotations == nil {
			lease.Annotations = map[string]string{}
		}
		if changed, err := change(lease); err != nil || !changed {
			return err
		}
		_, err = g.leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	})
}

// run checks again and again until ctx ends.
func (g *restoreGuard) run(ctx context.Context) {
	unknown := false
	for {
		held := g.restored() != ""
		interval := countInterval
		if held || unknown {
			interval = restoredInterval
		}
		select {
		case <-ctx.Done():
			return
		case <-g.clock.After(wait.Jitter(interval, 0.1)):
		}
		err := g.check(ctx)
		unknown = err != nil
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			klog.ErrorS(err, "Whether etcd was restored is not known, and stays as it was", "held", held)
		case held && g.restored() == "":
			klog.InfoS("Somebody has let the server go on after the restore of etcd")
		}
	}
}

// countStop counts once more at the end of a term, so that a backup that was made before what the term wrote
// last is recognised.
func (g *restoreGuard) countStop(ctx context.Context) {
	if err := g.check(context.WithoutCancel(ctx)); err != nil {
		klog.ErrorS(err, "The count of an orderly stop was not recorded")
	}
}
