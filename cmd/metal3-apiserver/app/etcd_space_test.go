// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap/zapcore"
)

// smallEtcd is an etcd with a small quota, and what watches its etcd.
type smallEtcd struct {
	*etcdSpace
	etcd   *embeddedEtcd
	client *clientv3.Client
}

func startSmallEtcd(t *testing.T) *smallEtcd { return startEtcdWith(t, minEtcdQuota) }

func startEtcdWith(t *testing.T, quota int64) *smallEtcd {
	t.Helper()
	etcd, err := startEmbeddedEtcd(t.Context(), t.TempDir(), quota, zapcore.FatalLevel)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Close)
	client := clientOf(t, etcd)
	return &smallEtcd{&etcdSpace{client: client, endpoint: etcd.Endpoint, quota: quota}, etcd, client}
}

// checkTwice checks the space as it is done every few seconds: with what was written until then
// committed, of which etcd does up to 100 ms at once.
func (e *smallEtcd) checkTwice(t *testing.T) {
	t.Helper()
	for range 2 {
		e.etcd.etcd.Server.Backend().ForceCommit()
		e.check(t.Context())
	}
}

// writeUntilFull writes one MiB at a time to the key that keyOf returns for each write, and
// returns the error at the end, or nil after limit writes.
func writeUntilFull(t *testing.T, client *clientv3.Client, limit int, keyOf func(i int) string) error {
	t.Helper()
	for i := range limit {
		if _, err := client.Put(t.Context(), keyOf(i), strings.Repeat("x", 1<<20)); err != nil {
			return err
		}
	}
	return nil
}

func sameKey(int) string  { return "/same" }
func newKey(i int) string { return "/new/" + strings.Repeat("k", i+1) }

// TestEtcdFullOfHistory checks that an etcd that is full of old versions accepts writes again, and
// serves reads meanwhile.
func TestEtcdFullOfHistory(t *testing.T) {
	etcd := startSmallEtcd(t)
	if err := writeUntilFull(t, etcd.client, 100, sameKey); err == nil || !strings.Contains(err.Error(), rpctypes.ErrNoSpace.Error()) {
		t.Fatalf("writing more than the quota: %v", err)
	}
	if full, err := etcd.isFull(t.Context()); !full || err != nil {
		t.Errorf("the alarm is not noticed: %v", err)
	}
	if got, err := etcd.client.Get(t.Context(), "/same"); err != nil || len(got.Kvs) != 1 {
		t.Errorf("reading: %v, %v", got, err)
	}
	etcd.checkTwice(t)
	if err := etcd.hasSpace(); err != nil {
		t.Errorf("after the check: %v", err)
	}
	if _, err := etcd.client.Put(t.Context(), "/same", "small"); err != nil {
		t.Errorf("writing after the check: %v", err)
	}
}

// TestEtcdMakesSpaceInTime checks that etcd never gets full of history if it is checked often
// enough: several times the quota can be written.
func TestEtcdMakesSpaceInTime(t *testing.T) {
	etcd := startSmallEtcd(t)
	for range 10 {
		if err := writeUntilFull(t, etcd.client, minEtcdQuota>>20/4, sameKey); err != nil {
			t.Fatal(err)
		}
		etcd.checkTwice(t)
	}
}

// TestEtcdKeepsHistory checks that an etcd which is large because of its objects keeps the history that watches need.
func TestEtcdKeepsHistory(t *testing.T) {
	const quota = 3 * minEtcdQuota // of which less than a tenth is unused after this
	etcd := startEtcdWith(t, quota)
	if err := writeUntilFull(t, etcd.client, quota>>20*3/5, newKey); err != nil {
		t.Fatal(err)
	}
	etcd.checkTwice(t)
	put, err := etcd.client.Put(t.Context(), "/small", "1")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := etcd.client.Put(t.Context(), "/small", "2"); err != nil {
			t.Fatal(err)
		}
		etcd.checkTwice(t)
	}
	if _, err := etcd.client.Get(t.Context(), "/small", clientv3.WithRev(put.Header.Revision)); err != nil {
		t.Errorf("the history of a moment ago: %v", err)
	}
}

// TestEtcdFullOfObjects checks that an etcd that is full of objects says so until some are deleted.
func TestEtcdFullOfObjects(t *testing.T) {
	etcd := startSmallEtcd(t)
	// Some of the file may be unused at first, so that the first checks can make space.
	written := 0
	for full := false; !full; full = etcd.hasSpace() != nil {
		err := writeUntilFull(t, etcd.client, 100, func(int) string { written++; return newKey(written) })
		if err == nil {
			t.Fatal("more than the quota was written")
		}
		etcd.checkTwice(t)
	}
	etcd.checkTwice(t)
	if err := etcd.hasSpace(); err == nil || !strings.Contains(err.Error(), "--data-dir-quota-bytes") {
		t.Errorf("it is full, but: %v", err)
	}
	if _, err := etcd.client.Delete(t.Context(), "/new/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	etcd.checkTwice(t)
	if err := etcd.hasSpace(); err != nil {
		t.Errorf("after objects were deleted: %v", err)
	}
	if err := writeUntilFull(t, etcd.client, 10, newKey); err != nil {
		t.Error(err)
	}
}

// TestExternalEtcdIsFull checks that the error sends nobody with an older etcd, which does not report its quota, to a command that
// refuses it.
func TestExternalEtcdIsFull(t *testing.T) {
	etcd := &etcdSpace{}
	etcd.full.Store(true)
	err := etcd.hasSpace()
	for _, want := range []string{"with etcd 3.6 or later, metal3-apiserver etcd maintain", "before, use etcdctl"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
}

// TestExternalEtcdFull checks that an external etcd is only watched.
func TestExternalEtcdFull(t *testing.T) {
	etcd := startSmallEtcd(t)
	etcd.quota = 0
	if err := writeUntilFull(t, etcd.client, 100, sameKey); err == nil {
		t.Fatal("more than the quota was written")
	}
	etcd.check(t.Context())
	if err := etcd.hasSpace(); err == nil || !strings.Contains(err.Error(), "disarm the alarm") {
		t.Errorf("it is full, but: %v", err)
	}
	// Without an answer, what was known remains.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	etcd.check(ctx)
	if etcd.hasSpace() == nil {
		t.Error("etcd has space because it did not answer")
	}
}

// TestMaintain checks that an external etcd that is full of history accepts writes again after
// "metal3-apiserver etcd maintain", and that one of which a member does not answer is left alone.
func TestMaintain(t *testing.T) {
	etcd := startSmallEtcd(t)
	if err := writeUntilFull(t, etcd.client, 100, sameKey); err == nil {
		t.Fatal("more than the quota was written")
	}
	if _, err := runEtcd(t, nil, "maintain", "--etcd-servers="+etcd.endpoint+",unix://"+t.TempDir()+"/none.sock"); err == nil || !strings.Contains(err.Error(), "nothing is defragmented") {
		t.Errorf("with a member that does not answer: %v", err)
	}
	for range 2 { // what was removed may count as unused only a moment later
		etcd.etcd.etcd.Server.Backend().ForceCommit()
		if _, err := runEtcd(t, nil, "maintain", "--etcd-servers="+etcd.endpoint); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := etcd.client.Put(t.Context(), "/same", "small"); err != nil {
		t.Errorf("writing afterwards: %v", err)
	}
}
