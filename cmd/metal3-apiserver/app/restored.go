package app

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
)

// The leader counts in two places: in the server's etcd, and in an annotation of its Lease, which
// is in the etcd of the cluster. A backup of the server's etcd has a count of its day. (The
// revision of etcd does not tell: it is raised when a backup is restored, so that the watches of
// clients go on.)
const (
	// countAnnotation is the count in the Lease.
	countAnnotation = "metal3.io/etcd-count"
	// restoredAnnotation says that etcd was restored. Who removes it lets the server go on.
	restoredAnnotation = "metal3.io/restored"
)

const (
	countInterval = time.Minute
	// restoredInterval is how often a server that is held looks whether it may go on.
	restoredInterval = 5 * time.Second
	// restoreCheckTimeout limits a check.
	restoreCheckTimeout = 5 * time.Second
)

// restoreGuard finds out whether the server's etcd was restored from a backup.
type restoreGuard struct {
	leases          coordinationclient.LeaseInterface
	namespace, name string
	// count is the one in the server's etcd.
	count counter
	// hold is told why nothing may be done to machines; empty when something may.
	hold func(reason string)
}

// counter is a number that is stored; 0 if it never was.
type counter interface {
	get(context.Context) (int64, error)
	// set replaces a count, unless another process has done so since: a former leader whose
	// machine was suspended must not set it back.
	set(ctx context.Context, was, count int64) error
}

// etcdCounter is a counter under a key of its own.
type etcdCounter struct {
	client *clientv3.Client
	key    string
}

func newEtcdCounter(config storagebackend.Config) (*etcdCounter, error) {
	client, err := newEtcdClient(config.Transport)
	if err != nil {
		return nil, err
	}
	return &etcdCounter{client, path.Join("/", config.Prefix, "metal3-apiserver", "count")}, nil
}

func (c *etcdCounter) get(ctx context.Context) (int64, error) {
	answer, err := c.client.Get(ctx, c.key)
	if err != nil || len(answer.Kvs) == 0 {
		return 0, err
	}
	return strconv.ParseInt(string(answer.Kvs[0].Value), 10, 64)
}

func (c *etcdCounter) set(ctx context.Context, was, count int64) error {
	unchanged := clientv3.Compare(clientv3.Value(c.key), "=", strconv.FormatInt(was, 10))
	if was == 0 {
		unchanged = clientv3.Compare(clientv3.CreateRevision(c.key), "=", 0)
	}
	answer, err := c.client.Txn(ctx).If(unchanged).Then(clientv3.OpPut(c.key, strconv.FormatInt(count, 10))).Commit()
	if err == nil && !answer.Succeeded {
		err = errors.New("another process has counted meanwhile")
	}
	return err
}

// check compares the counts, counts on, and has the controller hold or go on. It returns
// whether it holds.
func (g *restoreGuard) check(ctx context.Context) (held bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, restoreCheckTimeout)
	defer cancel()
	reason, err := g.compare(ctx)
	if err != nil {
		return false, fmt.Errorf("finding out whether etcd was restored, with Lease %s/%s: %w", g.namespace, g.name, err)
	}
	if reason != "" {
		reason = fmt.Sprintf("%s. Nothing is done to any machine until somebody has looked at what is recorded and has removed the annotation %s from Lease %s/%s", reason, restoredAnnotation, g.namespace, g.name)
	}
	g.hold(reason)
	return reason != "", nil
}

// compare returns that etcd was restored; an empty string if it was not, or if somebody has let
// the server go on since.
func (g *restoreGuard) compare(ctx context.Context) (reason string, err error) {
	inEtcd, err := g.count.get(ctx)
	if err != nil {
		return "", err
	}
	inLease := int64(0)
	err = g.update(ctx, func(lease *coordinationv1.Lease) bool {
		inLease, _ = strconv.ParseInt(lease.Annotations[countAnnotation], 10, 64)
		if reason = lease.Annotations[restoredAnnotation]; reason != "" || inEtcd >= inLease {
			return false
		}
		reason = fmt.Sprintf("The server's etcd was restored from a backup or replaced (its count is %d, that of the Lease %d)", inEtcd, inLease)
		lease.Annotations[restoredAnnotation] = reason
		return true
	})
	switch {
	case err != nil:
		return "", err
	case reason != "" && inEtcd < inLease:
		return reason, g.count.set(ctx, inEtcd, inLease) // it is told, and counts on from here
	case reason != "":
		return reason, nil
	}
	// First in etcd: a process that dies in between leaves it ahead, which means nothing.
	if err := g.count.set(ctx, inEtcd, inEtcd+1); err != nil {
		return "", err
	}
	return "", g.update(ctx, func(lease *coordinationv1.Lease) bool {
		lease.Annotations[countAnnotation] = strconv.FormatInt(inEtcd+1, 10)
		return true
	})
}

// update changes the Lease, which the elector writes every second.
func (g *restoreGuard) update(ctx context.Context, change func(*coordinationv1.Lease) (changed bool)) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		lease, err := g.leases.Get(ctx, g.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		lease = lease.DeepCopy()
		if lease.Annotations == nil {
			lease.Annotations = map[string]string{}
		}
		if !change(lease) {
			return nil
		}
		_, err = g.leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	})
}

// run checks until ctx ends, and once more then, so that an orderly stop counts what
// came last. held is what the first check has found.
func (g *restoreGuard) run(ctx context.Context, held bool) {
	defer func() {
		if _, err := g.check(context.WithoutCancel(ctx)); err != nil {
			klog.ErrorS(err, "The count of an orderly stop was not recorded")
		}
	}()
	for ctx.Err() == nil {
		interval := countInterval
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
