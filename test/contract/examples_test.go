// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// TestExampleOfClientGo: the program of docs/examples/client-go prints what becomes of a host.
func TestExampleOfClientGo(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	out := startExample(t, ctx, "client-go", "--namespace="+ns)
	managedHost(t, ctx, ns, "worker-0")
	printed := bufio.NewScanner(out)
	prints := func(want string) {
		t.Helper()
		for printed.Scan() && printed.Text() != want {
			t.Log(printed.Text())
		}
		if printed.Text() != want {
			t.Fatalf("it ends without %q: %v", want, printed.Err())
		}
	}
	prints(ns + `/worker-0 is "available" and on`)
	s.DeleteHost(t, ctx, ns, "worker-0")
	prints(ns + "/worker-0 is gone")
}

// TestExampleOfControllerRuntime: the controller of docs/examples/controller-runtime labels a host with its state.
func TestExampleOfControllerRuntime(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	startExample(t, ctx, "controller-runtime", "--namespace="+ns)
	managedHost(t, ctx, ns, "worker-0")
	hostIs(t, ctx, ns, "worker-0", "labelled", func(h *metal3.BareMetalHost) bool {
		return h.Labels["example.com/state"] == string(metal3.StateAvailable)
	})
}

// TestExamplesNeedFewModules: who imports the types and the clients gets the modules that client-go needs, and none of the server's.
func TestExamplesNeedFewModules(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../docs/examples/*/go.mod")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d examples: %v", len(files), err)
	}
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, module := range []string{"go.etcd.io/", "k8s.io/apiserver", "gophercloud", "chromedp", "cli-runtime", "google.golang.org/grpc"} {
			if strings.Contains(string(content), module) {
				t.Errorf("%s requires %s", path, module)
			}
		}
	}
}

// startExample builds a program of docs/examples and starts it. It is interrupted with the test.
func startExample(t *testing.T, ctx context.Context, name string, args ...string) (stdout io.Reader) {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	build := exec.CommandContext(ctx, "go", "build", "-C", "../../docs/examples/"+name, "-o", program)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command(program, args...)
	var stderr bytes.Buffer
	cmd.Env, cmd.Stderr = append(os.Environ(), "KUBECONFIG="+s.Kube.Admin.Kubeconfig), &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(fmt.Errorf("%s: %w: %s", name, err, &stderr))
		}
	})
	return stdout
}
