// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
)

// BenchmarkRush has 200 readers read a host each at the same time, and reads the 200
// nodes past the server over as many connections as the server has.
func BenchmarkRush(b *testing.B) {
	bed := at(b, bedKind{hosts: small})
	const readers = 200
	together := func(f func(ctx context.Context, i int) error) error {
		group, ctx := errgroup.WithContext(b.Context())
		for i := range readers {
			group.Go(func() error { return f(ctx, i) })
		}
		return group.Wait()
	}
	var stale atomic.Int64
	get := func(ctx context.Context, i int) error { return countStale(&stale, bed.direct.get(ctx, i)) }
	var ours, raw samples
	requests := 0
	for b.Loop() {
		raw.timed(b, func() error { return together(bed.askNode) })
		// A reader after a rush is held until the server has done gathering; so
		// each rush meets a server at rest.
		if err := get(b.Context(), 0); err != nil {
			b.Fatal(err)
		}
		before := bed.mustMetrics(b)
		ours.timed(b, func() error { return together(get) })
		requests += bed.mustMetrics(b).reads() - before.reads()
	}
	report(b, ours, raw)
	b.ReportMetric(float64(requests)/float64(len(ours)), "ironic-requests")
	b.ReportMetric(float64(stale.Load())/float64(len(ours)), "stale")
}
