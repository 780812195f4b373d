package ui

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/page"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// otherName is a name of another site, which the browser resolves to 127.0.0.1.
const otherName = "evil.example"

// TestOtherSite: a page of another port of this machine, which belongs to another user, and one of another
// site, opened in the same browser.
func TestOtherSite(t *testing.T) {
	t.Parallel()
	for name, host := range map[string]string{"another port": "127.0.0.1", "another site": otherName} {
		t.Run(name, func(t *testing.T) { t.Parallel(); attackFrom(t, host) })
	}
}

func attackFrom(t *testing.T, host string) {
	server, requests := newPage(t, http.NotFound)
	show(t, server, fleetOf(2))
	b := openTab(t)
	b.open(server.Link())
	b.wait(".counts", "2 hosts")
	base, _, _ := strings.Cut(server.Link(), "/#")

	var cookies atomic.Value
	cookies.Store("")
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c := r.Header.Get("Cookie"); c != "" {
			cookies.Store(c)
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!doctype html><title>other</title>"))
	}))
	t.Cleanup(other.Close)
	attacker := openTab(t)
	attacker.open(strings.Replace(other.URL, "127.0.0.1", host, 1))
	eval[bool](attacker, fmt.Sprintf(`(async () => {
		const base = %s, path = "/api/namespaces/metal3/baremetalhosts/rack1-u01/power", body = '{"spec":{"action":"off"}}';
		const tries = {
			simple: () => fetch(base + path, {method: "POST", mode: "no-cors", credentials: "include", body: new Blob([body])}),
			json: () => fetch(base + path, {method: "POST", credentials: "include", headers: {"Content-Type": "application/json"}, body}),
			read: () => fetch(base + "/live", {credentials: "include"}).then((r) => r.text()),
			socket: () => new Promise((resolve, reject) => { const s = new WebSocket(base.replace("http", "ws") + "/api/namespaces/metal3/baremetalhosts/rack1-u01/console"); s.onopen = resolve; s.onerror = () => reject(new Error("refused")); }),
			script: () => import(base + "/assets/api.js"),
		};
		const results = {};
		for (const [name, attempt] of Object.entries(tries)) results[name] = await attempt().then((r) => (r?.type === "opaque" ? "sent" : "done"), () => "refused");
		window.results = results;
	})(), true`, quote(base)))
	attacker.waitFor("the attempts to end", func() string {
		if !eval[bool](attacker, "Boolean(window.results)") {
			return "they have not"
		}
		return ""
	})
	results := eval[map[string]string](attacker, "window.results")
	for name, got := range results {
		// A request without CORS is sent, and its answer is hidden from the page; the server has refused it.
		if got != "refused" && (name != "simple" || got != "sent") {
			t.Errorf("%s: %s", name, got)
		}
	}
	if len(results) != 5 || requests.Load() != 0 {
		t.Errorf("%d requests have reached the cluster, results %v", requests.Load(), results)
	}
	// Cookies know no ports: this is why the cookie alone gives no access.
	if got := cookies.Load().(string); strings.Contains(got, "bmh-") != (host == "127.0.0.1") {
		t.Errorf("the other port has received the cookies %q; the comment in guard.go is no longer true", got)
	}
}

// TestFramed: the page shows nothing in a frame, in which somebody could have clicks made on it.
func TestFramed(t *testing.T) {
	t.Parallel()
	server, _ := newPage(t, http.NotFound)
	show(t, server, fleetOf(2))
	base, _, _ := strings.Cut(server.Link(), "/#")
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<!doctype html><title>other</title><iframe src="` + base + `/"></iframe>`))
	}))
	t.Cleanup(other.Close)
	attacker := openTab(t)
	attacker.open(other.URL)
	refused := func() bool {
		attacker.mu.Lock()
		defer attacker.mu.Unlock()
		return slices.ContainsFunc(attacker.complaints, func(c string) bool { return strings.Contains(c, "403") || strings.Contains(c, "frame") })
	}
	attacker.waitFor("the frame to be refused", func() string {
		if !refused() {
			return "it is not"
		}
		return ""
	})
}

// TestRebound: a name of somebody else's that resolves to 127.0.0.1 is another site to the browser, whose
// scripts it would let read everything that the page's port answers to it.
func TestRebound(t *testing.T) {
	t.Parallel()
	server, requests := newPage(t, http.NotFound)
	show(t, server, fleetOf(2))
	b := openTab(t)
	b.open(strings.Replace(server.Link(), "127.0.0.1", otherName, 1))
	if text := eval[string](b, "document.body.innerText"); !strings.Contains(text, "this server is not "+otherName) {
		t.Errorf("the browser shows %q", text)
	}
	eval[bool](b, `fetch("/live", {headers: {"X-Bmh-Key": "x"}}).then(async (r) => { window.answer = r.status + " " + await r.text(); }), true`)
	var got string
	b.waitFor("an answer", func() string {
		got = eval[string](b, `window.answer ?? ""`)
		if got == "" {
			return "there is none"
		}
		return ""
	})
	if !strings.HasPrefix(got, "421") || requests.Load() != 0 {
		t.Errorf("a script there is answered %s", got)
	}
	// The link was not used up by that.
	owner := openTab(t)
	owner.open(server.Link())
	owner.wait(".counts", "2 hosts")
}

// TestStolenLink: another user of this machine, with a browser of his own, gets nothing without the link, and
// nothing by one that was used; the owner is told.
func TestStolenLink(t *testing.T) {
	t.Parallel()
	reused := make(chan struct{}, 1)
	server, requests := newPage(t, http.NotFound, func(o *page.Options) { o.LinkReused = func() { reused <- struct{}{} } })
	show(t, server, fleetOf(2))
	owner := openTab(t)
	owner.open(server.Link())
	owner.wait(".counts", "2 hosts")
	base, _, _ := strings.Cut(server.Link(), "/#")
	for _, link := range []string{base + "/", server.Link()} {
		thief := openTab(t, chromedp.WithNewBrowserContext())
		thief.open(link)
		thief.waitFor("the page to refuse", func() string {
			text := eval[string](thief, "document.body.innerText")
			if strings.Contains(text, "rack1") || !strings.Contains(text, "link") {
				return quote(text)
			}
			return ""
		})
	}
	select {
	case <-reused:
	case <-time.After(testbed.Patience):
		t.Error("the owner is not told that the link was used again")
	}
	if requests.Load() != 0 {
		t.Errorf("%d requests have reached the cluster", requests.Load())
	}
}
