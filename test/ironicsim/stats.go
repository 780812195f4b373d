// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"maps"
	"net/http"
	"strings"
	"sync"
)

// Stats count what has reached the API since the start or ResetStats. Requests
// under /_sim/ are not in them.
type Stats struct {
	// Requests by kind: "GET /v1/nodes?fields", "GET /v1/nodes/{node}",
	// "GET /v1/nodes?detail?sort_key", "PUT /v1/nodes/{node}/states/power" ... That
	// the arguments fields, detail and sort_key are there is part of the kind.
	Requests map[string]int
	// Total is the sum of Requests.
	Total int
}

// Count is the number of requests of a kind.
func (s Stats) Count(kind string) int { return s.Requests[kind] }

// Writes is the number of requests that are no reads.
func (s Stats) Writes() int {
	n := s.Total
	for kind, count := range s.Requests {
		if strings.HasPrefix(kind, "GET ") || strings.HasPrefix(kind, "HEAD ") {
			n -= count
		}
	}
	return n
}

type stats struct {
	mu     sync.Mutex
	counts Stats
}

// Stats returns the counters.
func (s *Sim) Stats() Stats {
	s.stats.mu.Lock()
	defer s.stats.mu.Unlock()
	out := s.stats.counts
	out.Requests = maps.Clone(out.Requests)
	return out
}

// ResetStats sets the counters to zero.
func (s *Sim) ResetStats() { s.stats.reset() }

func (st *stats) reset() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.counts = Stats{Requests: map[string]int{}}
}

// count counts a request in.
func (st *stats) count(kind string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.counts.Requests[kind]++
	st.counts.Total++
}

// kindOf is the key of Stats.Requests for a request.
func kindOf(r *http.Request, to target) string {
	kind := r.Method + " "
	switch {
	case to.root:
		kind += "/"
	case to.route == nil:
		kind += "(other)"
	default:
		kind += strings.TrimSuffix("/v1/"+to.pattern, "/")
	}
	query := r.URL.Query()
	for _, argument := range []string{"fields", "detail", "sort_key"} {
		if query.Has(argument) {
			kind += "?" + argument
		}
	}
	return kind
}
