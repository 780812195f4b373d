package testbed

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Eventually repeats check, with a pause in between, until it has no complaint. After
// the limit, or when ctx ends, the test fails with the last one.
func Eventually(t *testing.T, ctx context.Context, limit, pause time.Duration, check func() (complaint string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		complaint := check()
		if complaint == "" {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("after %s: %s", limit, complaint)
		case <-tick.C:
		}
	}
}

// NewNamespace makes a namespace for a test, and tells its name.
func NewNamespace(t *testing.T, ctx context.Context, core kubernetes.Interface) string {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	ns, err := core.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: name[:min(len(name), 50)] + "-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ns.Name
}
