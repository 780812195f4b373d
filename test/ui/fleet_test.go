// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/page"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// newPage serves a page of hosts that do not exist, before a cluster that counts requests.
func newPage(t *testing.T, respond http.HandlerFunc, change ...func(*page.Options)) (server *page.Server, requests *atomic.Int32) {
	t.Helper()
	requests = &atomic.Int32{}
	cluster := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		respond(w, r)
	}))
	t.Cleanup(cluster.Close)
	options := page.Options{
		Config: &rest.Config{Host: cluster.URL}, Scope: page.Scope{Context: "lab", Namespace: "metal3"},
		Detail: func(context.Context, string, string) (*page.Detail, error) {
			return nil, fmt.Errorf("not part of this test")
		},
		Rights: func(context.Context, string) map[page.Right]bool {
			return map[page.Right]bool{page.RightPower: true, page.RightConsole: true}
		},
	}
	for _, c := range change {
		c(&options)
	}
	server, err := page.Listen(t.Context(), 0, options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return server, requests
}

// fleetOf returns hosts in the states that a fleet has.
func fleetOf(n int) []*metal3.BareMetalHost {
	states := []metal3.ProvisioningState{
		metal3.StateProvisioned, metal3.StateProvisioned, metal3.StateProvisioned, metal3.StateAvailable, metal3.StateProvisioning,
		metal3.StateProvisioned, metal3.StateInspecting, metal3.StateProvisioned, metal3.StateRegistering, metal3.StateAvailable,
	}
	hosts := make([]*metal3.BareMetalHost, n)
	for i := range hosts {
		rack := fmt.Sprintf("rack%d", i/40+1)
		name := fmt.Sprintf("%s-u%02d", rack, i%40+1)
		since := metav1.NewTime(time.Now().Add(-time.Duration(i%97*i%97)*17*time.Minute - 5*time.Minute))
		h := &metal3.BareMetalHost{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "metal3", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1", Labels: map[string]string{"rack": rack, "site": "north"},
			},
			Spec: metal3.BareMetalHostSpec{Online: true, BMC: metal3.BMCDetails{Address: "ipmi://192.0.2.1"}},
			Status: metal3.BareMetalHostStatus{
				OperationalStatus: metal3.OperationalStatusOK, Provisioning: metal3.ProvisionStatus{State: states[i%len(states)]},
				Ironic: &metal3.IronicStatus{PowerState: "power on", ProvisionState: "active"},
			},
		}
		h.Status.OperationHistory.Provision.Start, h.Status.OperationHistory.Inspect.Start, h.Status.OperationHistory.Register.Start = since, since, since
		h.Status.Conditions = []metav1.Condition{
			{Type: metal3.ProvisionedCondition, LastTransitionTime: since}, {Type: metal3.AvailableForProvisioningCondition, LastTransitionTime: since},
		}
		h.Status.Record.State = &metal3.TimeInState{Name: h.Status.Provisioning.State, Since: since}
		switch h.Status.Provisioning.State {
		case metal3.StateProvisioning:
			h.Status.Ironic = &metal3.IronicStatus{PowerState: "power on", ProvisionState: "deploying", Step: "deploy.write_image", StepIndex: i%6 + 1, StepCount: 6}
		case metal3.StateInspecting:
			h.Status.Ironic = &metal3.IronicStatus{PowerState: "power on", ProvisionState: "inspect wait"}
		case metal3.StateRegistering:
			h.Status.OperationalStatus, h.Status.ErrorType = metal3.OperationalStatusError, metal3.RegistrationError
			h.Status.ErrorMessage = "Failed to get power state for node a4a53134-1690-45c6-93ee-b96c31dbfc54. Error: IPMI call failed: power status."
		}
		hosts[i] = h
	}
	return hosts
}

func show(t *testing.T, server *page.Server, hosts []*metal3.BareMetalHost) {
	t.Helper()
	now := time.Now()
	if err := server.Show(hosts, nil, page.Freshness{Live: true, Confirmed: &now}); err != nil {
		t.Fatal(err)
	}
}

// TestThousandHosts: a change of one host draws that row and no other, and the filter, the order and the
// keyboard work.
func TestThousandHosts(t *testing.T) {
	t.Parallel()
	server, _ := newPage(t, http.NotFound)
	hosts := fleetOf(1000)
	show(t, server, hosts)
	b := openTab(t)
	b.open(server.Link())
	b.wait(".counts", "1000 hosts")
	if n := eval[int](b, `document.querySelectorAll("tbody tr").length`); n != 1000 {
		t.Errorf("%d rows", n)
	}
	b.keepPicture("ui-list.png")
	b.accessible()

	// The browser reports which rows a change touches.
	eval[bool](b, `(() => {
		window.touched = new Set(); window.moved = 0;
		new MutationObserver((all) => { for (const m of all) {
			if (m.target.nodeName === "TBODY") window.moved++;
			else { const row = (m.target.closest ? m.target : m.target.parentElement)?.closest("tr"); if (row && !m.target.closest?.(".since") && !m.target.parentElement?.closest(".since")) window.touched.add(row.dataset.name); }
		} }).observe(document.querySelector("tbody"), {subtree: true, childList: true, characterData: true, attributes: true});
		return true; })()`)
	changed := hosts[500].DeepCopy()
	changed.ResourceVersion, changed.Status.Provisioning.State = "2", metal3.StateDeprovisioning
	hosts[500] = changed
	began := time.Now()
	show(t, server, hosts)
	b.wait(fmt.Sprintf("tr[data-name=%q]", changed.Name), "deprovisioning")
	t.Logf("a change of one of 1,000 hosts is on the screen after %s", time.Since(began).Round(time.Millisecond))
	if touched := eval[[]string](b, `[...window.touched]`); len(touched) != 1 || touched[0] != changed.Name {
		t.Errorf("the change of %s has drawn the rows %q", changed.Name, touched)
	}
	if moved := eval[int](b, `window.moved`); moved != 0 {
		t.Errorf("the change has moved %d rows", moved)
	}

	// By keyboard alone: to the filter, a host, and back with the filter kept.
	b.do(chromedp.Focus(chromedp.CSS("#filter")), chromedp.KeyEvent("rack3-u07"))
	b.wait("#announcer", "1 of 1000 hosts shown")
	b.do(chromedp.Focus(chromedp.CSS(`tr[data-name="rack3-u07"] a`)), chromedp.KeyEvent(kb.Enter))
	b.wait("h2", "rack3-u07")
	if focused := eval[string](b, "document.activeElement.id"); focused != "main" {
		t.Errorf("in the view of a host, the focus is on %q", focused)
	}
	b.do(chromedp.NavigateBack())
	b.waitFor("the filter to be back", func() string {
		if got := eval[string](b, `document.querySelector("#filter")?.value ?? "(none)"`); got != "rack3-u07" {
			return quote(got)
		}
		return ""
	})
	// What is not shown cannot be acted on.
	b.click(`thead input`)
	b.wait(".bulk", "1 host selected")
	b.refill("Filter", "rack9")
	eval[bool](b, `document.querySelector("#filter").dispatchEvent(new Event("input"))`)
	b.waitFor("the selection to end", func() string {
		if !eval[bool](b, `document.querySelector(".bulk").hidden`) {
			return "it is there"
		}
		return ""
	})
	b.noComplaints()
}

// TestSelectAll: the hosts for which there is no room are not selected with those that are shown.
func TestSelectAll(t *testing.T) {
	t.Parallel()
	server, _ := newPage(t, http.NotFound)
	show(t, server, fleetOf(1002))
	b := openTab(t)
	b.open(server.Link())
	b.wait("main", "1000 of 1002 hosts are shown")
	b.click(`thead input`)
	b.wait(".bulk", "1000 hosts selected")
	b.press("main", "1000 of 1002 hosts are shown: show 2 more")
	b.waitFor("the other rows", func() string {
		if n := eval[int](b, `document.querySelectorAll("tbody tr").length`); n != 1002 {
			return fmt.Sprint(n)
		}
		return ""
	})
	b.wait(".bulk", "1000 hosts selected")
	if is := eval[bool](b, `document.querySelector("thead input").checked`); is {
		t.Error("all hosts that are shown count as selected")
	}
	b.noComplaints()
}

// TestStopped: who stops a change of many hosts while it is being made sees for which nothing was requested.
func TestStopped(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	answer := make(chan struct{})
	server, _ := newPage(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/power") {
			http.NotFound(w, r)
			return
		}
		asked.Add(1)
		<-answer
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"HostPower","apiVersion":"metal3.io/v1alpha1"}`)
	})
	show(t, server, fleetOf(40))
	b := openTab(t)
	b.open(server.Link())
	b.wait(".counts", "40 hosts")
	b.click(`thead input`)
	b.wait(".bulk", "40 hosts selected")
	b.press("main", "Power off")
	b.press("dialog", "Power off 40 hosts")
	b.wait("dialog", "0 of 40 have answered")
	b.press("dialog", "Stop")
	close(answer)
	b.wait("dialog", "Stopped: nothing was requested for 32 hosts.")
	b.wait("dialog", "Requested for 8 hosts.")
	b.wait("#announcer", "Stopped: nothing was requested for 32 hosts.")
	if n := asked.Load(); n != 8 {
		t.Errorf("%d machines were switched off, want the 8 for which that was requested before", n)
	}
	b.accessible()
	b.press("dialog", "Close")
	b.noComplaints()
}

// TestWaking: after the computer has been asleep, the page does not wait for its old connection to show that it is dead.
func TestWaking(t *testing.T) {
	t.Parallel()
	server, _ := newPage(t, http.NotFound)
	show(t, server, fleetOf(2))
	b := openTab(t)
	b.open(server.Link())
	b.wait("#freshness", "Live")
	eval[bool](b, `(() => {
		const fetch = window.fetch, now = Date.now;
		window.connections = 0;
		window.fetch = (...all) => { if (all[0] === "/live") window.connections++; return fetch(...all); };
		Date.now = () => now() + 3600_000;
		return true; })()`)
	b.waitFor("the page to connect again", func() string {
		if n := eval[int](b, `window.connections`); n == 0 {
			return "it has not"
		}
		return ""
	})
	b.wait(".counts", "2 hosts")
	b.noComplaints()
}

// TestCraftedLinks: addresses that nobody's page has written show the list.
func TestCraftedLinks(t *testing.T) {
	t.Parallel()
	server, _ := newPage(t, http.NotFound)
	show(t, server, fleetOf(3))
	b := openTab(t)
	b.open(server.Link())
	b.wait(".counts", "3 hosts")
	for _, crafted := range []string{"#/host/%", "#/%E0%A4%A/a", "#/?sort=__proto__", "#/?sort=constructor&show=__proto__"} {
		eval[bool](b, `location.hash = "#/add", true`)
		b.wait("h2", "Add")
		eval[bool](b, fmt.Sprintf(`location.hash = %q, true`, crafted))
		b.wait(".counts", "3 hosts")
		b.wait("tbody", "rack1-u03")
	}
	b.noComplaints()
}

// TestWrittenLinks: a bookmark is shown while the list is shown already, and a page that is read-only has no form.
func TestWrittenLinks(t *testing.T) {
	t.Parallel()
	server, _ := newPage(t, http.NotFound, func(o *page.Options) { o.ReadOnly = true })
	show(t, server, fleetOf(10))
	b := openTab(t)
	b.open(server.Link())
	b.wait(".counts", "10 hosts")
	b.wait("tbody", "rack1-u01")
	eval[bool](b, `location.hash = "#/?show=problems", true`)
	b.waitFor("the hosts with a problem", func() string {
		if n := eval[int](b, `document.querySelectorAll("tbody tr").length`); n != 1 {
			return fmt.Sprint(n)
		}
		return ""
	})
	eval[bool](b, `location.hash = "#/add", true`)
	b.wait("main", "This page is read-only")
	if n := eval[int](b, `document.querySelectorAll("main form, main input").length`); n != 0 {
		t.Errorf("%d fields", n)
	}
	b.noComplaints()
}
