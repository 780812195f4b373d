package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic/client"
)

// samples are the times that one thing took.
type samples []time.Duration

// timed adds the time that f takes.
func (s *samples) timed(b *testing.B, f func() error) {
	b.Helper()
	began := time.Now()
	if err := f(); err != nil {
		b.Fatal(err)
	}
	*s = append(*s, time.Since(began))
}

func (s samples) quantile(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func (s samples) median() time.Duration { return s.quantile(0.5) }

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// report replaces the mean of everything by the medians of what is compared.
func report(b *testing.B, ours, raw samples) {
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(milliseconds(ours.median()), "ms")
	b.ReportMetric(milliseconds(raw.median()), "raw-ms")
	b.ReportMetric(float64(ours.median())/float64(raw.median()), "x-raw")
}

// rawRequest is a request to Ironic as the server makes it.
type rawRequest struct{ uri, version string }

// recordRequests notes the requests for nodes that call makes, so that the same
// ones can be made past all our code.
func recordRequests(endpoint string, call func(*client.Client) error) ([]rawRequest, error) {
	target, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var requests []rawRequest
	proxy := httputil.NewSingleHostReverseProxy(target)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/nodes") {
			mu.Lock()
			requests = append(requests, rawRequest{r.URL.RequestURI(), r.Header.Get("X-OpenStack-Ironic-API-Version")})
			mu.Unlock()
		}
		proxy.ServeHTTP(w, r)
	}))
	defer server.Close()
	client, err := client.New(client.Config{Endpoint: server.URL})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if err := call(client); err != nil {
		return nil, err
	}
	if len(requests) == 0 {
		return nil, errors.New("no request for nodes was made")
	}
	return requests, nil
}

// ask makes requests to Ironic and reads the answers.
func (b *bed) ask(ctx context.Context, requests []rawRequest) error {
	for _, r := range requests {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.endpoint+r.uri, nil)
		if err != nil {
			return err
		}
		request.Header.Set("X-OpenStack-Ironic-API-Version", r.version)
		if _, err := readAll(b.raw, request, io.Discard); err != nil {
			return err
		}
	}
	return nil
}

// askNode is the raw request for node i.
func (b *bed) askNode(ctx context.Context, i int) error {
	r := b.getNode[0]
	r.uri = strings.Replace(r.uri, b.nodes[0], b.nodes[i], 1)
	return b.ask(ctx, []rawRequest{r})
}

// get reads host i from the server.
func (b *bed) get(ctx context.Context, i int) error {
	return b.read(ctx, hostsPath+"/"+hostName(i), "", io.Discard)
}

// list reads all hosts from the server.
func (b *bed) list(ctx context.Context, query string) error {
	return b.read(ctx, hostsPath+query, "", io.Discard)
}

const hostsPath = "/apis/metal3.io/v1alpha1/namespaces/" + namespace + "/baremetalhosts"

// errStale is in the error of a read whose answer came with a warning: what was
// recorded earlier, since Ironic took too long.
var errStale = errors.New("not live")

// read fails when the answer is not live.
func (b *bed) read(ctx context.Context, path, encoding string, into io.Writer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.server.Direct.Config.Host+path, nil)
	if err != nil {
		return err
	}
	if encoding != "" {
		request.Header.Set("Accept-Encoding", encoding)
	}
	header, err := readAll(b.http, request, into)
	if err == nil && header.Get("Warning") != "" {
		err = fmt.Errorf("GET %s: %w: %s", path, errStale, header.Get("Warning"))
	}
	return err
}

func readAll(client *http.Client, request *http.Request, into io.Writer) (http.Header, error) {
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
		return nil, fmt.Errorf("%s %s: %s: %s", request.Method, request.URL, answer.Status, body)
	}
	_, err = io.Copy(into, answer.Body)
	return answer.Header, err
}

// metrics are the sums over all labels of what the server says of itself, by
// name; and requests to Ironic, by operation.
type metrics struct {
	cpu      time.Duration
	rss      float64 // bytes
	requests map[string]int
}

func (b *bed) metrics(ctx context.Context) (metrics, error) {
	var text strings.Builder
	m := metrics{requests: map[string]int{}}
	if err := b.read(ctx, "/metrics", "", &text); err != nil {
		return m, err
	}
	for line := range strings.Lines(text.String()) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, labels, _ := strings.Cut(name, "{")
		value, err := strconv.ParseFloat(number, 64)
		switch {
		case name == "process_cpu_seconds_total" && err == nil:
			m.cpu = time.Duration(value * float64(time.Second))
		case name == "process_resident_memory_bytes" && err == nil:
			m.rss = value
		case name == "metal3_ironic_request_duration_seconds_count" && err == nil:
			_, operation, _ := strings.Cut(labels, `operation="`)
			operation, _, _ = strings.Cut(operation, `"`)
			m.requests[operation] += int(value)
		}
	}
	if m.cpu == 0 {
		return m, errors.New("/metrics of the server has no process_cpu_seconds_total")
	}
	return m, nil
}

// reads are the requests for readers; polls of the leader are not among them.
func (m metrics) reads() int { return m.requests["GetNode"] + m.requests["ListNodes"] }

// mustMetrics is metrics for benchmarks.
func (b *bed) mustMetrics(t *testing.B) metrics {
	t.Helper()
	m, err := b.metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// reportCPU reports what n requests since before have cost the server, its etcd
// included. Unlike times it is of use on a busy machine.
func (b *bed) reportCPU(t *testing.B, before metrics, n int) {
	t.Helper()
	t.ReportMetric(milliseconds(b.mustMetrics(t).cpu-before.cpu)/float64(n), "cpu-ms")
}

// profile writes a CPU profile of the server while the benchmark runs, if that is
// wanted. The returned function waits for it.
func (b *bed) profile(t *testing.B, seconds int) (wait func()) {
	if *profileDir == "" {
		return func() {}
	}
	path := filepath.Join(*profileDir, strings.NewReplacer("/", "_", "=", "-").Replace(t.Name())+".pprof")
	done := make(chan error, 1)
	go func() {
		file, err := os.Create(path)
		if err == nil {
			err = errors.Join(b.read(t.Context(), "/debug/pprof/profile?seconds="+strconv.Itoa(seconds), "", file), file.Close())
		}
		done <- err
	}()
	return func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
