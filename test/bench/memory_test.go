// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// BenchmarkMemory is what the server holds in memory with 10,000 hosts and 100 who
// watch them, after a while in which hosts change and some list them: once after all
// hosts were created within minutes, whose former versions the watch cache and etcd
// still have, and once after the server was started anew.
func BenchmarkMemory(b *testing.B) {
	bed := at(b, bedKind{hosts: large, perNode: 150 * time.Microsecond})
	b.Run("created", func(b *testing.B) { benchmarkMemory(b, bed, "just created") })
	if err := bed.restart(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Run("restarted", func(b *testing.B) { benchmarkMemory(b, bed, "after a restart") })
}

func benchmarkMemory(b *testing.B, bed *bed, when string) {
	const n, seconds, listEvery = 100, 30, 5
	seen, err := bed.startWatchers(b.Context(), n)
	if err != nil {
		b.Fatal(err)
	}
	tick := time.NewTicker(time.Second / changesPerSecond)
	defer tick.Stop()
	for change := range seconds * changesPerSecond {
		<-tick.C
		seen.expect()
		if err := bed.change(b.Context()); err != nil {
			b.Fatal(err)
		}
		if change%(listEvery*changesPerSecond) == 0 {
			if err := bed.direct.read(b.Context(), hostsPath, http.Header{"Accept-Encoding": {"gzip"}}, new(counter)); err != nil {
				b.Log(err) // it need not be live here
			}
		}
	}
	late := seen.waitComplete(b.Context())
	held, err := bed.memory()
	if err != nil {
		b.Fatal(err)
	}
	if err := bed.writeProfile(b, "/debug/pprof/heap?gc=1", "heap"); err != nil {
		b.Fatal(err)
	}
	errs := seen.stop()
	if len(errs) > 0 {
		b.Errorf("%d watches ended, the first with %v", len(errs), errs[0])
	} else if late != nil {
		b.Errorf("not all changes reached all of %d watchers: %v", n, late)
	}

	b.ReportMetric(0, "ns/op")
	b.ReportMetric(held.resident, "RSS-MB")
	b.ReportMetric(held.anonymous, "anonymous-MB")
	b.ReportMetric(held.peak, "peak-MB")
	record(figure{
		what: fmt.Sprintf("memory of the server at 10,000 hosts, %s, %d watchers", when, n), measured: fmt.Sprintf("%.0f MB", held.resident),
		beside: fmt.Sprintf("%.0f MB without mapped files, peak %.0f MB", held.anonymous, held.peak), wanted: "500 MB",
	})
	record(figure{what: "watchers that were dropped meanwhile", measured: fmt.Sprint(len(errs)), beside: "last watcher has a change after " + text(seen.latencies().median()), wanted: "0"})
}
