// SPDX-License-Identifier: Apache-2.0

package page

import (
	"net"
	"net/http"
	"strings"
	"testing"
)

const powerPath = "/api/namespaces/metal3/baremetalhosts/worker-0/power"

// TestGuard: what another web site, or another user of this machine, can try.
func TestGuard(t *testing.T) {
	f := newFixture(t)
	port := f.base[strings.LastIndexByte(f.base, ':'):]
	navigate := func(r *http.Request) {
		r.Header = http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"document"}}
	}
	for _, c := range []struct {
		name         string
		method, path string
		change       []func(*http.Request)
		want         int
	}{
		{"the page's own request", "POST", powerPath, nil, 200},
		{"by the name localhost", "POST", powerPath, []func(*http.Request){host("localhost" + port), header("Origin", "http://localhost"+port)}, 200},
		{"a browser without Sec-Fetch-Site", "POST", powerPath, []func(*http.Request){header("Sec-Fetch-Site", "")}, 200},

		{"DNS rebinding, a read", "GET", "/rights/metal3", []func(*http.Request){host("evil.example" + port), header("Origin", "")}, 421},
		{"DNS rebinding, a write", "POST", powerPath, []func(*http.Request){host("evil.example" + port), header("Origin", "http://evil.example"+port)}, 421},
		{"DNS rebinding, the page", "GET", "/", []func(*http.Request){host("evil.example" + port)}, 421},
		{"another port as Host", "GET", "/rights/metal3", []func(*http.Request){host("127.0.0.1:1")}, 421},
		{"Host without port", "GET", "/rights/metal3", []func(*http.Request){host("127.0.0.1")}, 421},

		{"another site's write", "POST", powerPath, []func(*http.Request){header("Origin", "https://evil.example"), header("Sec-Fetch-Site", "cross-site")}, 403},
		{"another port's write", "POST", powerPath, []func(*http.Request){header("Origin", "http://127.0.0.1:1"), header("Sec-Fetch-Site", "same-site")}, 403},
		{"localhost for 127.0.0.1", "POST", powerPath, []func(*http.Request){header("Origin", "http://localhost"+port)}, 403},
		{"a sandboxed frame", "POST", powerPath, []func(*http.Request){header("Origin", "null")}, 403},
		{"two origins", "POST", powerPath, []func(*http.Request){func(r *http.Request) { r.Header.Add("Origin", "https://evil.example") }}, 403},
		{"a write without origin", "POST", powerPath, []func(*http.Request){header("Origin", "")}, 403},
		{"another site's read", "GET", "/rights/metal3", []func(*http.Request){header("Origin", ""), header("Sec-Fetch-Site", "cross-site")}, 403},
		{"another port's read", "GET", "/rights/metal3", []func(*http.Request){header("Origin", ""), header("Sec-Fetch-Site", "same-site")}, 403},
		{"a script in another site", "GET", "/assets/main.js", []func(*http.Request){header("Origin", ""), header("Sec-Fetch-Site", "cross-site")}, 403},
		{"a link to the page", "GET", "/", []func(*http.Request){navigate}, 200},
		{"a link to data", "GET", "/rights/metal3", []func(*http.Request){navigate}, 403},
		{"the page in a frame", "GET", "/", []func(*http.Request){navigate, header("Sec-Fetch-Dest", "iframe")}, 403},
		{"another site's WebSocket", "GET", "/api/namespaces/metal3/baremetalhosts/worker-0/console",
			[]func(*http.Request){header("Upgrade", "websocket"), header("Connection", "Upgrade"), header("Origin", "https://evil.example"), header("Sec-Fetch-Site", "")}, 403},
		{"a WebSocket without origin", "GET", "/api/namespaces/metal3/baremetalhosts/worker-0/console",
			[]func(*http.Request){header("Upgrade", "websocket"), header("Connection", "Upgrade"), header("Origin", "")}, 403},
		{"a WebSocket without the key", "GET", "/api/namespaces/metal3/baremetalhosts/worker-0/console",
			[]func(*http.Request){header("Upgrade", "websocket"), header("Connection", "Upgrade")}, 401},

		{"without cookie", "POST", powerPath, []func(*http.Request){noCookie}, 401},
		{"without key", "POST", powerPath, []func(*http.Request){header(keyHeader, "")}, 401},
		{"wrong key", "POST", powerPath, []func(*http.Request){header(keyHeader, "x")}, 401},
		{"the list without cookie", "GET", "/live", []func(*http.Request){noCookie}, 401},
		{"a host without key", "GET", "/hosts/metal3/worker-0", []func(*http.Request){header(keyHeader, "")}, 401},
		{"preflight", "OPTIONS", powerPath, []func(*http.Request){header("Origin", "https://evil.example"), header("Access-Control-Request-Method", "POST")}, 403},
	} {
		before, _ := f.last()
		response := f.request(t, c.method, c.path, `{}`, c.change...)
		if response.StatusCode != c.want {
			t.Errorf("%s: %d, want %d: %s", c.name, response.StatusCode, c.want, text(t, response))
		}
		if after, _ := f.last(); c.want != 200 && after != before {
			t.Errorf("%s: the cluster has received %s", c.name, after.URL)
		}
		for _, key := range []string{"Access-Control-Allow-Origin", "Access-Control-Allow-Credentials"} {
			if response.Header.Get(key) != "" {
				t.Errorf("%s: the answer has %s", c.name, key)
			}
		}
		csp := response.Header.Get("Content-Security-Policy")
		if !strings.HasPrefix(csp, "default-src 'none'; script-src 'self'; ") || strings.Contains(csp, "unsafe") || !strings.Contains(csp, "frame-ancestors 'none'") {
			t.Errorf("%s: Content-Security-Policy: %s", c.name, csp)
		}
		if response.Header.Get("X-Content-Type-Options") != "nosniff" || response.Header.Get("Cross-Origin-Resource-Policy") != "same-origin" || response.Header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: the headers are %v", c.name, response.Header)
		}
	}
}

// TestLink: the link works once, and gives a cookie that scripts and other sites cannot use.
func TestLink(t *testing.T) {
	f := newFixture(t)
	_, secret, ok := strings.Cut(f.Link(), "#link=")
	if !ok || len(secret) < 20 {
		t.Fatalf("the link is %s", f.Link())
	}
	open := func(body string, change ...func(*http.Request)) *http.Response {
		return f.request(t, "POST", "/session", body, append([]func(*http.Request){noCookie, header(keyHeader, "")}, change...)...)
	}
	for _, refused := range []*http.Response{
		open(`{"link":"wrong"}`), open(`{}`), open(`x`),
		open(`{"link":"`+secret+`"}`, header("Content-Type", "text/plain")),
		open(`{"link":"`+secret+`"}`, header("Origin", "http://127.0.0.1:1")),
	} {
		if refused.StatusCode == 200 || refused.Header.Get("Set-Cookie") != "" {
			t.Errorf("answered with %d and the cookie %q", refused.StatusCode, refused.Header.Get("Set-Cookie"))
		}
	}
	opened := open(`{"link":"` + secret + `"}`)
	cookies := opened.Cookies()
	if opened.StatusCode != 200 || len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode || cookies[0].Domain != "" {
		t.Fatalf("%d, the cookies are %v", opened.StatusCode, cookies)
	}
	if body := text(t, opened); !strings.Contains(body, f.session.key) || strings.Contains(body, cookies[0].Value) {
		t.Errorf("the answer is %s", body)
	}
	again := open(`{"link":"` + secret + `"}`)
	if again.StatusCode != 403 || again.Header.Get("Set-Cookie") != "" || f.reused != 1 {
		t.Errorf("the second time: %d, reported %d times", again.StatusCode, f.reused)
	}
	if other := newFixture(t); other.session.cookieName == f.session.cookieName || other.session.token == f.session.token {
		t.Error("another page has the same name of the cookie, or the same link")
	}
}

// TestPageHasNoSecrets: what everybody on this machine can read.
func TestPageHasNoSecrets(t *testing.T) {
	f := newFixture(t)
	body := text(t, f.request(t, "GET", "/", "", noCookie, header(keyHeader, "")))
	for _, secret := range []string{f.session.token, f.session.key, f.session.cookie, "of-the-user", "metal3\""} {
		if strings.Contains(body, secret) {
			t.Errorf("the page has %q", secret)
		}
	}
}

func TestOnlyOnLoopback(t *testing.T) {
	f := newFixture(t)
	if ip := f.listener.Addr().(*net.TCPAddr).IP; !ip.IsLoopback() {
		t.Errorf("it listens on %s", ip)
	}
}
