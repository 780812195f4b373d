// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// A burst of readers costs Ironic no more connections than allowed.
func TestConnectionsAreBounded(t *testing.T) {
	var underWay, most atomic.Int32
	f := newFake(t, newestMinor, func(w http.ResponseWriter, _ *http.Request) {
		n := underWay.Add(1)
		defer underWay.Add(-1)
		for {
			before := most.Load()
			if n <= before || most.CompareAndSwap(before, n) {
				break
			}
		}
		w.(http.Flusher).Flush() // A chunked answer must not cost the connection.
		fmt.Fprint(w, "{}")
	})
	c := f.client(func(cfg *Config) { cfg.ReadConnections, cfg.WriteConnections = 3, 2 })
	ctx := within(t, time.Minute)
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			if _, err := c.GetNode(ctx, "a"); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if err := c.setPowerState(ctx, ironic.NoFence, "a", ironic.TargetPowerOn, 0); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if most.Load() > 5 {
		t.Errorf("%d requests at one time, want at most 3 reads and 2 writes", most.Load())
	}
	// net/http may dial once more than needed when a connection becomes free
	// in the same moment.
	if f.connections.Load() > 20 {
		t.Errorf("%d connections for 200 requests: they are to be used again", f.connections.Load())
	}
}

func TestSlowWritesDoNotHoldUpReads(t *testing.T) {
	release := make(chan struct{})
	arrived := make(chan struct{}, 10)
	f := newFake(t, newestMinor, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			arrived <- struct{}{}
			<-release
		}
		fmt.Fprint(w, "{}")
	})
	c := f.client(func(cfg *Config) { cfg.ReadConnections, cfg.WriteConnections = 1, 2 })
	ctx := within(t, time.Minute)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if err := c.DeleteNode(ctx, ironic.NoFence, "a"); err != nil {
				t.Error(err)
			}
		})
	}
	<-arrived
	<-arrived
	if _, err := c.GetNode(ctx, "a"); err != nil {
		t.Errorf("read while all write connections are busy: %v", err)
	}
	// A third write waits, as long as its caller does.
	const patience = 50 * time.Millisecond
	err := c.DeleteNode(within(t, patience), ironic.NoFence, "a")
	waited, ok := strings.CutPrefix(ironic.ReasonOf(err), "all 2 connections busy for ")
	if d, parseErr := time.ParseDuration(waited); !ironic.IsUnavailable(err) || !ok || parseErr != nil || d < patience {
		t.Errorf("third write: %v", err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if err := c.DeleteNode(cancelled, ironic.NoFence, "a"); !errors.Is(err, context.Canceled) || ironic.IsUnavailable(err) {
		t.Errorf("cancelled while waiting: %v", err)
	}
	close(release)
	wg.Wait()
}

// hangUp closes the connection without an answer.
func hangUp(t *testing.T, w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	conn.Close()
}

func TestRetries(t *testing.T) {
	read := func(ctx context.Context, c *Client) error { _, err := c.GetNode(ctx, "a"); return err }
	write := func(ctx context.Context, c *Client) error {
		return c.setPowerState(ctx, ironic.NoFence, "a", ironic.TargetPowerOn, 0)
	}
	noWorker := fault("Requested action cannot be performed due to lack of free conductor workers.")
	for name, test := range map[string]struct {
		do       func(context.Context, *Client) error
		fail     func(http.ResponseWriter)
		failures int32
		attempts int32
		ok       bool
	}{
		"read, broken connection": {read, func(w http.ResponseWriter) { hangUp(t, w) }, 2, 3, true},
		// Twice as many: net/http itself sends a GET again where a connection
		// that was used before turns out to be closed.
		"read, stays broken":        {read, func(w http.ResponseWriter) { hangUp(t, w) }, 9, 6, false},
		"read, no worker":           {read, func(w http.ResponseWriter) { answer(503, noWorker)(w, nil) }, 1, 2, true},
		"read, internal error":      {read, func(w http.ResponseWriter) { answer(500, "")(w, nil) }, 1, 1, false},
		"write, broken connection":  {write, func(w http.ResponseWriter) { hangUp(t, w) }, 1, 1, false},
		"write, no worker":          {write, func(w http.ResponseWriter) { answer(503, noWorker)(w, nil) }, 1, 1, false},
		"write, locked":             {write, func(w http.ResponseWriter) { answer(409, fault("Node a is locked by host c"))(w, nil) }, 1, 1, false},
		"read, answer breaks off":   {read, func(w http.ResponseWriter) { breakOff(w) }, 1, 2, true},
		"read, answer breaks often": {read, func(w http.ResponseWriter) { breakOff(w) }, 9, 3, false},
	} {
		t.Run(name, func(t *testing.T) {
			var attempts atomic.Int32
			f := newFake(t, newestMinor, func(w http.ResponseWriter, _ *http.Request) {
				if attempts.Add(1) <= test.failures {
					test.fail(w)
					return
				}
				fmt.Fprint(w, "{}")
			})
			err := test.do(within(t, time.Minute), f.client())
			if (err == nil) != test.ok || attempts.Load() != test.attempts {
				t.Errorf("%d attempts, error %v; want %d, success %v", attempts.Load(), err, test.attempts, test.ok)
			}
			if err != nil && !ironic.IsUnavailable(err) && !ironic.IsLocked(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func breakOff(w http.ResponseWriter) {
	w.Header().Set("Content-Length", "100")
	fmt.Fprint(w, `{"uuid":`)
}

// A retry must not take the time that its caller does not have.
func TestRetriesEndInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 45 * time.Millisecond
		c := newClient(t, Config{Endpoint: "http://ironic.test", Transport: lost{}})
		start := time.Now()
		_, err := c.GetNode(within(t, limit), "a")
		if took := time.Since(start); took > limit || !ironic.IsUnavailable(err) {
			t.Errorf("took %v, error %v", took, err)
		}
	})
}

// lost is a network in which each connection breaks.
type lost struct{}

func (lost) RoundTrip(*http.Request) (*http.Response, error) { return nil, syscall.ECONNRESET }

// Ironic is away when the client is made, and comes back.
func TestIronicComesLater(t *testing.T) {
	// A socket that is bound and does not listen refuses connections, and nobody else can have its port.
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(socket), "listener")
	defer file.Close()
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, Config{Endpoint: fmt.Sprintf("http://127.0.0.1:%d", bound.(*syscall.SockaddrInet4).Port)})
	if _, err := c.GetNode(t.Context(), "a"); ironic.ReasonOf(err) != "connection refused" {
		t.Fatalf("got %v", err)
	}
	if err := syscall.Listen(socket, 8); err != nil {
		t.Fatal(err)
	}
	listener, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: (&fakeIronic{t: t, maxMinor: 96}).handler(answer(200, "{}")), ReadHeaderTimeout: time.Minute}
	go server.Serve(listener) //nolint:errcheck // Ends with Close.
	defer server.Close()
	if _, err := c.GetNode(t.Context(), "a"); err != nil {
		t.Errorf("the first read after it came: %v", err)
	}
}

func TestMetrics(t *testing.T) {
	f := newFake(t, newestMinor, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/inventory") {
			answer(500, "")(w, r) // of a proxy
			return
		}
		answer(404, fault("Node a could not be found."))(w, r)
	})
	c := f.client(func(cfg *Config) { cfg.Name = "room-b" })
	requestErrors.Reset()
	requestDuration.Reset()
	c.GetNode(t.Context(), "a")      //nolint:errcheck // Counted.
	c.GetInventory(t.Context(), "a") //nolint:errcheck // Counted.
	want := `
# HELP metal3_ironic_request_errors_total [ALPHA] Requests that failed because Ironic as a whole did not serve them, by IronicInstance, operation and reason.
# TYPE metal3_ironic_request_errors_total counter
metal3_ironic_request_errors_total{ironic="room-b",operation="GetInventory",reason="http_500"} 1
`
	if err := testutil.GatherAndCompare(legacyregistry.DefaultGatherer, strings.NewReader(want), "metal3_ironic_request_errors_total"); err != nil {
		t.Error(err)
	}
	for _, labels := range []map[string]string{
		{"ironic": "room-b", "operation": "GetNode", "code": "404"},
		{"ironic": "room-b", "operation": "GetInventory", "code": "500"},
	} {
		if n, err := testutil.GetHistogramVecFromGatherer(legacyregistry.DefaultGatherer, "metal3_ironic_request_duration_seconds", labels); err != nil || n.GetAggregatedSampleCount() != 1 {
			t.Errorf("%v: not one request: %v %v", labels, n, err)
		}
	}
	if got, err := testutil.GetGaugeMetricValue(requestsInFlight.WithLabelValues("room-b")); err != nil || got != 0 {
		t.Errorf("in flight: %v, %v", got, err)
	}
	ForgetMetrics("room-b")
	for _, name := range []string{"metal3_ironic_request_errors_total", "metal3_ironic_request_duration_seconds", "metal3_ironic_requests_in_flight"} {
		if err := testutil.GatherAndCompare(legacyregistry.DefaultGatherer, strings.NewReader(""), name); err != nil && strings.Contains(err.Error(), "room-b") {
			t.Errorf("%s is not forgotten: %v", name, err)
		}
	}
}
