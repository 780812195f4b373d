package apiserver

import (
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"testing"
)

// TestReconnectAfterUnavailable: what is asked after a 503 comes through another connection, and so, behind a Service, perhaps to
// another replica. Other answers leave the connection open.
func TestReconnectAfterUnavailable(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(protocol, func(t *testing.T) {
			server := httptest.NewUnstartedServer(reconnectAfterUnavailable(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/unavailable" {
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
			if !reused("/unavailable") {
				t.Error("a connection is closed after a 200")
			}
			for reused("/") { // HTTP/2's GOAWAY comes a moment after the answer
			}
		})
	}
}
