package bench

import "testing"

// BenchmarkGet has a user read one host after the other through kube-apiserver, and
// reads the nodes past the server.
func BenchmarkGet(b *testing.B) {
	bed := at(b, oneThousand())
	defer bed.profileCPU(b)()
	var ours, raw samples
	i := 0
	for b.Loop() {
		i = (i + 1) % len(bed.nodes)
		raw.timed(b, func() error { return bed.askNode(b.Context(), i) })
		ours.timed(b, func() error { return bed.user.get(b.Context(), i) })
	}
	report(b, ours, raw)
	record(figure{
		what: "GET, Ironic of " + *release, measured: text(ours.median()), beside: "raw " + text(raw.median()),
		result: "+ " + text(ours.median()-raw.median()), wanted: "+ 3 ms",
	})
}
