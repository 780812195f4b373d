// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/endpoints/request"
)

func TestLargeListsAreCompressed(t *testing.T) {
	large := strings.Repeat("a host, and another one; ", minCompressedSize/10)
	tests := []struct {
		name, verb, accepts, body string
		compressed                bool
		passedOn                  string // Accept-Encoding, to k8s.io/apiserver
	}{
		{name: "large list", verb: "list", accepts: "gzip", body: large, compressed: true},
		{name: "small list", verb: "list", accepts: "gzip", body: "small"},
		{name: "client that does not want gzip", verb: "list", accepts: "identity", body: large},
		{name: "client that refuses gzip", verb: "list", accepts: "gzip;q=0", body: large},
		{name: "watch", verb: "watch", accepts: "gzip", body: large, passedOn: "gzip"},
		{name: "get", verb: "get", accepts: "gzip", body: large, passedOn: "gzip"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			handler := withFastCompression(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if got := r.Header.Get("Accept-Encoding"); got != test.passedOn {
					t.Errorf("Accept-Encoding %q was passed on, want %q", got, test.passedOn)
				}
				w.Header().Set("Content-Type", "application/json")
				for rest := test.body; rest != ""; { // in pieces, as a list is written
					n := min(len(rest), 64<<10)
					if _, err := io.WriteString(w, rest[:n]); err != nil {
						t.Error(err)
					}
					rest = rest[n:]
				}
			}))
			r := httptest.NewRequest(http.MethodGet, "/apis/metal3.io/v1alpha1/baremetalhosts", nil)
			r.Header.Set("Accept-Encoding", test.accepts)
			r = r.WithContext(request.WithRequestInfo(r.Context(), &request.RequestInfo{Verb: test.verb, IsResourceRequest: true}))
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)

			body := io.Reader(w.Body)
			if got := w.Header().Get("Content-Encoding"); (got == "gzip") != test.compressed {
				t.Errorf("Content-Encoding is %q", got)
			} else if test.compressed {
				if w.Body.Len() > len(test.body)/2 {
					t.Errorf("%d bytes became %d", len(test.body), w.Body.Len())
				}
				var err error
				if body, err = gzip.NewReader(w.Body); err != nil {
					t.Fatal(err)
				}
				if w.Header().Get("Vary") != "Accept-Encoding" {
					t.Errorf("Vary is %q", w.Header().Get("Vary"))
				}
			}
			if got, err := io.ReadAll(body); err != nil || string(got) != test.body {
				t.Errorf("got %d bytes, %v; want %d", len(got), err, len(test.body))
			}
		})
	}
}
