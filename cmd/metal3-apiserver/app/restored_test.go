package app

import (
	"context"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// TestRestoreGuard: a server whose etcd is older than it was is held until somebody has
// removed the annotation that says so, and is not held again for the same reason.
func TestRestoreGuard(t *testing.T) {
	leases := fake.NewClientset(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "metal3-system", Name: "metal3-apiserver"}}).CoordinationV1().Leases("metal3-system")
	var revision int64
	var reason string
	guard := &restoreGuard{
		leases: leases, namespace: "metal3-system", name: "metal3-apiserver",
		revision: func(context.Context) (int64, error) { return revision, nil },
		hold:     func(r string) { reason = r },
	}
	check := func(at int64, wanted bool) {
		t.Helper()
		revision = at
		held, err := guard.check(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if held != wanted || (reason != "") != wanted {
			t.Errorf("revision %d: held %t, because %q", at, held, reason)
		}
	}
	check(100, false) // a new installation
	check(100, false)
	check(250, false)
	check(120, true) // restored
	for _, word := range []string{"250", "120", restoredAnnotation, "metal3-system/metal3-apiserver"} {
		if !strings.Contains(reason, word) {
			t.Errorf("%q does not tell %q", reason, word)
		}
	}
	check(130, true) // also another leader, which has seen neither
	check(400, true) // nor does time alone release it
	lease, err := leases.Get(t.Context(), "metal3-apiserver", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	delete(lease.Annotations, restoredAnnotation)
	if _, err := leases.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	check(400, false)
	check(399, true) // the next restore
}
