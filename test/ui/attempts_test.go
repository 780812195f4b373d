// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// answers are the codes with which a tab's requests were answered, as they came over the line: also of what the browser
// withholds from the page.
type answers struct {
	mu    sync.Mutex
	urls  map[network.RequestID]string
	codes map[network.RequestID][]int64
}

// recordAnswers records what happens from now on.
func (b *tab) recordAnswers() *answers {
	b.t.Helper()
	a := &answers{urls: map[network.RequestID]string{}, codes: map[network.RequestID][]int64{}}
	if err := chromedp.Listen(b.ctx, a.listen); err != nil {
		b.t.Fatal(err)
	}
	return a
}

func (a *answers) listen(event any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		a.urls[e.RequestID] = e.Request.URL
	case *network.EventWebSocketCreated:
		a.urls[e.RequestID] = e.URL
	case *network.EventResponseReceivedExtraInfo:
		a.codes[e.RequestID] = append(a.codes[e.RequestID], e.StatusCode)
	case *network.EventWebSocketHandshakeResponseReceived:
		a.codes[e.RequestID] = append(a.codes[e.RequestID], int64(e.Response.Status))
	}
}

// of returns the codes of the answers of a server, by path, and how many there were.
func (a *answers) of(base string) (codes map[string][]int64, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	codes = map[string][]int64{}
	server, _ := url.Parse(base)
	for id, address := range a.urls {
		if u, err := url.Parse(address); err == nil && u.Host == server.Host {
			codes[u.Path] = append(codes[u.Path], a.codes[id]...)
			n += len(a.codes[id])
		}
	}
	return codes, n
}

// requested returns the URLs of all requests.
func (a *answers) requested() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Values(a.urls))
}

// attempts is a function in JavaScript that tries all ways in which a document can have requests sent to a page, and has data
// of it shown or read. It sets window.results to what came of each: refused, sent if the document cannot know, the code of an
// answer that it can read, or done.
const attempts = `async (base) => {
	const host = base + "/api/namespaces/metal3/baremetalhosts/rack1-u01", off = '{"spec":{"action":"off"}}';
	const json = {"Content-Type": "application/json", "X-Bmh-Key": "guessed"};
	const ask = (path, options) => fetch(base + path, {credentials: "include", ...options}).then((r) => { r.body?.cancel(); return r.type === "opaque" ? "sent" : r.ok ? "done" : String(r.status); });
	const act = (method, path, body) => ask(path, {method, headers: json, body});
	const element = (tag, properties) => new Promise((done, refused) => {
		const e = Object.assign(document.createElement(tag), properties);
		e.onload = () => done("done");
		e.onerror = () => refused(new Error("refused"));
		document.body.append(e);
	});
	// What is in a frame of another site cannot be read, nor can be known whether it was refused.
	const seen = (frame) => { try { return /rack1|Bare metal hosts/.test(frame.contentDocument.documentElement.textContent) ? "done" : "refused"; } catch { return "sent"; } };
	const frame = (src) => new Promise((done) => {
		const f = document.createElement("iframe");
		f.src = src;
		f.onload = () => done(seen(f));
		document.body.append(f);
	});
	const form = (action, enctype, name, value) => new Promise((done) => {
		const f = document.createElement("iframe");
		f.name = "frame" + Math.random();
		document.body.append(f);
		f.onload = () => done(seen(f));
		const e = Object.assign(document.createElement("form"), {method: "POST", action, enctype, target: f.name});
		e.append(Object.assign(document.createElement("input"), {name, value}));
		document.body.append(e);
		e.submit();
	});
	const socket = (...protocols) => new Promise((done, refused) => {
		const s = new WebSocket(host.replace("http", "ws") + "/console", protocols);
		s.onopen = () => done("done");
		s.onerror = () => refused(new Error("refused"));
	});
	const events = () => new Promise((done, refused) => {
		const e = new EventSource(base + "/live", {withCredentials: true});
		e.onopen = () => { e.close(); done("done"); };
		e.onerror = () => { e.close(); refused(new Error("refused")); };
	});
	const tries = {
		list: () => ask("/live"), "list without CORS": () => ask("/live", {mode: "no-cors"}), "list with a key": () => ask("/live", {headers: json}),
		detail: () => ask("/hosts/metal3/rack1-u01"), rights: () => ask("/rights/metal3"), events,
		"power, simple": () => ask(host.slice(base.length) + "/power", {method: "POST", mode: "no-cors", body: new Blob([off])}),
		"power, JSON": () => act("POST", host.slice(base.length) + "/power", off),
		change: () => act("PATCH", host.slice(base.length), '{"metadata":{"uid":"uid-rack1-u01"},"spec":{"image":null}}'),
		deletion: () => act("DELETE", host.slice(base.length), '{"preconditions":{"uid":"uid-rack1-u01"}}'),
		secret: () => act("POST", "/api/namespaces/metal3/secrets", '{"apiVersion":"v1","kind":"Secret","type":"Opaque"}'),
		link: () => act("POST", "/session", '{"link":"guessed"}'),
		beacon: async () => { navigator.sendBeacon(host + "/power", new Blob([off], {type: "text/plain"})); return "sent"; },
		form: () => form(host + "/power", "application/x-www-form-urlencoded", "spec", "off"),
		"form as JSON": () => form(host + "/power", "text/plain", '{"spec":{"action":"off"},"x":"', '"}'),
		socket: () => socket(), "socket with a key": () => socket("v5.channel.k8s.io", "key.bmh.guessed"),
		image: () => element("img", {src: base + "/hosts/metal3/rack1-u01"}), icon: () => element("img", {src: base + "/assets/icon.svg"}),
		style: () => element("link", {rel: "stylesheet", href: base + "/assets/style.css"}),
		script: () => element("script", {src: base + "/assets/main.js"}), module: () => import(base + "/assets/api.js").then(() => "done"),
		frame: () => frame(base + "/"), "frame of data": () => frame(base + "/hosts/metal3/rack1-u01"),
	};
	const results = {};
	await Promise.all(Object.entries(tries).map(async ([name, attempt]) => { results[name] = await attempt().catch(() => "refused"); }));
	window.results = results;
}`

// withoutPolicy has documents of the tab do what their Content-Security-Policy forbids: an attacker's own document has none, and
// what the page's server refuses must not depend on what it asks browsers for.
func (b *tab) withoutPolicy() {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, page.SetBypassCSP, page.SetBypassCSPParams{Enabled: true})
		return err
	}))
}

// attempt has the document of a tab try everything, and returns what it knows of it, and what the server has answered.
func (b *tab) attempt(base string) (results map[string]string, answered map[string][]int64) {
	b.t.Helper()
	recorded := b.recordAnswers()
	eval[bool](b, fmt.Sprintf(`(%s)(%s), true`, attempts, quote(base)))
	b.waitFor("the attempts to end", func() string {
		if !eval[bool](b, "Boolean(window.results)") {
			return "they have not"
		}
		return ""
	})
	results = eval[map[string]string](b, "window.results")
	if len(results) != 24 {
		b.t.Errorf("there were %d attempts: %v", len(results), results)
	}
	// The browser itself stops some of them, and asks before some others. That most have come to the server shows that it is not
	// the browser alone that keeps everybody out.
	b.waitFor("the server to be asked", func() string {
		var n int
		if answered, n = recorded.of(base); n < 10 {
			return fmt.Sprintf("it has answered %d requests: %v", n, answered)
		}
		return ""
	})
	return results, answered
}

// gotNothing asserts that a document knows of no success. What is served to everybody is no success.
func gotNothing(t *testing.T, results map[string]string, public ...string) {
	t.Helper()
	for name, got := range results {
		if got == "done" && !slices.Contains(public, name) {
			t.Errorf("%s has succeeded: %v", name, results)
		}
	}
}

// areRefused asserts that a server has answered nothing but refusals, or that and the files of the page, which show no host.
func areRefused(t *testing.T, answered map[string][]int64, orFiles bool) {
	t.Helper()
	for path, codes := range answered {
		isFile := path == "/" || strings.HasPrefix(path, "/assets/")
		for _, code := range codes {
			if code < 400 && !(orFiles && isFile) {
				t.Errorf("%s was answered with %d", path, code)
			}
		}
	}
}
