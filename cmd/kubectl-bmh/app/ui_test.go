// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/page"
)

// TestUIEndsWithTheCommand: it prints a link on loopback, and Ctrl-C is the usual end.
func TestUIEndsWithTheCommand(t *testing.T) {
	c := newCluster(host("worker-0", metal3.StateAvailable))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if code := c.runWith(ctx, t, "ui", "--no-browser"); code != 0 || !strings.HasPrefix(c.out, "http://127.0.0.1:") || !strings.Contains(c.out, "/#link=") {
		t.Errorf("exit code %d, %q, %q", code, c.out, c.errOut)
	}
	if code := c.run(t, "ui", "--no-browser", "--port=70000"); code != 1 || !strings.Contains(c.errOut, "--port") {
		t.Errorf("port 70000: exit code %d, %q", code, c.errOut)
	}
}

// TestRights: what the cluster does not tell counts as allowed, because the cluster decides again.
func TestRights(t *testing.T) {
	c := newCluster()
	c.core.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		a := review.Spec.ResourceAttributes
		if a.Namespace != "metal3" || a.Resource == "secrets" && a.Group != "" || a.Resource != "secrets" && a.Group != "metal3.io" {
			t.Errorf("asked for %+v", a)
		}
		if a.Subresource == "console" {
			return true, nil, errors.New("the authorizer is away")
		}
		review.Status.Allowed = a.Verb == "create" && a.Subresource == "power"
		return true, review, nil
	})
	rights := (&clients{c.metal3, c.core, c.dynamic}).rightsIn(t.Context(), "metal3")
	for right, want := range map[page.Right]bool{page.RightPower: true, page.RightConsole: true, page.RightDelete: false, page.RightChange: false, page.RightCreateHosts: false} {
		if got, known := rights[right]; got != want || !known {
			t.Errorf("%s: %t", right, got)
		}
	}
}

// TestProbe: the picture counts as live only while the server has asked Ironic, and the watch works.
func TestProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &probe{now: time.Now, changed: make(chan struct{}, 1), reason: "not asked yet"}
		var answer atomic.Pointer[func() error]
		answers := func(f func() error) { answer.Store(&f) }
		answers(func() error { return nil })
		p.list = func(context.Context) error { return (*answer.Load())() }
		if got := p.freshness(""); got.Live || got.Confirmed != nil {
			t.Errorf("before the first answer: %+v", got)
		}
		began := time.Now()
		go p.run(t.Context())
		synctest.Wait()
		if got := p.freshness(""); !got.Live || !got.Confirmed.Equal(began) {
			t.Errorf("after a live answer: %+v", got)
		}
		if got := p.freshness("the connection was lost"); got.Live || got.Reason != "the connection was lost" || !got.Confirmed.Equal(began) {
			t.Errorf("without the watch: %+v", got)
		}
		answers(func() error { p.HandleWarningHeader(299, "-", "Ironic does not answer"); return nil })
		time.Sleep(probeInterval)
		synctest.Wait()
		if got := p.freshness(""); got.Live || got.Reason != "Ironic does not answer" || !got.Confirmed.Equal(began) {
			t.Errorf("after a warning: %+v", got)
		}
		answers(func() error { return errors.New("refused") })
		time.Sleep(probeInterval)
		synctest.Wait()
		if got := p.freshness(""); got.Live || !strings.Contains(got.Reason, "refused") {
			t.Errorf("after an error: %+v", got)
		}
		answers(func() error { return nil })
		time.Sleep(probeInterval)
		synctest.Wait()
		if got := p.freshness(""); !got.Live || !got.Confirmed.After(began) {
			t.Errorf("when it answers again: %+v", got)
		}
	})
}

// TestRedirectFile: nobody else on the machine can read the link.
func TestRedirectFile(t *testing.T) {
	bin, temporary := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "xdg-open"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("TMPDIR", temporary)
	s := &session{getenv: func(string) string { return ":0" }}
	remove, err := s.openBrowser(`http://127.0.0.1:1/#link=a"b`)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(temporary, "*", "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	content, err := os.ReadFile(files[0])
	if err != nil || !strings.Contains(string(content), `url=http://127.0.0.1:1/#link=a&#34;b"`) {
		t.Errorf("the file has %s, %v", content, err)
	}
	for path, want := range map[string]os.FileMode{files[0]: 0o600, filepath.Dir(files[0]): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v %v", path, info.Mode(), err)
		}
	}
	remove()
	if _, err := os.Stat(files[0]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
	s.getenv = func(string) string { return "" }
	if _, err := s.openBrowser("x"); err == nil || !strings.Contains(err.Error(), "display") {
		t.Errorf("without a display: %v", err)
	}
}
