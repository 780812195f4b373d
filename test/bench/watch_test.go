// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"testing"
	"time"
)

// changesPerSecond is how many hosts change while somebody watches.
const changesPerSecond = 20

// BenchmarkWatch has many watch all hosts while hosts change.
func BenchmarkWatch(b *testing.B) {
	bed := at(b, bedKind{hosts: small})
	for _, n := range []int{0, 10, 100, 500} {
		b.Run(fmt.Sprintf("watchers=%d", n), func(b *testing.B) { benchmarkWatch(b, bed, n) })
	}
}

func benchmarkWatch(b *testing.B, bed *bed, n int) {
	seen, err := bed.startWatchers(b.Context(), n)
	if err != nil {
		b.Fatal(err)
	}
	var patches samples
	tick := time.NewTicker(time.Second / changesPerSecond)
	defer tick.Stop()
	before, began := bed.mustMetrics(b), time.Now()
	for b.Loop() {
		<-tick.C
		seen.expect()
		patches.timed(b, func() error { return bed.change(b.Context()) })
	}
	if err := seen.waitComplete(b.Context()); err != nil {
		b.Errorf("not all changes reached all of %d watchers: %v", n, err)
	}
	took := time.Since(began)
	after := bed.mustMetrics(b)
	if errs := seen.stop(); len(errs) > 0 {
		b.Errorf("%d watches ended, the first with %v", len(errs), errs[0])
	}

	b.ReportMetric(0, "ns/op")
	b.ReportMetric(milliseconds(after.cpu-before.cpu)/float64(len(patches)), "cpu-ms/change")
	b.ReportMetric(100*(after.cpu-before.cpu).Seconds()/took.Seconds(), "cpu-%")
	b.ReportMetric(after.rss/1e6, "RSS-MB")
	b.ReportMetric(milliseconds(patches.median()), "patch-ms")
	if n > 0 {
		b.ReportMetric(milliseconds(seen.latencies().median()), "last-watcher-ms")
		b.ReportMetric(milliseconds(seen.latencies().quantile(0.99)), "last-watcher-p99-ms")
	}
}
