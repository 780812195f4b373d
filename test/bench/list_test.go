// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkList has a user list all hosts through kube-apiserver. In turns with it,
// the same objects are listed from a CustomResourceDefinition, and all nodes past the
// server, in the short form that the server itself asks for when it needs all.
func BenchmarkList(b *testing.B) {
	bed := at(b, oneThousand())
	if err := bed.createPeer(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Run("json", func(b *testing.B) { benchmarkList(b, bed) })
	b.Run("table", func(b *testing.B) {
		benchmarkListCPU(b, bed, "kubectl get of 1,000", http.Header{"Accept": {acceptTable}}, "")
	})
	b.Run("gzip", func(b *testing.B) { benchmarkListCPU(b, bed, "LIST of 1,000", nil, "50 ms") })
	b.Run("identity", func(b *testing.B) {
		benchmarkListCPU(b, bed, "LIST of 1,000, not compressed", http.Header{"Accept-Encoding": {"identity"}}, "50 ms")
	})
	if err := removePeer(b.Context()); err != nil {
		b.Fatal(err)
	}
}

func benchmarkList(b *testing.B, bed *bed) {
	var ours, raw, peer samples
	var stale atomic.Int64
	for b.Loop() {
		raw.timed(b, func() error { return bed.askAll(b.Context()) })
		peer.timed(b, func() error { return bed.user.read(b.Context(), peerPath, nil, new(counter)) })
		ours.timed(b, func() error { return countStale(&stale, bed.user.list(b.Context())) })
	}
	report(b, ours, raw)
	b.ReportMetric(milliseconds(peer.median()), "crd-ms")
	b.ReportMetric(float64(stale.Load()), "stale")
	record(figure{
		what: "LIST of 1,000, Ironic of " + *release, measured: text(ours.median()), beside: "raw short list " + text(raw.median()),
		result: times(ours.median(), raw.median()), wanted: "x 0.35",
	})
	record(figure{
		what: "the same, and from a CRD", measured: text(ours.median()), beside: "CRD " + text(peer.median()),
		result: times(ours.median(), peer.median()), wanted: "x 1",
	})
}

// benchmarkListCPU measures what lists cost the server, its etcd included, with as
// little as possible between them of what it does all the time.
func benchmarkListCPU(b *testing.B, bed *bed, what string, header http.Header, wanted string) {
	defer bed.profileCPU(b)()
	var body counter
	var stale atomic.Int64
	lists := 0
	before := bed.mustMetrics(b)
	for b.Loop() {
		body = 0
		if err := countStale(&stale, bed.user.read(b.Context(), hostsPath, header.Clone(), &body)); err != nil {
			b.Fatal(err)
		}
		lists++
	}
	cpu := (bed.mustMetrics(b).cpu - before.cpu) / time.Duration(lists)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(milliseconds(cpu), "cpu-ms")
	b.ReportMetric(float64(body)/1e6, "MB")
	b.ReportMetric(float64(stale.Load()), "stale")
	record(figure{what: fmt.Sprintf("CPU of the server for a %s (%.1f MB)", what, float64(body)/1e6), measured: text(cpu), wanted: wanted})
}

// counter counts what is written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// BenchmarkListLarge lists 10,000 hosts while ten nodes change in each second. Each
// answer must show what had changed before it was asked for. The simulator takes for
// each node in a list what a real Ironic takes to encode it.
func BenchmarkListLarge(b *testing.B) {
	bed := at(b, bedKind{hosts: large, perNode: 150 * time.Microsecond})
	const lists, changesPerSecond = 200, 10
	stop, stopped := make(chan struct{}), make(chan error, 1)
	var changed atomic.Int64
	go func() { stopped <- bed.changeNodes(changesPerSecond, &changed, stop) }()
	var ours samples
	var body bytes.Buffer
	stale := 0
	for range lists {
		body.Reset()
		last := changed.Load()
		var warned atomic.Int64
		ours.timed(b, func() error { return countStale(&warned, bed.user.read(b.Context(), hostsPath, nil, &body)) })
		fresh := warned.Load() == 0
		for n := max(1, last-changesPerSecond); n <= last; n++ { // those of before were in earlier answers
			fresh = fresh && bytes.Contains(body.Bytes(), []byte(changeMark(n)))
		}
		if !fresh {
			stale++
		}
	}
	close(stop)
	if err := <-stopped; err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(milliseconds(ours.median()), "p50-ms")
	b.ReportMetric(milliseconds(ours.quantile(0.99)), "p99-ms")
	b.ReportMetric(float64(stale), "stale")
	record(figure{
		what:     fmt.Sprintf("LIST of 10,000 (%.0f MB), simulator with 0.15 ms for each node it returns", float64(body.Len())/1e6),
		measured: "p50 " + text(ours.median()), beside: "p99 " + text(ours.quantile(0.99)), wanted: "p50 700 ms",
	})
	record(figure{
		what:     fmt.Sprintf("stale answers of %d of these, while ten nodes a second change", lists),
		measured: fmt.Sprint(stale), beside: fmt.Sprintf("%d changes", changed.Load()), wanted: "0",
	})
}

// changeMark is what node number n of those that were changed says of itself.
func changeMark(n int64) string { return fmt.Sprintf("change %d of the benchmark", n) }

// changeNodes changes one node after the other until stop is closed.
func (b *bed) changeNodes(perSecond int, changed *atomic.Int64, stop <-chan struct{}) error {
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	for n := int64(1); ; n++ {
		select {
		case <-stop:
			return nil
		case <-tick.C:
		}
		err := b.sim.SetNode(b.nodes[int(n)%len(b.nodes)], map[string]any{"maintenance": true, "maintenance_reason": changeMark(n)})
		if err != nil {
			return err
		}
		changed.Store(n)
	}
}
