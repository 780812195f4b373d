// SPDX-License-Identifier: Apache-2.0

package store

import (
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"testing"
)

// TestReconnect: what is asked after such an answer comes through another connection, and so, behind a Service, perhaps to
// another replica. Other answers leave the connection open.
func TestReconnect(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(protocol, func(t *testing.T) {
			server := httptest.NewUnstartedServer(WithReconnect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/elsewhere" {
					reconnect(r.Context())
				}
				if r.URL.Path != "/" {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			})))
			server.EnableHTTP2 = protocol == "HTTP/2.0"
			server.StartTLS()
			defer server.Close()
			reused := func(path string) (reused bool) {
				t.Helper()
				ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }})
				request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				answer, err := server.Client().Do(request)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = answer.Body.Close() }()
				if answer.Proto != protocol {
					t.Fatalf("the server speaks %s", answer.Proto)
				}
				return reused
			}
			reused("/")
			for _, path := range []string{"/unavailable", "/elsewhere"} {
				if !reused(path) {
					t.Errorf("the connection was closed before %s", path)
				}
			}
			for reused("/") { // HTTP/2's GOAWAY comes a moment after the answer
			}
		})
	}
}
