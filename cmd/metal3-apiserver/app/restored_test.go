package app

import (
	"context"
	"strings"
	"testing"

	"go.uber.org/zap/zapcore"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/client-go/kubernetes/fake"
)

// TestRestoreGuard: a server whose etcd is older than it was is held until somebody has
// removed the annotation that says so, and is not held again for the same reason.
func TestRestoreGuard(t *testing.T) {
	leases := fake.NewClientset(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "metal3-system", Name: "metal3-apiserver"}}).CoordinationV1().Leases("metal3-system")
	count := new(storedCount)
	var reason string
	guard := &restoreGuard{
		leases: leases, namespace: "metal3-system", name: "metal3-apiserver", count: count,
		hold: func(r string) { reason = r },
	}
	check := func(what string, wanted bool) {
		t.Helper()
		held, err := guard.check(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if held != wanted || (reason != "") != wanted {
			t.Errorf("%s: held %t, because %q", what, held, reason)
		}
	}
	check("a new installation", false)
	backup := *count
	check("a minute later", false)
	ahead := *count + 1
	*count = ahead // a process that died between etcd and the Lease
	check("killed", false)
	*count = backup
	check("restored", true)
	for _, word := range []string{"restored", restoredAnnotation, "metal3-system/metal3-apiserver"} {
		if !strings.Contains(reason, word) {
			t.Errorf("%q does not tell %q", reason, word)
		}
	}
	check("another leader, which has seen nothing", true)
	check("and time alone", true)
	lease, err := leases.Get(t.Context(), "metal3-apiserver", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	delete(lease.Annotations, restoredAnnotation)
	if _, err := leases.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	check("let go on", false)
	check("a minute later", false)
	*count = 0
	check("replaced by an empty one", true)
}

type storedCount int64

func (c *storedCount) get(context.Context) (int64, error) { return int64(*c), nil }
func (c *storedCount) set(_ context.Context, _, count int64) error {
	*c = storedCount(count)
	return nil
}

// TestEtcdCounter: a process that has read an earlier count does not set a later one back.
func TestEtcdCounter(t *testing.T) {
	etcd, err := startEmbeddedEtcd(t.Context(), t.TempDir(), defaultEtcdQuota, zapcore.WarnLevel)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Close)
	count, err := newEtcdCounter(storagebackend.Config{Prefix: "/registry", Transport: storagebackend.TransportConfig{ServerList: []string{etcd.Endpoint}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = count.client.Close() })
	for _, step := range []struct {
		was, count int64
		refused    bool
	}{{0, 1, false}, {1, 2, false}, {0, 1, true}, {1, 2, true}, {2, 9, false}, {2, 3, true}} {
		if err := count.set(t.Context(), step.was, step.count); (err != nil) != step.refused {
			t.Errorf("%d to %d: %v", step.was, step.count, err)
		}
	}
	if got, err := count.get(t.Context()); err != nil || got != 9 {
		t.Errorf("the count is %d (%v), want 9", got, err)
	}
}
