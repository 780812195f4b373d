package app

import (
	"context"
	"fmt"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
)

// The annotations of the Lease by which a server notices that its etcd is that of a backup.
// The Lease is in the etcd of the cluster, which is another one in most installations.
const (
	// revisionAnnotation is the latest revision of the server's etcd that a leader has
	// seen. A smaller one is from before that.
	revisionAnnotation = "metal3.io/etcd-revision"
	// restoredAnnotation says that etcd was restored. Who removes it lets the server go on.
	restoredAnnotation = "metal3.io/restored"
)

const (
	revisionInterval = time.Minute
	// restoredInterval is how often a server that is held looks whether it may go on.
	restoredInterval = 5 * time.Second
	leaseTimeout     = 3 * time.Second
)

// restoreGuard finds out whether the server's etcd was restored from a backup.
type restoreGuard struct {
	leases          coordinationclient.LeaseInterface
	namespace, name string
	// revision returns that of etcd.
	revision func(context.Context) (int64, error)
	// hold is told why nothing may be done to machines; empty when something may.
	hold func(reason string)
}

// check compares the revision of etcd with the one that the Lease knows, records the
// present one, and has the controller hold or go on. It returns whether it holds.
func (g *restoreGuard) check(ctx context.Context) (held bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	revision, err := g.revision(ctx)
	if err != nil {
		return false, fmt.Errorf("reading the revision of etcd: %w", err)
	}
	reason := ""
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error { // the elector writes it each second
		lease, err := g.leases.Get(ctx, g.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if reason = g.restored(lease, revision); reason != "" && lease.Annotations[restoredAnnotation] == reason {
			return nil
		}
		lease = lease.DeepCopy()
		if lease.Annotations == nil {
			lease.Annotations = map[string]string{}
		}
		lease.Annotations[revisionAnnotation] = strconv.FormatInt(revision, 10)
		if reason != "" {
			lease.Annotations[restoredAnnotation] = reason
		}
		_, err = g.leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return false, fmt.Errorf("the revision of etcd cannot be compared with Lease %s/%s: %w", g.namespace, g.name, err)
	}
	if reason == "" {
		g.hold("")
		return false, nil
	}
	g.hold(fmt.Sprintf("%s. Nothing is done to any machine until somebody has looked at what is recorded and has removed the annotation %s from Lease %s/%s", reason, restoredAnnotation, g.namespace, g.name))
	return true, nil
}

// restored says that etcd was restored; empty if it was not, or if somebody has let the
// server go on since.
func (g *restoreGuard) restored(lease *coordinationv1.Lease, revision int64) string {
	if known := lease.Annotations[restoredAnnotation]; known != "" {
		return known
	}
	seen, err := strconv.ParseInt(lease.Annotations[revisionAnnotation], 10, 64)
	if err != nil || revision >= seen {
		return ""
	}
	return fmt.Sprintf("The server's etcd was restored from a backup or replaced: its revision is %d, and was %d before", revision, seen)
}

// run checks until ctx ends, and once more then, so that what an orderly stop leaves is the
// latest revision. held is what the first check has found.
func (g *restoreGuard) run(ctx context.Context, held bool) {
	defer func() {
		if _, err := g.check(context.WithoutCancel(ctx)); err != nil {
			klog.ErrorS(err, "The last revision of etcd was not recorded")
		}
	}()
	for ctx.Err() == nil {
		interval := revisionInterval
		if held {
			interval = restoredInterval
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait.Jitter(interval, 0.1)):
		}
		now, err := g.check(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			klog.ErrorS(err, "Whether etcd was restored is not known, and stays as it was", "held", held)
			continue
		case held && !now:
			klog.InfoS("Somebody has let the server go on after the restore of etcd")
		}
		held = now
	}
}
