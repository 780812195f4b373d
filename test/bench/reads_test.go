package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// profiled is how many seconds a profile lasts. Benchmarks that are profiled
// should run as long: -benchtime 5s.
const profiled = 4

func eachWatchCache(b *testing.B, benchmark func(*testing.B, *bed)) {
	for _, watchCache := range []bool{false, true} {
		b.Run(fmt.Sprintf("watch-cache=%v", watchCache), func(b *testing.B) { benchmark(b, at(b, small, watchCache)) })
	}
}

// BenchmarkGet reads one host, and its node past the server.
func BenchmarkGet(b *testing.B) { eachWatchCache(b, benchmarkGet) }

func benchmarkGet(b *testing.B, bed *bed) {
	defer bed.profile(b, profiled)()
	var ours, raw samples
	i := 0
	before := bed.mustMetrics(b)
	for b.Loop() {
		i = (i + 1) % len(bed.nodes)
		raw.timed(b, func() error { return bed.askNode(b.Context(), i) })
		ours.timed(b, func() error { return bed.get(b.Context(), i) })
	}
	report(b, ours, raw)
	bed.reportCPU(b, before, len(ours))
}

// BenchmarkConcurrentGets has 200 readers read a host each at the same time, and
// the 200 nodes past the server over as many connections as the server has.
func BenchmarkConcurrentGets(b *testing.B) { eachWatchCache(b, benchmarkConcurrentGets) }

func benchmarkConcurrentGets(b *testing.B, bed *bed) {
	const readers = 200
	together := func(limit int, f func(ctx context.Context, i int) error) error {
		group, ctx := errgroup.WithContext(b.Context())
		group.SetLimit(limit)
		for i := range readers {
			group.Go(func() error { return f(ctx, i%len(bed.nodes)) })
		}
		return group.Wait()
	}
	var stale atomic.Int64
	get := func(ctx context.Context, i int) error { return countStale(&stale, bed.get(ctx, i)) }
	var ours, raw samples
	requests := 0
	for b.Loop() {
		raw.timed(b, func() error { return together(readers, bed.askNode) })
		// A reader after a rush is held until the server has done gathering; so
		// each rush meets a server at rest.
		if err := get(b.Context(), 0); err != nil {
			b.Fatal(err)
		}
		before := bed.mustMetrics(b)
		ours.timed(b, func() error { return together(readers, get) })
		requests += bed.mustMetrics(b).reads() - before.reads()
	}
	report(b, ours, raw)
	b.ReportMetric(float64(requests)/float64(len(ours)), "ironic-requests")
	b.ReportMetric(float64(stale.Load())/float64(len(ours)), "stale")
}

// BenchmarkList lists all hosts, and all nodes past the server.
func BenchmarkList(b *testing.B) {
	for _, hosts := range []int{small, large} {
		for _, watchCache := range []bool{false, true} {
			b.Run(fmt.Sprintf("hosts=%d/watch-cache=%v", hosts, watchCache), func(b *testing.B) {
				bed := at(b, hosts, watchCache)
				b.Run("quiet", func(b *testing.B) {
					benchmarkList(b, bed, "", "", func() error { return nil })
				})
				b.Run("identity", func(b *testing.B) { // clients ask for gzip unless told not to
					benchmarkList(b, bed, "", "identity", func() error { return nil })
				})
				b.Run("resourceVersion=0", func(b *testing.B) {
					benchmarkList(b, bed, "?resourceVersion=0", "", func() error { return nil })
				})
				b.Run("other-key-written", func(b *testing.B) {
					benchmarkList(b, bed, "", "", func() error {
						_, err := bed.etcd.Put(b.Context(), "another", time.Now().String())
						return err
					})
				})
			})
		}
	}
}

func benchmarkList(b *testing.B, bed *bed, query, encoding string, before func() error) {
	defer bed.profile(b, profiled)()
	var ours, raw samples
	var body counter
	var stale atomic.Int64
	start := bed.mustMetrics(b)
	for b.Loop() {
		raw.timed(b, func() error { return bed.ask(b.Context(), bed.listNodes) })
		if err := before(); err != nil {
			b.Fatal(err)
		}
		body = 0
		ours.timed(b, func() error {
			return countStale(&stale, bed.read(b.Context(), hostsPath+query, encoding, &body))
		})
	}
	report(b, ours, raw)
	bed.reportCPU(b, start, len(ours))
	b.ReportMetric(float64(body)/1e6, "MB")
	b.ReportMetric(float64(stale.Load())/float64(len(ours)), "stale")
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

// counter counts what is written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
