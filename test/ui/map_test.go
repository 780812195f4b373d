// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/consumers"
	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/page"
	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/why"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// withDetail has a page know one host.
func withDetail(host *metal3.BareMetalHost) func(*page.Options) {
	return func(o *page.Options) {
		o.Detail = func(context.Context, string, string) (*page.Detail, error) {
			return page.NewDetail(why.Facts{Host: host}, consumers.Consumer{Machine: "worker-abc", Node: "node-7"}, nil, time.Now()), nil
		}
	}
}

// TestMap: hosts are tiles, grouped by their racks without anybody's help, a change of one draws it and no other, and a rack leads
// to a list of its hosts.
func TestMap(t *testing.T) {
	t.Parallel()
	server, _ := newPage(t, http.NotFound)
	hosts := fleetOf(400)
	hosts[399].Labels = nil
	show(t, server, hosts)
	b := openTab(t)
	b.open(server.Link())
	b.wait(".counts", "400 hosts")
	b.press("header", "Map")
	b.wait(".group:first-child h2", "rack1 40 hosts, 4 with a problem, 8 busy")
	if groups := eval[[]string](b, `[...document.querySelectorAll(".group h2 a")].map((e) => e.textContent)`); len(groups) != 11 || groups[1] != "rack2" || groups[9] != "rack10" || groups[10] != "(none)" {
		t.Errorf("the groups are %q", groups)
	}
	b.keepPicture("ui-map.png")
	b.accessible()

	eval[bool](b, `(() => { window.touched = new Set(); new MutationObserver((all) => { for (const m of all) { const tile = (m.target.closest ? m.target : m.target.parentElement).closest(".tile"); if (tile) window.touched.add(tile.getAttribute("href")); else if (m.type === "childList" && m.target.matches("ul, .map")) window.touched.add("order"); } })
		.observe(document.querySelector(".map"), {subtree: true, childList: true, characterData: true, attributes: true}); return true; })()`)
	changed := hosts[80].DeepCopy()
	changed.ResourceVersion, changed.Status.Provisioning.State = "2", metal3.StateDeprovisioning
	hosts[80] = changed
	show(t, server, hosts)
	b.waitFor("the tile to change", func() string {
		if got := eval[string](b, `document.querySelector('.tile[href$="rack3-u01"]').title`); !strings.Contains(got, "deprovisioning") {
			return quote(got)
		}
		return ""
	})
	if touched := eval[[]string](b, `[...window.touched]`); len(touched) != 1 {
		t.Errorf("the change of one host has drawn %q", touched)
	}

	// Another label, then a rack.
	b.do(chromedp.SetValue(chromedp.CSS("#by"), "state"))
	eval[bool](b, `document.querySelector("#by").dispatchEvent(new Event("change"))`)
	b.wait(".map", "provisioned 199 hosts")
	b.do(chromedp.NavigateBack())
	b.wait(".counts", "400 hosts")
	b.press("header", "Map")
	b.press("main", "rack3")
	b.wait(".counts", "40 rack=rack3")
	if n := eval[int](b, `document.querySelectorAll("tbody tr").length`); n != 40 {
		t.Errorf("the list of a rack has %d hosts", n)
	}
	b.refill("Filter", "rack=rack3")
	b.noComplaints()
}

// TestLately shows the hosts whose state has changed in the last hour, the last one first.
func TestLately(t *testing.T) {
	t.Parallel()
	server, _ := newPage(t, http.NotFound)
	hosts := fleetOf(5)
	for i, host := range hosts {
		since := metav1.NewTime(time.Now().Add(-time.Duration(i*25) * time.Minute))
		host.Status.Record.State = &metal3.TimeInState{Name: host.Status.Provisioning.State, Since: since}
	}
	show(t, server, hosts)
	b := openTab(t)
	b.open(server.Link())
	b.press("main", "3 changed in the last hour")
	b.waitFor("the three", func() string {
		got := eval[string](b, `[...document.querySelectorAll("tbody th")].map((e) => e.textContent).join(" ")`)
		if got != "rack1-u01 rack1-u02 rack1-u03" {
			return got
		}
		return ""
	})
	b.noComplaints()
}

// TestKeys: single keys lead through the page, write nothing into fields, and can be switched off.
func TestKeys(t *testing.T) {
	t.Parallel()
	hosts := fleetOf(3)
	server, _ := newPage(t, http.NotFound, withDetail(hosts[1]))
	show(t, server, hosts)
	b := openTab(t)
	b.open(server.Link())
	b.wait(".counts", "3 hosts")
	// As browsers do, and unlike chromedp.KeyEvent, this writes no character if the page has handled the key.
	keys := func(keys string) {
		b.t.Helper()
		for _, key := range strings.Split(keys, "") {
			for _, event := range []input.DispatchKeyEventParams{{Type: input.DispatchKeyEventTypeKeyDown, Key: key, Text: key}, {Type: input.DispatchKeyEventTypeKeyUp, Key: key}} {
				if _, err := chromedp.Call(b.ctx, input.DispatchKeyEvent, event); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	focused := func(want string) {
		b.t.Helper()
		b.waitFor("the focus on "+want, func() string {
			if got := eval[string](b, `document.activeElement.id || document.activeElement.innerText`); got != want {
				return quote(got)
			}
			return ""
		})
	}
	keys("/")
	focused("filter")
	keys("rack1-u0")
	b.wait("#announcer", "3 of 3 hosts shown")
	eval[bool](b, `document.activeElement.blur(), true`)
	keys("jj")
	focused("rack1-u02")
	keys("k")
	focused("rack1-u01")
	keys("j")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.wait("main h2", "rack1-u02")
	keys("u")
	b.waitFor("the list with its filter", func() string {
		return other(eval[string](b, `document.querySelector("#filter")?.value ?? ""`), "rack1-u0")
	})
	keys("m")
	b.wait(".group h2", "3 hosts")
	keys("j")
	b.waitFor("the focus on a tile", func() string { return other(eval[string](b, `document.activeElement.className.split(" ")[0]`), "tile") })
	keys("?")
	b.wait("dialog", "Next host")
	b.conforms()
	b.click("dialog input")
	b.press("dialog", "Done")
	b.waitFor("the dialog to close", func() string { return other(b.text("dialog"), "(no element)") })
	keys("l")
	keys("j")
	if hash := eval[string](b, "location.hash"); hash != "#/map" {
		t.Errorf("keys that are switched off lead to %s", hash)
	}
	b.noComplaints()
}

func other(got, want string) string {
	if got != want {
		return quote(got)
	}
	return ""
}

// TestForTerminal: what to type and the YAML of a host are there to be copied, without the password in the URL of its image.
func TestForTerminal(t *testing.T) {
	t.Parallel()
	hosts := fleetOf(1)
	host := hosts[0]
	host.Spec.Image = &metal3.Image{URL: "https://user:sesame@images/a.qcow2", Checksum: "https://user:sesame@images/a.sha256"}
	host.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	host.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": `{"spec":{"image":{"url":"https://user:sesame@images/a.qcow2"}}}`, "kept": "yes"}
	host.Status.OperationHistory.Inspect = metal3.OperationMetric{Start: metav1.NewTime(time.Now().Add(-2 * time.Hour)), End: metav1.NewTime(time.Now().Add(-2*time.Hour + 8*time.Minute))}
	server, _ := newPage(t, http.NotFound, withDetail(host))
	show(t, server, hosts)
	b := openTab(t)
	b.open(server.Link())
	b.press("main", "rack1-u01")
	b.wait("#source + div", "kubectl describe node node-7")
	b.wait("#source + div", "kubectl describe machine -n metal3 worker-abc")
	b.wait("#operations + div", "Inspection")
	b.wait("#operations + div", "took 8m")
	b.conforms()
	b.click("details summary")
	b.wait("pre", "kind: BareMetalHost")
	eval[bool](b, `Object.defineProperty(navigator, "clipboard", { value: { writeText: async (text) => { window.copied = text; } } }), true`)
	b.click("details button")
	b.wait("#announcer", "Copied")
	yaml := eval[string](b, `window.copied`)
	if yaml != b.text("pre")+"\n" && yaml != b.text("pre") || !strings.Contains(yaml, "kept: \"yes\"") {
		t.Errorf("copied %q", yaml)
	}
	for _, hidden := range []string{"sesame", "managedFields", "last-applied"} {
		if strings.Contains(yaml, hidden) {
			t.Errorf("the YAML has %s", hidden)
		}
	}
	b.noComplaints()
}

// TestPhone: on a narrow screen, nothing is cut off.
func TestPhone(t *testing.T) {
	t.Parallel()
	hosts := fleetOf(20)
	server, _ := newPage(t, http.NotFound, withDetail(hosts[8]))
	show(t, server, hosts)
	b := openTab(t)
	b.do(chromedp.EmulateViewport(360, 740))
	b.open(server.Link())
	for view, shows := range map[string]string{"#/": "rack1-u09", "#/map": "rack1-u09", "#/host/metal3/rack1-u09": "rack1-u09", "#/add": "BMC"} {
		eval[bool](b, fmt.Sprintf(`location.hash = %q, true`, view))
		b.wait("main", shows)
		if width := eval[int](b, `document.scrollingElement.scrollWidth`); width > 360 {
			t.Errorf("%s is %d pixels wide", view, width)
		}
		b.conforms()
	}
	b.noComplaints()
}

// TestTenThousandHosts: a change of one of them is on the screen, in the list and in the map, and nothing else is drawn again.
func TestTenThousandHosts(t *testing.T) {
	t.Parallel()
	server, _ := newPage(t, http.NotFound)
	hosts := fleetOf(10_000)
	show(t, server, hosts)
	b := openTab(t)
	b.open(server.Link())
	b.wait(".counts", "10000 hosts")
	for i, view := range []string{"#/", "#/map"} {
		eval[bool](b, fmt.Sprintf(`location.hash = %q, true`, view))
		selector := []string{`tr[data-name="rack1-u01"]`, `.tile[href$="/rack1-u01"]`}[i]
		b.waitFor("the first host", func() string {
			if !eval[bool](b, fmt.Sprintf(`document.querySelector(%s) !== null`, quote(selector))) {
				return "it is not there"
			}
			return ""
		})
		changed := hosts[0].DeepCopy()
		changed.ResourceVersion = fmt.Sprint(i + 2)
		changed.Status.Provisioning.State = []metal3.ProvisioningState{metal3.StateDeprovisioning, metal3.StatePreparing}[i]
		hosts[0] = changed
		began := time.Now()
		show(t, server, hosts)
		b.waitFor("the change", func() string {
			got := eval[string](b, fmt.Sprintf(`(() => { const e = document.querySelector(%s); return e.title || e.innerText; })()`, quote(selector)))
			if !strings.Contains(got, string(changed.Status.Provisioning.State)) {
				return quote(got)
			}
			return ""
		})
		t.Logf("%s: a change of one of 10,000 hosts is on the screen after %s", view, time.Since(began).Round(time.Millisecond))
	}
	b.noComplaints()
}
