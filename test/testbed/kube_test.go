// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// skipShort skips a test with -short, because it starts programs.
func skipShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts programs: make test-all runs it")
	}
}

func TestKubeAuthorizesByRBAC(t *testing.T) {
	skipShort(t)
	ctx := t.Context()
	k, err := StartKube(ctx, KubeOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Stop(); err != nil {
			t.Error(err)
		}
	})
	alice, err := k.ClientFor("alice", "readers")
	if err != nil {
		t.Fatal(err)
	}
	clients, err := kubernetes.NewForConfig(alice.Config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := clients.CoreV1().Namespaces().List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Fatalf("alice without a role: %v, want forbidden", err)
	}
	for _, args := range [][]string{
		{"create", "clusterrole", "readers", "--verb=list", "--resource=namespaces"},
		{"create", "clusterrolebinding", "readers", "--clusterrole=readers", "--group=readers"},
	} {
		if _, _, err := k.Kubectl(ctx, "", args...); err != nil {
			t.Fatal(err)
		}
	}
	err = poll(ctx, func(ctx context.Context) error {
		_, err := clients.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		return err
	})
	if err != nil {
		t.Fatalf("alice with a role: %v", err)
	}
	who, _, err := alice.Kubectl(ctx, "", "auth", "whoami", "-o", "jsonpath={.status.userInfo.username} {.status.userInfo.groups}")
	if want := `alice ["readers","system:authenticated"]`; err != nil || who != want {
		t.Errorf("kubectl as alice is %q (%v), want %q", who, err, want)
	}
	if _, stderr, err := k.Kubectl(ctx, "{", "apply", "-f", "-"); err == nil || stderr == "" {
		t.Errorf("kubectl apply of half an object: error %v, stderr %q, want both", err, stderr)
	}
}
