// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// newestMinor is what an Ironic offers that has all features.
var newestMinor = ironic.NewestAPIVersion.Minor

// fakeIronic answers as Ironic does where that matters to the client: version
// headers, refusal of versions that are too new, error bodies. What lies below
// /v1/ is answered by serve.
type fakeIronic struct {
	*httptest.Server
	t           *testing.T
	connections atomic.Int32

	mu       sync.Mutex
	maxMinor int
	seen     []seenRequest
}

type seenRequest struct {
	Method, Path, Query, Version, Body, Authorization string
}

func newFake(t *testing.T, maxMinor int, serve http.HandlerFunc) *fakeIronic {
	t.Helper()
	f := &fakeIronic{t: t, maxMinor: maxMinor}
	f.Server = httptest.NewUnstartedServer(f.handler(serve))
	f.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			f.connections.Add(1)
		}
	}
	f.Start()
	t.Cleanup(f.Close)
	return f
}

func (f *fakeIronic) handler(serve http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			f.t.Errorf("read body: %v", err)
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		asked := r.Header.Get("X-OpenStack-Ironic-API-Version")
		f.mu.Lock()
		f.seen = append(f.seen, seenRequest{
			Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery,
			Version: asked, Body: string(body), Authorization: r.Header.Get("Authorization"),
		})
		maxMinor := f.maxMinor
		f.mu.Unlock()

		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Openstack-Ironic-Api-Maximum-Version", fmt.Sprintf("1.%d", maxMinor))
		if minor, found := strings.CutPrefix(asked, "1."); found {
			if n, err := strconv.Atoi(minor); err != nil || n > maxMinor {
				w.WriteHeader(http.StatusNotAcceptable)
				fmt.Fprint(w, frameworkError(406, "Not Acceptable", fmt.Sprintf("Version %s was requested but the minor version is not supported by this service. The supported version range is: [1.1, 1.%d].", asked, maxMinor)))
				return
			}
		}
		if strings.TrimSuffix(r.URL.Path, "/") == "/v1" {
			fmt.Fprintf(w, `{"id":"v1","version":{"id":"v1","min_version":"1.1","status":"CURRENT","version":"1.%d"}}`, maxMinor)
			return
		}
		serve(w, r)
	})
}

func (f *fakeIronic) setMaxMinor(minor int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.maxMinor = minor
}

// requests returns what was asked for below /v1/.
func (f *fakeIronic) requests() []seenRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	var below []seenRequest
	for _, r := range f.seen {
		if strings.TrimSuffix(r.Path, "/") != "/v1" {
			below = append(below, r)
		}
	}
	return below
}

// versionRequests returns how often the version was asked for.
func (f *fakeIronic) versionRequests() int {
	below := len(f.requests())
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.seen) - below
}

func (f *fakeIronic) last() seenRequest {
	f.t.Helper()
	all := f.requests()
	if len(all) == 0 {
		f.t.Fatal("Ironic was not asked")
	}
	return all[len(all)-1]
}

func (f *fakeIronic) client(change ...func(*Config)) *Client {
	f.t.Helper()
	cfg := Config{Endpoint: f.URL}
	for _, c := range change {
		c(&cfg)
	}
	return newClient(f.t, cfg)
}

func newClient(t *testing.T, cfg Config) *Client {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

// answer serves one fixed answer.
func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

func fault(text string) string {
	inner, _ := json.Marshal(map[string]any{"faultcode": "Client", "faultstring": text, "debuginfo": nil})
	outer, _ := json.Marshal(map[string]string{"error_message": string(inner)})
	return string(outer)
}

func frameworkError(code int, title, description string) string {
	inner, _ := json.Marshal(map[string]any{"code": code, "title": title, "description": description})
	outer, _ := json.Marshal(map[string]string{"error_message": string(inner)})
	return string(outer)
}

func testdata(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
