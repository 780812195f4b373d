// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// slowIronic answers one request after the other, each after so long, also those that nobody waits for any more, as Ironic does.
type slowIronic struct {
	http.Handler
	turn chan struct{} // a Mutex would stop the bubble's time

	mu            sync.Mutex
	takes         time.Duration
	pending, most int
}

func newSlowIronic(t *testing.T) (*slowIronic, *Client) {
	f := &fakeIronic{t: t, maxMinor: newestMinor}
	s := &slowIronic{Handler: f.handler(func(w http.ResponseWriter, r *http.Request) { answer(200, `{"uuid":"a"}`)(w, r) }), turn: make(chan struct{}, 1)}
	c := newClient(t, Config{Endpoint: "http://ironic.test", Transport: s})
	if _, err := c.GetNode(t.Context(), "a"); err != nil { // and its version is known
		t.Fatal(err)
	}
	return s, c
}

func (s *slowIronic) take(takes time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takes = takes
}

// count counts a request that has come (1) or was answered (-1), and returns how long each takes.
func (s *slowIronic) count(n int) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending += n
	s.most = max(s.most, s.pending)
	return s.takes
}

func (s *slowIronic) RoundTrip(r *http.Request) (*http.Response, error) {
	takes := s.count(1)
	answered := make(chan *http.Response, 1)
	go func() {
		defer s.count(-1)
		s.turn <- struct{}{}
		defer func() { <-s.turn }()
		time.Sleep(takes)
		response, _ := inProcess{s}.RoundTrip(r.WithContext(context.Background()))
		answered <- response
	}()
	select {
	case response := <-answered:
		return response, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// TestSlowIronic: readers who do not wait for as long as Ironic takes for an answer leave it nothing that grows, so that whoever
// waits for longer is answered; and when it answers in time again, so is everybody.
func TestSlowIronic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, c := newSlowIronic(t)
		ctx, cancel := context.WithCancel(t.Context())
		var readers sync.WaitGroup
		defer readers.Wait()
		defer cancel()
		var mu sync.Mutex
		answered, refused := 0, 0
		for range 20 {
			readers.Go(func() {
				for ctx.Err() == nil {
					reading, done := context.WithTimeout(ctx, 2*time.Second)
					_, err := c.GetNode(reading, "a")
					done()
					mu.Lock()
					switch {
					case err == nil:
						answered++
					case ctx.Err() == nil && !ironic.IsUnavailable(err):
						t.Errorf("got %v", err)
					case err != nil:
						refused++
					}
					mu.Unlock()
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		for _, takes := range []time.Duration{3 * time.Second, 1500 * time.Millisecond, 5 * time.Second} {
			slow.take(takes)
			time.Sleep(5 * time.Minute)
			if slow.mu.Lock(); slow.most > 12 {
				t.Errorf("an Ironic that takes %s for each had up to %d requests to answer", takes, slow.most)
			}
			slow.most = 0
			slow.mu.Unlock()
			patient, done := context.WithTimeout(ctx, 30*time.Second)
			if _, err := c.GetNode(patient, "a"); err != nil {
				t.Errorf("an Ironic that takes %s does not answer who has the time: %v", takes, err)
			}
			done()
		}
		slow.take(10 * time.Millisecond)
		time.Sleep(40 * time.Second)
		mu.Lock()
		answered, refused = 0, 0
		mu.Unlock()
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if refused > 0 || answered < 20 {
			t.Errorf("of an Ironic that has become quick, %d reads were answered, and %d not", answered, refused)
		}
	})
}

// TestPaceOfQuestions: nobody who asks for an action is refused because reads come too late, and who may not read is told why, at once.
func TestPaceOfQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, c := newSlowIronic(t)
		slow.take(4 * time.Second)
		read := func(ctx context.Context, patience time.Duration) (time.Duration, error) {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			began := time.Now()
			_, err := c.GetNode(ctx, "a")
			return time.Since(began), err
		}
		for range 4 {
			_, _ = read(t.Context(), 2*time.Second)
		}
		if took, err := read(t.Context(), 2*time.Second); took > 0 || !strings.Contains(ironic.ReasonOf(err), "no answer within 2s lately, so it is asked less often") {
			t.Errorf("after %s: %v", took, err)
		}
		time.Sleep(20 * time.Second)
		if took, err := read(ironic.WithQuestion(t.Context(), "a"), 9*time.Second); err != nil {
			t.Errorf("after %s: %v", took, err)
		}
	})
}
