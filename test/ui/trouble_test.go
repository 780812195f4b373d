// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// createHost makes a host without a BMC, which is unmanaged at once.
func createHost(t *testing.T, ctx context.Context, ns, name string, change ...func(*metal3.BareMetalHost)) *metal3.BareMetalHost {
	t.Helper()
	host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, c := range change {
		c(host)
	}
	created, err := s.Hosts(ns).Create(ctx, host, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func describe(t *testing.T, ctx context.Context, ns, name, description string) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"description":%s},"metadata":{"annotations":{"baremetalhost.metal3.io/paused":%s}}}`, quote(description), quote(description))
	if _, err := s.Hosts(ns).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestBrokenWatch: what is shown while the cluster cannot be reached is marked as not live, stays readable, and
// goes on by itself.
func TestBrokenWatch(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	createHost(t, ctx, ns, "worker-0")
	line, config := testbed.NewFlakyLine(t, s.Config)
	b := openTab(t)
	b.open(startPage(t, ctx, ns, "--no-browser", "--server="+config.Host))
	b.wait(`tr[data-name="worker-0"]`, "unmanaged")
	b.wait("#freshness", "Live")
	if hidden := eval[bool](b, `document.querySelector("#stale").hidden`); !hidden {
		t.Error("it says that it is not live")
	}

	line.Cut()
	b.wait("#freshness", "Not live")
	b.wait("#stale", "confirmed at")
	b.wait(`tr[data-name="worker-0"]`, "unmanaged")
	createHost(t, ctx, ns, "worker-1")
	b.accessible()
	line.Mend(t, ctx)
	b.wait(`tr[data-name="worker-1"]`, "unmanaged")
	b.wait("#freshness", "● Live")

	b.noComplaints()
}

// TestIronicAway: while Ironic does not answer, the hosts are shown as they were known last. It is not
// parallel, because the Ironic is that of all tests.
func TestIronicAway(t *testing.T) {
	needsSimulator(t)
	ctx, ns := s.Begin(t)
	// Nobody needs Ironic to know the state of a host without a BMC.
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bmc"}, StringData: map[string]string{"username": "admin", "password": "password"}}
	if _, err := s.Core.CoreV1().Secrets(ns).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	createHost(t, ctx, ns, "worker-0", func(h *metal3.BareMetalHost) {
		h.Spec.BMC = metal3.BMCDetails{Address: s.ironic.NewBMC("admin", "password"), CredentialsName: "bmc"}
		h.Spec.BootMACAddress = testbed.NewMAC()
	})
	b := openTab(t)
	b.open(openedFile(t, ctx, ns))
	b.wait(`tr[data-name="worker-0"]`, "available")
	b.wait("#freshness", "● Live")
	s.ironic.RefuseConnections()
	t.Cleanup(func() {
		if err := s.ironic.AcceptConnections(); err != nil {
			t.Error(err)
		}
	})
	b.wait("#freshness", "Not live")
	b.wait("#stale", "Ironic")
	b.wait(`tr[data-name="worker-0"]`, "available")
	b.accessible()
	b.noComplaints()
}

// openedFile runs kubectl bmh ui, and returns the address that it has the user's browser open: a file, which
// nobody else can read, and which leads to the page.
func openedFile(t *testing.T, ctx context.Context, ns string) string {
	t.Helper()
	bin := t.TempDir()
	record := filepath.Join(bin, "opened")
	script := fmt.Sprintf("#!/bin/sh\nprintf %%s \"$1\" >%s.new && mv %s.new %s\n", record, record, record)
	if err := os.WriteFile(filepath.Join(bin, "xdg-open"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("DISPLAY", ":0")
	startPage(t, ctx, ns)
	var opened []byte
	testbed.EventuallyEvery(t, ctx, 20*time.Millisecond, func() string {
		var err error
		if opened, err = os.ReadFile(record); err != nil {
			return err.Error()
		}
		return ""
	})
	return "file://" + string(opened)
}

// TestMissingRights: who may only see is shown what they may not do, and why, and the cluster refuses it
// whatever the page shows.
func TestMissingRights(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	createHost(t, ctx, ns, "worker-0")
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "viewer"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "metal3-baremetalhosts-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "viewer-" + ns}},
	}
	if _, err := s.Core.RbacV1().RoleBindings(ns).Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b := openTab(t)
	b.open(startPage(t, ctx, ns, "--no-browser", "--as=viewer-"+ns))
	b.wait(`tr[data-name="worker-0"]`, "unmanaged")
	b.press("main", "worker-0")
	b.wait("#explanation + div", "has not been managed")
	for _, action := range []string{"on", "delete", "console", "nmi"} {
		b.waitFor("the button "+action, func() string {
			if got := eval[string](b, fmt.Sprintf(`document.querySelector('[data-action="%s"]')?.title ?? "(none)"`, action)); got != "Not now: you may not do that" {
				return quote(got)
			}
			return ""
		})
	}
	b.click(`[data-action="delete"]`)
	b.wait("#announcer", "you may not do that")
	if got := b.text("dialog"); got != "(no element)" {
		t.Errorf("a button that cannot be used opens %q", got)
	}
	status := eval[int](b, fmt.Sprintf(`(async () => {
		const r = await fetch("/api/namespaces/%s/baremetalhosts/worker-0/power", {method: "POST", headers: {"Content-Type": "application/json", "X-Bmh-Key": localStorage.getItem("bmh-key")}, body: '{"spec":{"action":"on"}}'});
		window.status_ = r.status;
	})(), 0`, ns))
	b.waitFor("the answer", func() string {
		if status = eval[int](b, "window.status_ ?? 0"); status == 0 {
			return "none yet"
		}
		return ""
	})
	if status != 403 {
		t.Errorf("power, past the page: %d", status)
	}
	b.noComplaints()
}

// TestHostileText: whatever texts come from hosts, BMCs, events and other users, they are only read.
func TestHostileText(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	const hostile = `</script><img src=x onerror="document.title='hacked'"><a href="javascript:document.title='hacked'">x</a>` + "\u202egnitirw\x07"
	host := createHost(t, ctx, ns, "worker-0", func(h *metal3.BareMetalHost) {
		h.Spec.ConsumerRef = &corev1.ObjectReference{Kind: "Machine", Name: hostile, APIVersion: "cluster.x-k8s.io/v1beta1"}
	})
	describe(t, ctx, ns, "worker-0", hostile)
	if _, err := s.Core.CoreV1().Events(ns).Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "hostile"},
		InvolvedObject: corev1.ObjectReference{Kind: "BareMetalHost", Namespace: ns, Name: host.Name, UID: host.UID, APIVersion: "metal3.io/v1alpha1"},
		Reason:         hostile, Message: hostile, Type: "Warning", LastTimestamp: metav1.Now(),
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b := openTab(t)
	b.open(startPage(t, ctx, ns, "--no-browser"))
	b.wait(`tr[data-name="worker-0"] td.consumer`, `<img src=x onerror=`)
	b.wait(`tr[data-name="worker-0"] td.problem`, `<img src=x onerror=`)
	b.press("main", "worker-0")
	b.wait("#facts + div", `<img src=x onerror=`)
	b.wait("#timeline + div", `<img src=x onerror=`)
	b.press("main", "Delete…")
	b.wait("dialog", "Type the name")
	if n := eval[int](b, `document.querySelectorAll("img, script:not([src]), a[href^='javascript']").length`); n != 0 {
		t.Errorf("%d elements were made from texts", n)
	}
	if title := eval[string](b, "document.title"); title == "hacked" {
		t.Error("a script in a text has run")
	}
	// Should the page ever make HTML of a text, the browser refuses it.
	if refused := eval[bool](b, `(() => { try { document.createElement("p").innerHTML = "<b>x</b>"; return false; } catch { return true; } })()`); !refused {
		t.Error("the browser lets the page make HTML of texts")
	}
}
