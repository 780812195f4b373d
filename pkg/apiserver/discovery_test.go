// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// errorLog collects the errors that libraries log during a test.
type errorLog struct {
	mu    sync.Mutex
	lines []string
}

// logErrors starts collecting errors. It must be called before the test starts a server, because
// the server's goroutines read the handlers.
func logErrors(t *testing.T) *errorLog {
	t.Helper()
	log, handlers := &errorLog{}, utilruntime.ErrorHandlers
	t.Cleanup(func() { utilruntime.ErrorHandlers = handlers })
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{func(_ context.Context, err error, message string, _ ...any) {
		log.mu.Lock()
		defer log.mu.Unlock()
		log.lines = append(log.lines, fmt.Sprint(message, " ", err))
	}}
	return log
}

func (l *errorLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

// TestProbesThatHangUp checks that no errors are logged if a client does not read the answer, as
// kube-apiserver does when it checks whether the APIService is available.
func TestProbesThatHangUp(t *testing.T) {
	log := logErrors(t)
	t.Run("server", func(t *testing.T) { // when it returns, the server has stopped and logs nothing more
		s := startServer(t, true)
		probe := func(ctx context.Context) error {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+groupPath, nil)
			if err != nil {
				return err
			}
			answer, err := s.client.Do(request)
			if err != nil {
				return err
			}
			_ = answer.Body.Close()
			if answer.StatusCode != http.StatusOK || answer.ProtoMajor != 2 {
				return fmt.Errorf("HTTP/%d: %s", answer.ProtoMajor, answer.Status)
			}
			return nil
		}
		for range 50 {
			var probes sync.WaitGroup
			for range 5 {
				probes.Go(func() {
					if err := probe(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			probes.Wait()
		}
		// A client that waits gets the whole answer.
		if got := s.do(t, "GET", groupPath, ""); got.code != http.StatusOK || !strings.Contains(string(got.body), `"baremetalhosts/power"`) {
			t.Errorf("HTTP %d: %s", got.code, got.body)
		}
	})
	if text := log.String(); text != "" {
		t.Errorf("%d errors are logged:\n%.2000s", strings.Count(text, "\n")+1, text)
	}
}
