// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// TestLimitBodies: what is being decoded at a time is bounded, and the bodies of one namespace do not keep out those of another.
func TestLimitBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		handler := limitBodies(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if body, err := io.ReadAll(r.Body); err != nil || strings.Trim(string(body), "x") != "" || r.ContentLength >= 0 && int64(len(body)) != r.ContentLength {
				t.Errorf("the body has %d bytes, of %d (%v)", len(body), r.ContentLength, err)
			}
			<-end
		}))
		served := 0
		send := func(method, namespace, contentType string, size int, isLengthKnown bool) bool {
			var body io.Reader = strings.NewReader(strings.Repeat("x", size))
			if !isLengthKnown {
				body = io.NopCloser(body)
			}
			path := "/"
			if method == "action" {
				method, path = "POST", "/power"
			}
			r := httptest.NewRequest(method, path, body)
			r.Header.Set("Content-Type", contentType)
			r = r.WithContext(request.WithRequestInfo(r.Context(), &request.RequestInfo{
				Verb: map[string]string{"POST": "create"}[method], Namespace: namespace, Subresource: strings.TrimPrefix(path, "/"),
			}))
			w := httptest.NewRecorder()
			var done bool
			go func() {
				handler.ServeHTTP(w, r)
				done = true
			}()
			synctest.Wait()
			if size > maxBody && isLengthKnown {
				return done && w.Code == http.StatusRequestEntityTooLarge
			}
			if done && (w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "") {
				t.Errorf("%s in %s is answered %d", method, namespace, w.Code)
			}
			if !done {
				served++
			}
			return !done
		}
		const json, yaml = "application/json", "application/apply-patch+yaml"
		if !send("POST", "a", json, maxBody, true) || !send("POST", "a", json, maxBody, false) || send("POST", "a", json, maxBody, true) || send("PATCH", "a", json, 100, true) {
			t.Error("a namespace alone has another part than the half")
		}
		if !send("PATCH", "b", yaml, maxBody/2, true) || send("PATCH", "b", json, maxBody, true) || !send("PUT", "c", json, maxBody/3, true) {
			t.Error("what is left is not there for others")
		}
		if !send("PUT", "d", yaml, maxBody+1, true) {
			t.Error("a body that is too large is not refused as that, whatever else is written")
		}
		for range 10 {
			if !send("GET", "a", "", 0, true) {
				t.Error("a read is refused")
			}
		}
		finish := func() {
			for ; served > 0; served-- {
				end <- struct{}{}
			}
			synctest.Wait()
		}
		finish()
		small := 0
		for small < 1000 && send("DELETE", "a", "", 0, true) {
			small++
		}
		if small != maxDecoded/2/leastBody {
			t.Errorf("%d small requests of a namespace are served at a time", small)
		}
		finish()
		for range 100 { // as many as wait for BMCs: their bodies say no length if kubectl reads them from its standard input
			if !send("action", "a", json, 15, false) {
				t.Fatal("an action is refused")
			}
		}
		if !send("PATCH", "a", json, 100, true) || !send("PUT", "a", json, leastBody, false) || !send("PUT", "a", json, maxBody, true) {
			t.Error("actions that wait keep out what is written in their namespace")
		}
		if !send("PUT", "a", json, leastBody+1, false) || send("PUT", "a", json, leastBody+1, false) {
			t.Error("a body of unknown length that does not end soon does not count as the largest")
		}
		finish()
		if !send("PATCH", "a", yaml, leastBody+1, false) || !send("PATCH", "b", yaml, leastBody+1, false) || send("PATCH", "b", json, 100, true) {
			t.Error("two namespaces do not have all there is")
		}
		if send("PATCH", "c", json, leastPart+1, true) || !send("POST", "c", json, 100, true) || !send("PATCH", "c", json, leastPart-leastBody, true) || send("DELETE", "c", "", 0, true) {
			t.Errorf("another namespace than those that have all there is has not %d bytes", leastPart)
		}
		others := 0
		for others < 10000 && send("DELETE", fmt.Sprint(others), "", 0, true) {
			others++
		}
		if others != (maxReserved-leastPart)/leastBody {
			t.Errorf("small requests of %d other namespaces are served at a time", others)
		}
		finish()
		if !send("PATCH", "a", yaml, maxBody, true) {
			t.Error("YAML of the largest size is refused where nothing else is handled")
		}
		finish()
	})
}
