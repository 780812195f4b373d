// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/consumers"
	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/page"
	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/why"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/hostile"
)

// TestHostileHost: a host each text of which is hostile, with such events and such a history, before a
// cluster that refuses everything in such words: all of it is text, and none of it turns the direction of
// what is around it, has the browser ask anybody for anything, or makes the page wider than the window.
func TestHostileHost(t *testing.T) {
	t.Parallel()
	const elsewhere = "https://" + otherName + "/"
	for name, text := range map[string]string{
		"HTML and control characters": hostile.Text,
		"URLs":                        `javascript:window.hacked=1//<script>"'><img src=` + elsewhere + `x><link rel=stylesheet href=` + elsewhere + `y><a href=javascript:window.hacked=1 id=hostile>`,
		"much":                        "<script>" + strings.Repeat("overlong", 1500),
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); isHarmlessAsHost(t, text) })
	}
}

func isHarmlessAsHost(t *testing.T, text string) {
	var facts why.Facts
	hostile.Fill(&facts, text)
	facts.Host.Namespace, facts.Host.Name, facts.Host.DeletionTimestamp = "metal3", "worker-0", nil
	facts.Events[0].Type, facts.Interfaces[0].Name, facts.Interfaces[0].Result = corev1.EventTypeWarning, "deploy", metal3.InterfaceUnusable
	facts.Host.Status.Conditions[0].Type, facts.Host.Status.Conditions[0].Status = metal3.HeldCondition, metav1.ConditionTrue
	named := facts.Host.DeepCopy()
	named.Name, named.UID = text, "named"
	consumer := consumers.Consumer{Machine: text, Node: text}
	server, requests := newPage(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Message: text,
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Field: text, Message: text}}},
		})
	}, func(o *page.Options) {
		o.Scope.Context, o.Scope.Selector, o.Scope.AllNamespaces = text, text, true
		o.Detail = func(context.Context, string, string) (*page.Detail, error) {
			return page.NewDetail(facts, consumer, []string{text}, time.Now()), nil
		}
		o.Rights = func(context.Context, string) map[page.Right]bool {
			return map[page.Right]bool{page.RightPower: true, page.RightIndicator: true, page.RightConsole: true, page.RightDelete: true}
		}
	})
	now := time.Now()
	all := []*metal3.BareMetalHost{facts.Host, named}
	if err := server.Show(all, map[string]consumers.Consumer{string(facts.Host.UID): consumer}, page.Freshness{Live: true, Confirmed: &now, Reason: text}); err != nil {
		t.Fatal(err)
	}
	b := openTab(t)
	recorded := b.recordAnswers()
	b.open(server.Link())
	b.wait(`tr[data-name="worker-0"] td.problem`, "<script>")
	b.isHarmless("the list")

	b.click("thead input")
	b.press("main", "Power off")
	b.wait("dialog", "host")
	b.isHarmless("the question")
	b.click("dialog button.danger, dialog button[type=submit]")
	b.waitFor("the cluster to refuse", func() string {
		if requests.Load() == 0 {
			return "it was not asked"
		}
		return ""
	})
	b.isHarmless("the refusals")

	b.open(server.Link() + "x") // only the fragment changes: the dialog closes
	eval[bool](b, `location.hash = "#/host/metal3/worker-0", document.querySelector("dialog")?.close(), true`)
	b.wait("#facts + div", "<script>")
	b.wait("#timeline + div", "<script>")
	b.wait("#hardware + div", "<script>")
	b.isHarmless("the host")
	b.press("main", "Light on")
	b.wait("p.mistake[role=alert]", "<script>")
	b.isHarmless("the error")
	b.press("main", "Delete…")
	b.wait("dialog", "Type the name")
	b.isHarmless("the question about the host")

	base, _, _ := strings.Cut(server.Link(), "/#")
	for _, address := range recorded.requested() {
		if !strings.HasPrefix(address, base+"/") {
			t.Errorf("the browser has asked for %s", address)
		}
	}
}

// isHarmless asserts that nothing was made of hostile text but text.
func (b *tab) isHarmless(where string) {
	b.t.Helper()
	found := eval[[]string](b, `(() => {
		const found = [];
		if (window.hacked) found.push("a script has run");
		for (const e of document.querySelectorAll("#hostile, img, svg, link[href^=http], script:not([src])")) found.push("there is " + e.outerHTML.slice(0, 100));
		const hidden = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/;
		for (const e of document.querySelectorAll("*")) {
			for (const a of e.attributes) {
				const leads = /^(href|src|srcset|action|formaction|data|ping|poster|xlink:href)$/i.test(a.name) && new URL(a.value, document.baseURI).origin !== location.origin;
				if (/^on/i.test(a.name) || leads) found.push("an attribute " + a.name);
				if (hidden.test(a.value)) found.push("hidden characters in " + e.tagName + " " + a.name);
			}
			for (const n of e.childNodes) if (n.nodeType === 3 && hidden.test(n.data)) found.push("hidden characters in " + e.tagName + " " + e.className);
		}
		if (document.documentElement.scrollWidth > innerWidth) {
			const wide = [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth && !e.closest(".scroll, .unseen"));
			found.push("the page is " + document.documentElement.scrollWidth + " wide: " + wide.slice(0, 10).map((e) => e.tagName + "." + e.className + "#" + e.id));
		}
		return found;
	})()`)
	if len(found) > 0 {
		b.t.Errorf("%s: %s", where, fmt.Sprintf("%q", found))
	}
}
