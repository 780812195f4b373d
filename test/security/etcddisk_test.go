// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestFullDisk: another process fills the disk of the embedded etcd. Writes are refused with the
// reason, reads go on, the server can be started again, and all of it ends by itself when there is
// space.
func TestFullDisk(t *testing.T) {
	attack(t, "fills the disk of etcd", "stop reads, and the server")
	t.Parallel()
	ctx, ns := s.Begin(t)
	server, clientset := s.NewServer(t, ctx, ns, testbed.ServerOptions{
		IronicEndpoint: s.ironic.server.URL,
		Args: append([]string{
			"--ironic-username-file=" + s.file("username"), "--ironic-password-file=" + s.file("password"),
		}, testbed.UnusedRamdiskArgs...),
	})
	mountSmallDisk(t, server.DataDir())
	if err := server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	c := newClient(t, server.Direct.Config, user(t, "admin", "system:masters"))
	collection := groupVersion + "/namespaces/" + ns + "/baremetalhosts"
	create := func(name string) answer {
		return c.mustDo(t, ctx, http.MethodPost, collection, "application/json",
			fmt.Sprintf(`{"apiVersion":"metal3.io/v1alpha1","kind":"BareMetalHost","metadata":{"name":%q},"spec":{"online":false}}`, name))
	}
	s.CreateSecret(t, ctx, ns, "bmc", map[string]string{"username": "admin", "password": "any"})
	host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: metal3.BareMetalHostSpec{
		BMC: metal3.BMCDetails{Address: simulator(t).NewBMC("admin", "any"), CredentialsName: "bmc"}, BootMACAddress: testbed.NewMAC(),
	}}
	if _, err := clientset.Metal3V1alpha1().BareMetalHosts(ns).Create(ctx, host, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, ctx, func() string {
		var err error
		if host, err = clientset.Metal3V1alpha1().BareMetalHosts(ns).Get(ctx, "x", metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		if !isAvailable(host) {
			return fmt.Sprintf("not available yet: %+v", host.Status)
		}
		return ""
	})

	filler := filepath.Join(server.DataDir(), "filler-of-another-process")
	mustBeFull := func(when string) {
		t.Helper()
		eventually(t, ctx, func() string {
			fillDisk(t, filler)
			if got := c.get(t, ctx, "/readyz"); got.code == http.StatusOK || !strings.Contains(got.body, "[-]etcd-space failed") {
				return fmt.Sprintf("%s: /readyz: %d %s", when, got.code, got.body)
			}
			return ""
		})
		if !server.Alive() {
			t.Fatalf("%s: the server has ended", when)
		}
		if got := create("refused"); got.code != http.StatusInsufficientStorage || !strings.Contains(got.body, "administrator") {
			t.Errorf("%s: creating a host: %d %.500s, want 507 and what can be done", when, got.code, got.body)
		}
		for _, path := range []string{collection + "/x", collection, "/readyz?exclude=etcd-space", "/livez"} {
			if got := c.get(t, ctx, path); got.code != http.StatusOK {
				t.Errorf("%s: %s: %d %.300s", when, path, got.code, got.body)
			}
		}
		if got := c.get(t, ctx, "/metrics"); !strings.Contains(got.body, "\nmetal3_etcd_full 1\n") {
			t.Errorf("%s: the metric is not 1: %d\n%s", when, got.code, linesWith(got.body, "metal3_etcd"))
		}
	}
	mustBeFull("while it runs")
	// What Ironic says now cannot be recorded, and a read says so.
	if err := simulator(t).SetNode(host.Status.Provisioning.ID, map[string]any{"last_error": "news"}); err != nil {
		t.Fatal(err)
	}
	warnings, err := warningsOf(ctx, c, collection+"/x")
	if err != nil || !strings.Contains(warnings, "no space") {
		t.Errorf("the warning of a read is %q, %v", warnings, err)
	}
	if log, err := server.Logs(); err != nil || !strings.Contains(log, server.DataDir()+" has ") {
		t.Errorf("the log does not name the disk that is full: %v", err)
	}

	// The disk is full at the start, too, and the reserve of the server is all that there is.
	removeFile(t, filler)
	mustHaveSpace(t, ctx, c)
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	fillDisk(t, filler)
	if err := server.Start(ctx); err != nil {
		t.Fatalf("on a full disk: %v", err)
	}
	mustBeFull("after a restart")

	removeFile(t, filler)
	mustHaveSpace(t, ctx, c)
	if got := create("accepted"); got.code != http.StatusCreated {
		t.Errorf("in the end: %d %.300s", got.code, got.body)
	}
	if got := c.get(t, ctx, collection+"/x"); got.code != http.StatusOK || !strings.Contains(got.body, `"lastError":"news"`) {
		t.Errorf("in the end, a read is not live: %d %.300s", got.code, got.body)
	}
}

func mustHaveSpace(t *testing.T, ctx context.Context, c *client) {
	t.Helper()
	eventually(t, ctx, func() string {
		if got := c.get(t, ctx, "/readyz"); got.code != http.StatusOK {
			return got.body
		}
		return ""
	})
}

// mountSmallDisk mounts a file system of 640 MiB. It skips the test if that is not allowed.
func mountSmallDisk(t *testing.T, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=640m,mode=0700"); err != nil {
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENODEV) {
			t.Skipf("a small disk to fill cannot be mounted here, which requires root: %v", err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() { // after the server has been stopped
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmounting %s: %v", dir, err)
		}
	})
}

// fillDisk appends to a file until there is no space left.
func fillDisk(t *testing.T, path string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for size := 1 << 20; size > 0; {
		if _, err := file.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 16
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func removeFile(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// warningsOf returns the warnings in the answer to a GET.
func warningsOf(ctx context.Context, c *client, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.server+path, nil)
	if err != nil {
		return "", err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return "", err
	}
	_ = response.Body.Close()
	return strings.Join(response.Header.Values("Warning"), "\n"), nil
}
