package testbed

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

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

func startKube(t *testing.T, options KubeOptions) *Kube {
	t.Helper()
	skipShort(t)
	options.Dir = t.TempDir()
	started := time.Now()
	k, err := StartKube(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Logf("the control plane was ready after %v", time.Since(started).Round(time.Millisecond))
	return k
}

func TestKubeAuthorizesByRBAC(t *testing.T) {
	k := startKube(t, KubeOptions{})
	ctx := t.Context()
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

func TestAPIServerRestart(t *testing.T) {
	k := startKube(t, KubeOptions{})
	if _, _, err := k.Kubectl(t.Context(), "", "create", "namespace", "kept"); err != nil {
		t.Fatal(err)
	}
	if err := k.StopAPIServer(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := k.Kubectl(t.Context(), "", "get", "namespace", "kept"); err == nil {
		t.Error("kube-apiserver answers after it was stopped")
	}
	if err := k.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := k.Kubectl(t.Context(), "", "get", "namespace", "kept"); err != nil {
		t.Error(err)
	}
}

func TestControllerManagerDeletesNamespacesAndFillsRoles(t *testing.T) {
	skipShort(t)
	k := startKube(t, KubeOptions{ControllerManager: true})
	for _, args := range [][]string{
		{"create", "namespace", "short-lived"},
		{"create", "configmap", "a", "-n", "short-lived"},
		{"delete", "namespace", "short-lived", "--timeout=5m"},
	} {
		if _, _, err := k.Kubectl(t.Context(), "", args...); err != nil {
			t.Fatal(err)
		}
	}
	err := poll(t.Context(), func(ctx context.Context) error {
		rules, _, err := k.Kubectl(ctx, "", "get", "clusterrole", "view", "-o", "jsonpath={.rules}")
		if err == nil && rules == "" {
			err = errors.New("ClusterRole view has no rules")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestStartErrorIncludesLog(t *testing.T) {
	dir := t.TempDir()
	p, err := command{name: "liar", log: dir + "/log", path: "/bin/sh", args: []string{"-c", "echo out of luck; exit 3"}}.start()
	if err != nil {
		t.Fatal(err)
	}
	err = p.waitReady(t.Context(), func(context.Context) error { return errors.New("not yet") })
	for _, want := range []string{"liar", "exit status 3", "out of luck"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
}
