// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"net/http"
	"sync"

	"k8s.io/client-go/rest"
)

// requestLog notes the requests that pass through a client's transport, without
// host and query parameters that vary: METHOD PATH?QUERY.
type requestLog struct {
	mu      sync.Mutex
	kept    []*http.Request
	refused int
}

// logRequests returns a config whose clients' requests are noted.
func logRequests(config *rest.Config) (*rest.Config, *requestLog) {
	log := &requestLog{}
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			log.mu.Lock()
			log.kept = append(log.kept, r)
			log.mu.Unlock()
			response, err := next.RoundTrip(r)
			if err == nil && (response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden) {
				log.mu.Lock()
				log.refused++
				log.mu.Unlock()
			}
			return response, err
		})
	})
	return config, log
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// take returns the requests since the last call.
func (l *requestLog) take() []*http.Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := l.kept
	l.kept = nil
	return kept
}

// refusals counts the requests that were answered 401 or 403.
func (l *requestLog) refusals() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused
}

// lists counts the requests for a whole list: a LIST, or a watch that begins with
// all there is.
func lists(requests []*http.Request) (n int) {
	for _, r := range requests {
		query := r.URL.Query()
		if query.Get("watch") == "" || query.Get("sendInitialEvents") == "true" {
			n++
		}
	}
	return n
}
