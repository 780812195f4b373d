// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// fixture is a page, and the cluster behind it.
type fixture struct {
	*Server
	base   string
	reused int

	mu       sync.Mutex
	received []*http.Request
	bodies   []string
	// respond is the cluster's answer.
	respond http.HandlerFunc
}

func newFixture(t *testing.T, change ...func(*Options)) *fixture {
	t.Helper()
	f := &fixture{respond: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"Status"}`)
	}}
	cluster := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		f.mu.Lock()
		f.received, f.bodies = append(f.received, r), append(f.bodies, string(body))
		f.mu.Unlock()
		f.respond(w, r)
	}))
	t.Cleanup(cluster.Close)
	options := Options{
		Config: &rest.Config{Host: cluster.URL + "/clusters/c-1", BearerToken: "of-the-user"},
		Scope:  Scope{Context: "lab", Namespace: "metal3"},
		Detail: func(context.Context, string, string) (*Detail, error) { return &Detail{UID: "u-1"}, nil },
		Rights: func(context.Context, string) map[Right]bool { return map[Right]bool{RightPower: true} },
		LinkReused: func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.reused++
		},
	}
	for _, c := range change {
		c(&options)
	}
	server, err := Listen(t.Context(), 0, options)
	if err != nil {
		t.Fatal(err)
	}
	f.Server, f.base = server, "http://"+server.hosts[0]
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return f
}

// request makes a request as the page does. change can make it another one.
func (f *fixture) request(t *testing.T, method, path, body string, change ...func(*http.Request)) *http.Response {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, f.base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Origin", f.base)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Content-Type", jsonType)
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", mergePatchType)
	}
	r.AddCookie(&http.Cookie{Name: f.session.cookieName, Value: f.session.cookie})
	r.Header.Set(keyHeader, f.session.key)
	for _, c := range change {
		c(r)
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

// last returns the last request that the cluster has received, or nil.
func (f *fixture) last() (*http.Request, string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.received) == 0 {
		return nil, ""
	}
	return f.received[len(f.received)-1], f.bodies[len(f.bodies)-1]
}

func text(t *testing.T, r *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// messageOf returns the message of a refusal.
func messageOf(t *testing.T, r *http.Response) string {
	t.Helper()
	var status struct{ Message string }
	if err := json.Unmarshal([]byte(text(t, r)), &status); err != nil {
		t.Fatal(err)
	}
	return status.Message
}

func header(key, value string) func(*http.Request) {
	return func(r *http.Request) {
		if value == "" {
			r.Header.Del(key)
			return
		}
		r.Header.Set(key, value)
	}
}

func host(value string) func(*http.Request) { return func(r *http.Request) { r.Host = value } }

func noCookie(r *http.Request) { r.Header.Del("Cookie") }
