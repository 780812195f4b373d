// SPDX-License-Identifier: Apache-2.0

package security

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
)

// quotingIronic is an Ironic that refuses some requests and quotes them
// whole, as Ironic and its drivers quote parts of them. It remembers what it was
// sent.
type quotingIronic struct {
	server *httptest.Server

	mu      sync.Mutex
	refuse  map[string]int    // text in the body: HTTP status
	says    map[string]string // part of the path: what it says instead of an answer
	refused map[string]bool   // text in the body
	got     strings.Builder
}

func startQuotingIronic(ironic http.Handler) *quotingIronic {
	q := &quotingIronic{refuse: map[string]int{}, says: map[string]string{}, refused: map[string]bool{}}
	q.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // it is gone
		}
		if status := q.statusFor(r, body); status != 0 {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write(quotation(status, r, body))
			return
		}
		if words := q.wordsFor(r); words != "" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write(faultOf(http.StatusInternalServerError, words))
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		ironic.ServeHTTP(w, r)
	}))
	return q
}

// refuseWith has requests whose body has text answered with an error.
func (q *quotingIronic) refuseWith(text string, status int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.refuse[text] = status
}

// say has requests whose path has the given part answered with an error in these words.
func (q *quotingIronic) say(path, words string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.says[path] = words
}

func (q *quotingIronic) wordsFor(r *http.Request) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	for path, words := range q.says {
		if strings.Contains(r.URL.Path, path) {
			return words
		}
	}
	return ""
}

// hasRefused reports whether a request with text was refused.
func (q *quotingIronic) hasRefused(text string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.refused[text]
}

// all is everything that was sent.
func (q *quotingIronic) all() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.got.String()
}

func (q *quotingIronic) statusFor(r *http.Request, body []byte) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.Method != http.MethodGet {
		fmt.Fprintf(&q.got, "%s %s\n%s\n%s\n", r.Method, r.URL, r.Header.Get("Authorization"), body)
	}
	for text, status := range q.refuse {
		if bytes.Contains(body, []byte(text)) {
			q.refused[text] = true
			return status
		}
	}
	return 0
}

// quotation has the request as it came, its values by themselves, and its headers.
func quotation(status int, r *http.Request, body []byte) []byte {
	var values strings.Builder
	var decoded any
	if json.Unmarshal(body, &decoded) == nil {
		fmt.Fprintf(&values, "%v", decoded)
	}
	return faultOf(status, fmt.Sprintf("Refused by a driver: %s; request %s; Authorization %s", values.String(), body, r.Header.Get("Authorization")))
}

// faultOf returns an error of Ironic.
func faultOf(status int, words string) []byte {
	fault, err := json.Marshal(map[string]any{"faultcode": "Client", "debuginfo": nil, "faultstring": words})
	if err != nil {
		return nil
	}
	answer, err := json.Marshal(map[string]any{"error_message": string(fault), "code": status})
	if err != nil {
		return nil
	}
	return answer
}
