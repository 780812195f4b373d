// SPDX-License-Identifier: Apache-2.0

package bench

import "testing"

// BenchmarkGet has a user read one host after the other through kube-apiserver, reads
// the same hosts from the server itself, and the nodes past the server.
func BenchmarkGet(b *testing.B) {
	bed := at(b, oneThousand())
	defer bed.profileCPU(b)()
	var ours, direct, raw samples
	i := 0
	for b.Loop() {
		i = (i + 1) % len(bed.nodes)
		raw.timed(b, func() error { return bed.askNode(b.Context(), i) })
		ours.timed(b, func() error { return bed.user.get(b.Context(), i) })
		direct.timed(b, func() error { return bed.direct.get(b.Context(), i) })
	}
	report(b, ours, raw)
	b.ReportMetric(milliseconds(direct.median()), "direct-ms")
	record(figure{
		what: "GET, Ironic of " + *release, measured: text(ours.median()), beside: "raw " + text(raw.median()),
		result: "+ " + text(ours.median()-raw.median()), wanted: "+ 3 ms",
	})
	record(figure{
		what: "the same, from the server itself", measured: text(direct.median()), beside: "raw " + text(raw.median()),
		result: "+ " + text(direct.median()-raw.median()),
	})
}
