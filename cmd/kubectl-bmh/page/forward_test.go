// SPDX-License-Identifier: Apache-2.0

package page

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const secretBody = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"},"type":"Opaque","stringData":{"username":"u","password":"p"}}`

// TestForwarded: the requests that reach the cluster, as the user and with nothing else of the browser.
func TestForwarded(t *testing.T) {
	f := newFixture(t)
	for _, c := range []struct{ method, path, body, want string }{
		{"POST", "/api/namespaces/metal3/secrets?dryRun=All&pretty=true", secretBody, "/clusters/c-1/api/v1/namespaces/metal3/secrets?dryRun=All&fieldManager=kubectl-bmh"},
		{"POST", "/api/namespaces/metal3/baremetalhosts?fieldValidation=Strict", `{}`, "/clusters/c-1/apis/metal3.io/v1alpha1/namespaces/metal3/baremetalhosts?fieldManager=kubectl-bmh&fieldValidation=Strict"},
		{"PATCH", "/api/namespaces/metal3/baremetalhosts/a.b", `{"metadata":{"uid":"u"},"spec":{"image":null}}`, "/clusters/c-1/apis/metal3.io/v1alpha1/namespaces/metal3/baremetalhosts/a.b?fieldManager=kubectl-bmh"},
		{"DELETE", "/api/namespaces/metal3/baremetalhosts/a", `{"preconditions":{"uid":"u"}}`, "/clusters/c-1/apis/metal3.io/v1alpha1/namespaces/metal3/baremetalhosts/a"},
		{"POST", powerPath, `{"spec":{"action":"off"}}`, "/clusters/c-1/apis/metal3.io/v1alpha1/namespaces/metal3/baremetalhosts/worker-0/power?fieldManager=kubectl-bmh"},
	} {
		response := f.request(t, c.method, c.path, c.body, header("Impersonate-User", "root"), header("X-Remote-User", "root"), header("Authorization", "Bearer other"))
		if response.StatusCode != 200 {
			t.Errorf("%s %s: %d %s", c.method, c.path, response.StatusCode, text(t, response))
			continue
		}
		got, body := f.last()
		if got.Method != c.method || got.URL.String() != c.want || body != c.body {
			t.Errorf("%s %s arrives as %s %s with %s", c.method, c.path, got.Method, got.URL, body)
		}
		for _, key := range []string{"Content-Length", "User-Agent"} {
			got.Header.Del(key)
		}
		contentType := jsonType
		if c.method == "PATCH" {
			contentType = mergePatchType
		}
		want := http.Header{"Authorization": {"Bearer of-the-user"}, "Content-Type": {contentType}, "Accept": {jsonType}, "Accept-Encoding": got.Header["Accept-Encoding"]}
		if got.Header["Accept-Encoding"] == nil {
			delete(want, "Accept-Encoding")
		}
		if diff := cmp.Diff(want, got.Header); diff != "" {
			t.Errorf("%s %s: the headers (-want +got):\n%s", c.method, c.path, diff)
		}
	}
}

// TestNotForwarded: the requests that do not reach the cluster, whatever the user may do there.
func TestNotForwarded(t *testing.T) {
	f := newFixture(t)
	const hosts = "/api/namespaces/metal3/baremetalhosts"
	for _, c := range []struct {
		method, path, body string
		change             []func(*http.Request)
		want               int
	}{
		{"GET", "/api/namespaces/metal3/secrets", "", nil, 405},
		{"GET", "/api/namespaces/metal3/secrets/x", "", nil, 404},
		{"DELETE", "/api/namespaces/metal3/secrets", "", nil, 405},
		{"PUT", hosts + "/a", `{}`, nil, 405},
		{"POST", hosts + "/a/takeover", `{}`, nil, 404},
		{"POST", hosts + "/a/status", `{}`, nil, 404},
		{"POST", "/api/namespaces/metal3/pods", `{}`, nil, 404},
		{"POST", "/apis/metal3.io/v1alpha1/namespaces/metal3/baremetalhosts", `{}`, nil, 404},
		{"POST", "/api/namespaces/other/baremetalhosts", `{}`, nil, 403},
		{"GET", "/hosts/other/a", "", nil, 403},
		{"POST", hosts + "/..%2f..%2fsecrets/power", `{}`, nil, 400},
		{"POST", hosts + "/a%2fb/power", `{}`, nil, 400},
		{"POST", hosts + "/a%3fb/power", `{}`, nil, 400},
		{"POST", hosts + "/-a/power", `{}`, nil, 400},
		{"POST", "/api/namespaces/%2e%2e/secrets", secretBody, nil, 400},
		{"POST", powerPath, `{}`, []func(*http.Request){header("Content-Type", "")}, 415},
		{"POST", powerPath, `{}`, []func(*http.Request){header("Content-Type", "text/plain")}, 415},
		{"PATCH", hosts + "/a", `[]`, []func(*http.Request){header("Content-Type", "application/json-patch+json")}, 415},
		{"PATCH", hosts + "/a", `{"metadata":{"uid":"u"},"spec":{"bmc":{"address":"ipmi://evil"}}}`, nil, 400},
		{"PATCH", hosts + "/a", `{"metadata":{"uid":"u"},"spec":{"userData":{"name":"x"}}}`, nil, 400},
		{"PATCH", hosts + "/a", `{"spec":{"image":null}}`, nil, 400},
		{"PATCH", hosts + "/a", `{"metadata":{"resourceVersion":"7"},"spec":{"online":false}}`, nil, 400},
		{"DELETE", hosts + "/a", `{}`, nil, 400},
		{"DELETE", hosts, `{"preconditions":{"uid":"u"}}`, nil, 405},
		{"POST", powerPath, strings.Repeat(" ", maxBody+1), nil, 400},
		{"POST", "/api/namespaces/metal3/secrets", strings.Replace(secretBody, `"Opaque"`, `"kubernetes.io/service-account-token"`, 1), nil, 400},
		// Go's own decoder takes the last of these, and the cluster the one in lower case.
		{"POST", "/api/namespaces/metal3/secrets", strings.Replace(secretBody, `"type":"Opaque"`, `"type":"kubernetes.io/service-account-token","Type":"Opaque"`, 1), nil, 400},
		{"POST", "/api/namespaces/metal3/secrets", strings.Replace(secretBody, `"type"`, `"type":"kubernetes.io/service-account-token","type"`, 1), nil, 400},
		{"POST", "/api/namespaces/metal3/secrets", strings.Replace(secretBody, `"name":"x"`, `"name":"x","annotations":{"kubernetes.io/service-account.name":"default"}`, 1), nil, 400},
	} {
		response := f.request(t, c.method, c.path, c.body, c.change...)
		if response.StatusCode != c.want {
			t.Errorf("%s %s %.80s: %d, want %d: %s", c.method, c.path, c.body, response.StatusCode, c.want, text(t, response))
		}
	}
	if got, _ := f.last(); got != nil {
		t.Errorf("the cluster has received %s %s", got.Method, got.URL)
	}
}

func TestReadOnly(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.ReadOnly = true })
	for _, method := range []string{"POST", "PATCH", "DELETE"} {
		if got := f.request(t, method, powerPath, `{}`).StatusCode; got != 404 {
			t.Errorf("%s: %d", method, got)
		}
	}
	if got := f.request(t, "GET", "/api/namespaces/metal3/baremetalhosts/a/console", "").StatusCode; got != 404 {
		t.Errorf("console: %d", got)
	}
	if got := text(t, f.request(t, "GET", "/rights/metal3", "")); got != "{}\n" {
		t.Errorf("the rights are %s", got)
	}
}

// TestAnswers: errors and warnings of the cluster arrive, and what could harm the page does not.
func TestAnswers(t *testing.T) {
	f := newFixture(t)
	f.respond = func(w http.ResponseWriter, _ *http.Request) {
		for key, value := range map[string]string{
			"Content-Type": "application/json", "Warning": `299 - "old"`, "Retry-After": "5",
			"Set-Cookie": "a=b", "Access-Control-Allow-Origin": "*", "Content-Security-Policy": "default-src *", "Www-Authenticate": "Basic",
		} {
			w.Header().Set(key, value)
		}
		w.WriteHeader(429)
		_, _ = w.Write([]byte(`{"message":"the node is locked"}`))
	}
	response := f.request(t, "POST", powerPath, `{}`)
	if response.StatusCode != 429 || messageOf(t, response) != "the node is locked" || response.Header.Get("Warning") == "" || response.Header.Get("Retry-After") != "5" {
		t.Errorf("%d %v", response.StatusCode, response.Header)
	}
	for _, key := range []string{"Set-Cookie", "Access-Control-Allow-Origin", "Www-Authenticate"} {
		if response.Header.Get(key) != "" {
			t.Errorf("the answer has %s", key)
		}
	}
	if csp := response.Header["Content-Security-Policy"]; len(csp) != 1 || strings.Contains(csp[0], "*") {
		t.Errorf("Content-Security-Policy: %q", csp)
	}

	f.respond = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<script>"))
	}
	if got := f.request(t, "POST", powerPath, `{}`).Header.Get("Content-Type"); !strings.HasPrefix(got, "text/plain") {
		t.Errorf("HTML of the cluster arrives as %s", got)
	}
	f.respond = func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://evil.example", http.StatusFound)
	}
	if got := f.request(t, "POST", powerPath, `{}`).StatusCode; got != 502 {
		t.Errorf("a redirect: %d", got)
	}
}
