// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"flag"
	"testing"
	"time"
)

var idle = flag.Duration("idle", 35*time.Second, "how long to watch the server doing nothing; the leader looks at all nodes each 30s")

// BenchmarkQuiet is what the leader costs when nobody reads and nothing changes.
func BenchmarkQuiet(b *testing.B) {
	bed := at(b, bedKind{hosts: small})
	b.Run("quiet", func(b *testing.B) { benchmarkQuiet(b, bed) })
	// As after the power of a whole site came back: every node has changed at
	// about the same time, and is quiet from then on.
	b.Run("after-burst", func(b *testing.B) {
		for _, uuid := range bed.nodes {
			if err := bed.sim.SetNode(uuid, map[string]any{"power_state": "power on"}); err != nil {
				b.Fatal(err)
			}
		}
		if err := bed.waitQuiet(b.Context()); err != nil {
			b.Fatal(err)
		}
		benchmarkQuiet(b, bed)
		// A later change ends it; what is measured next shall not hear it.
		if err := bed.sim.SetNode(bed.nodes[0], map[string]any{"power_state": "power off"}); err != nil {
			b.Fatal(err)
		}
	})
}

func benchmarkQuiet(b *testing.B, bed *bed) {
	revision, err := bed.revision(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	before, began := bed.mustMetrics(b), time.Now()
	over := time.NewTimer(*idle)
	defer over.Stop()
	select {
	case <-over.C:
	case <-b.Context().Done():
		b.Fatal(b.Context().Err())
	}
	took := time.Since(began)
	after := bed.mustMetrics(b)
	then, err := bed.revision(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(0, "ns/op")
	for operation, n := range after.requests {
		if n -= before.requests[operation]; n > 0 {
			b.ReportMetric(float64(n)/took.Seconds(), operation+"/s")
		}
	}
	b.ReportMetric(100*(after.cpu-before.cpu).Seconds()/took.Seconds(), "cpu-%")
	b.ReportMetric(after.rss/1e6, "RSS-MB")
	b.ReportMetric(float64(then-revision), "etcd-writes")
}
