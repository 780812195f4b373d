// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
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

// countStale lets answers pass that are not live: the Ironic of a busy machine
// does not always manage in the time that a reader is held.
func countStale(stale *atomic.Int64, err error) error {
	if errors.Is(err, errStale) {
		stale.Add(1)
		return nil
	}
	return err
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
	if err := b.direct.read(ctx, "/metrics", nil, &text); err != nil {
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

// memory is what the process holds, in MB: all that is resident, of that what is not
// backed by a file (its etcd maps its database), and the most that was ever resident.
type memory struct{ resident, anonymous, peak float64 }

func (b *bed) memory() (memory, error) {
	path := fmt.Sprintf("/proc/%d/status", b.server.PID())
	status, err := os.ReadFile(path)
	if err != nil {
		return memory{}, err
	}
	kilobytes := map[string]float64{}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		if n, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64); err == nil {
			kilobytes[name] = n
		}
	}
	return memory{kilobytes["VmRSS"] / 1e3, kilobytes["RssAnon"] / 1e3, kilobytes["VmHWM"] / 1e3}, nil
}

// profileCPU writes a CPU profile of the server while the benchmark runs, which
// should take as long (-benchtime 5s), if that is wanted. The returned function
// waits for it.
func (b *bed) profileCPU(t *testing.B) (wait func()) {
	if *profileDir == "" {
		return func() {}
	}
	done := make(chan error, 1)
	go func() { done <- b.writeProfile(t, "/debug/pprof/profile?seconds=4", "cpu") }()
	return func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func (b *bed) writeProfile(t *testing.B, path, kind string) error {
	if *profileDir == "" {
		return nil
	}
	name := strings.NewReplacer("/", "_", "=", "-").Replace(t.Name()) + "." + kind + ".pprof"
	file, err := os.Create(filepath.Join(*profileDir, name))
	if err != nil {
		return err
	}
	return errors.Join(b.direct.read(t.Context(), path, nil, file), file.Close())
}
