// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"
	"testing"
)

// BenchmarkManyWait starts hosts that all ask at once, and as each ends the next one. The
// time for each host must not grow with their number.
func BenchmarkManyWait(b *testing.B) {
	for _, n := range []int{500, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			hosts := append(many("a", n/2), many("b", n/2)...)
			for b.Loop() {
				f := newFleet(20)
				for _, h := range hosts {
					if f.TryStart(h.namespace, h.name) {
						f.begin(h)
					}
				}
				for len(f.working) > 0 {
					f.end(f.working[0])
					if namespace, name, ok := f.NextReady(); ok {
						f.begin(host{namespace, name})
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/host")
		})
	}
}
