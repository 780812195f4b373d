// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

func TestWaitExitCodes(t *testing.T) {
	deleting := func(h *metal3.BareMetalHost) {
		at := metav1.NewTime(now)
		h.DeletionTimestamp, h.Finalizers = &at, []string{"x"}
	}
	for name, c := range map[string]struct {
		host   *metal3.BareMetalHost
		args   []string
		code   int
		out    string
		errOut string
	}{
		"arrived": {
			host("w", metal3.StateProvisioned), []string{"w", "--for", "provisioned"}, exitOK,
			"baremetalhost.metal3.io/w is provisioned\n", "w  provisioned  power=on  done after 0s",
		},
		"hopeless": {
			host("w", metal3.StateRegistering, withError("IPMI call failed")), []string{"w", "--for", "available", "--error-grace", "0s"}, exitHopeless,
			"", "w: IPMI call failed\nw cannot be available until this is solved; kubectl bmh why w -n metal3 says more\n",
		},
		"not in time": {
			host("w", metal3.StateInspecting), []string{"w", "--for", "available", "--timeout", "50ms"}, exitTimeout,
			"", "timed out after 50ms: w is not available\n",
		},
		"being deleted": {
			host("w", metal3.StateDeleting, deleting), []string{"w", "--for", "available"}, exitHopeless, "", "w: it is being deleted\n",
		},
		"power": {
			host("w", metal3.StateAvailable), []string{"w", "--for", "on"}, exitOK, "baremetalhost.metal3.io/w is on\n", "",
		},
		"not asked for": {
			host("w", metal3.StateAvailable, func(h *metal3.BareMetalHost) { h.Spec.Image = nil }), []string{"w", "--for", "provisioned", "--timeout", "1s"}, exitTimeout,
			"", "note: w will not be provisioned by itself: its spec asks for no image\n",
		},
		"the old image": {
			host("w", metal3.StateProvisioned, func(h *metal3.BareMetalHost) { h.Status.Provisioning.Image.URL = "http://images/old" }),
			[]string{"w", "--for", "provisioned", "--timeout", "1s"}, exitTimeout, "", "timed out",
		},
		"deleted already": {
			host("w", metal3.StateAvailable), []string{"x", "--for", "deleted"}, exitOK, "baremetalhost.metal3.io/x is deleted\n", "",
		},
		"all deleted already": {host("w", metal3.StateAvailable), []string{"-l", "rack=7", "--for", "deleted"}, exitOK, "", ""},
		"unknown host":        {host("w", metal3.StateAvailable), []string{"x", "--for", "available"}, exitError, "", "Error from server (NotFound)"},
		"unknown target":      {host("w", metal3.StateAvailable), []string{"w", "--for", "nirvana"}, exitError, "", "error: --for must be one of registered, "},
		"no hosts":            {host("w", metal3.StateAvailable), []string{"--for", "available"}, exitError, "", "error: name the hosts, or use --selector or --all\n"},
		"both":                {host("w", metal3.StateAvailable), []string{"w", "--all", "--for", "available"}, exitError, "", "error: use only one of"},
		"no match":            {host("w", metal3.StateAvailable), []string{"-l", "rack=7", "--for", "available"}, exitError, "", "error: no host in namespace metal3 has the labels rack=7\n"},
		"bad flag":            {host("w", metal3.StateAvailable), []string{"w", "--for", "on", "--progress", "loud"}, exitError, "", "error: --progress must be one of"},
	} {
		t.Run(name, func(t *testing.T) {
			cl := newCluster(c.host)
			if code := cl.run(t, append([]string{"wait"}, c.args...)...); code != c.code {
				t.Errorf("exit code %d, want %d: %s", code, c.code, cl.errOut)
			}
			if cl.out != c.out {
				t.Errorf("stdout is %q, want %q", cl.out, c.out)
			}
			expect(t, "stderr", cl.errOut, c.errOut)
			if strings.Contains(cl.errOut, "\x1b") {
				t.Errorf("there are escape sequences on what is no terminal: %q", cl.errOut)
			}
		})
	}
}

// TestWaitFollowsChanges: one line per change, and the end when all hosts have arrived.
func TestWaitFollowsChanges(t *testing.T) {
	c := newCluster(host("w-0", metal3.StateProvisioning), host("w-1", metal3.StateProvisioned))
	done := make(chan int, 1)
	go func() { done <- c.run(t, "wait", "--all", "--for", "provisioned", "--progress", "plain") }()
	// The watch has begun when the hosts are listed by the informer: a change before that is in the
	// list, and one after it is in the watch.
	for _, step := range []string{"deploy.write_image", ""} {
		change := host("w-0", metal3.StateProvisioning)
		change.Status.Ironic.ProvisionState, change.Status.Ironic.Step = "deploying", step
		if step == "" {
			change = host("w-0", metal3.StateProvisioned)
		}
		if _, err := c.metal3.Metal3V1alpha1().BareMetalHosts("metal3").Update(t.Context(), change, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if code := <-done; code != exitOK {
		t.Fatalf("exit code %d: %s", code, c.errOut)
	}
	expect(t, "stdout", c.out, "baremetalhost.metal3.io/w-0 is provisioned\nbaremetalhost.metal3.io/w-1 is provisioned\n")
	expect(t, "stderr", c.errOut, "2026-11-22T12:00:00Z  w-0  provisioned  power=on  done after 0s")
}

// TestUsualIsComputedOnce: with ten thousand hosts, going through all for each of them every second keeps a core busy for hours.
func TestUsualIsComputedOnce(t *testing.T) {
	took := host("a", metal3.StateProvisioned, func(h *metal3.BareMetalHost) {
		h.Status.OperationHistory.Provision = metal3.OperationMetric{Start: metav1.NewTime(now.Add(-time.Minute)), End: metav1.NewTime(now)}
	})
	w := &wait{others: []*metal3.BareMetalHost{took}}
	const want = "the last deployment took 60s"
	if got := w.usualIn(metal3.StateProvisioning); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	w.others = nil
	if got := w.usualIn(metal3.StateProvisioning); got != want {
		t.Errorf("asked once more: %q, want %q", got, want)
	}
}

func TestWaitForDeletion(t *testing.T) {
	at := metav1.NewTime(now)
	c := newCluster(host("w", metal3.StateDeleting, func(h *metal3.BareMetalHost) { h.DeletionTimestamp, h.Finalizers = &at, []string{"x"} }))
	done := make(chan int, 1)
	go func() { done <- c.run(t, "wait", "w", "--for", "deleted") }()
	waitForWatch(t.Context(), t, c)
	if err := c.metal3.Tracker().Delete(metal3.SchemeGroupVersion.WithResource("baremetalhosts"), "metal3", "w"); err != nil {
		t.Fatal(err)
	}
	if code := <-done; code != exitOK || c.out != "baremetalhost.metal3.io/w is deleted\n" {
		t.Errorf("exit code %d, %q, %q", code, c.out, c.errOut)
	}
}

// TestNoAPIIsNoDeletion: where the API is not served, nobody knows whether a host is deleted.
func TestNoAPIIsNoDeletion(t *testing.T) {
	c := newCluster()
	c.metal3.PrependReactor("get", "baremetalhosts", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewGenericServerResponse(http.StatusNotFound, "get", metal3.Resource("baremetalhosts"), "w", "404 page not found", 0, true)
	})
	if code := c.run(t, "wait", "w", "--for", "deleted"); code != exitError || c.out != "" {
		t.Errorf("exit code %d, %q, %q", code, c.out, c.errOut)
	}
}

// waitForWatch waits until a command watches hosts.
func waitForWatch(ctx context.Context, t *testing.T, c *cluster) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		for _, action := range c.metal3.Actions() {
			if action.GetVerb() == "watch" {
				return
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("nobody watches")
		}
	}
}

func TestWaitJSON(t *testing.T) {
	c := newCluster(host("w", metal3.StateProvisioned))
	c.run(t, "wait", "w", "--for", "provisioned", "--progress", "json")
	var line jsonLine
	if err := json.Unmarshal([]byte(c.errOut), &line); err != nil {
		t.Fatalf("%v in %q", err, c.errOut)
	}
	if line.Name != "w" || line.State != "provisioned" || !line.Done || line.Power != "on" {
		t.Errorf("the line is %+v", line)
	}
}

// TestInterrupted: Ctrl-C ends the waiting and says that the rest goes on.
func TestInterrupted(t *testing.T) {
	c := newCluster(host("w", metal3.StateInspecting))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int, 1)
	go func() { done <- c.runWith(ctx, t, "wait", "w", "--for", "available") }()
	waitForWatch(t.Context(), t, c)
	cancel()
	if code := <-done; code != exitInterrupted {
		t.Errorf("exit code %d: %s", code, c.errOut)
	}
	expect(t, "stderr", c.errOut, "interrupted")
}
