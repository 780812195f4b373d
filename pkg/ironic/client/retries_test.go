// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// inProcess is the way to an Ironic that is a handler.
type inProcess struct{ http.Handler }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	answer := httptest.NewRecorder()
	p.ServeHTTP(answer, r)
	return answer.Result(), nil
}

// TestRetriesOfBusyIronic: an Ironic that has too much to do is asked again after ever longer waits, or after as long as it says, as
// long as the caller has time; and not at all if that is long.
func TestRetriesOfBusyIronic(t *testing.T) {
	const ms = time.Millisecond
	date := time.Date(2026, 11, 22, 16, 31, 32, 0, time.UTC).Format(http.TimeFormat)
	later := time.Date(2026, 11, 22, 16, 31, 34, 0, time.UTC).Format(http.TimeFormat)
	for name, test := range map[string]struct {
		header map[string]string
		limit  time.Duration
		// waits has the least and the longest wait before each retry.
		waits [][2]time.Duration
	}{
		"it does not say for how long": {nil, time.Minute, [][2]time.Duration{{200 * ms, 600 * ms}, {400 * ms, 1200 * ms}}},
		"for a second":                 {map[string]string{"Retry-After": "1"}, time.Minute, [][2]time.Duration{{1000 * ms, 1500 * ms}, {1000 * ms, 1500 * ms}}},
		"until a time":                 {map[string]string{"Retry-After": later, "Date": date}, time.Minute, [][2]time.Duration{{2000 * ms, 3000 * ms}, {2000 * ms, 3000 * ms}}},
		"until a time that is over":    {map[string]string{"Retry-After": date, "Date": later}, time.Minute, [][2]time.Duration{{200 * ms, 600 * ms}, {400 * ms, 1200 * ms}}},
		"in other words":               {map[string]string{"Retry-After": "soon"}, time.Minute, [][2]time.Duration{{200 * ms, 600 * ms}, {400 * ms, 1200 * ms}}},
		"for long":                     {map[string]string{"Retry-After": "3"}, time.Minute, nil},
		"for very long":                {map[string]string{"Retry-After": "2147483647"}, time.Minute, nil},
		"the caller has no time":       {map[string]string{"Retry-After": "1"}, time.Second, nil},
		"the caller has little time":   {nil, 199 * ms, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked []time.Time
				f := &fakeIronic{t: t, maxMinor: newestMinor}
				c := newClient(t, Config{Endpoint: "http://ironic.test", Transport: inProcess{f.handler(func(w http.ResponseWriter, r *http.Request) {
					asked = append(asked, time.Now())
					for key, value := range test.header {
						w.Header().Set(key, value)
					}
					answer(503, "")(w, r)
				})}})
				ctx, cancel := context.WithTimeout(t.Context(), test.limit)
				defer cancel()
				_, err := c.GetNode(ctx, "a")
				if ironic.ReasonOf(err) != "HTTP 503" {
					t.Errorf("got %v", err)
				}
				if len(asked) != 1+len(test.waits) {
					t.Fatalf("asked %d times, want %d", len(asked), 1+len(test.waits))
				}
				for i, want := range test.waits {
					if waited := asked[i+1].Sub(asked[i]); waited < want[0] || waited > want[1] {
						t.Errorf("retry %d came after %s, want %s to %s", i+1, waited, want[0], want[1])
					}
				}
				if last := asked[len(asked)-1]; time.Since(last) > 0 {
					t.Errorf("the error came %s after the last answer", time.Since(last))
				}
			})
		})
	}
}
