// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"context"
	"errors"
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var reads = metrics.NewCounterVec(&metrics.CounterOpts{
	Namespace:      "metal3",
	Subsystem:      "host",
	Name:           "reads_total",
	Help:           "Reads of hosts by verb and result: live, partial if some hosts of a list could not be observed, or stale if the recorded status was served with a warning.",
	StabilityLevel: metrics.ALPHA,
}, []string{"verb", "result"})

// Values of the label result of reads.
const (
	readLive    = "live"
	readPartial = "partial"
	readStale   = "stale"
)

var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(reads)
	for _, verb := range []string{"get", "list", "watch"} {
		for _, result := range []string{readLive, readPartial, readStale} {
			reads.WithLabelValues(verb, result)
		}
	}
})

// countRead counts a read, unless the client has gone away. The error is the one that the client
// was warned of.
func countRead(ctx context.Context, verb string, err error) {
	if ctx.Err() != nil {
		return
	}
	var partial interface{ LiveForOthers() bool }
	result := readLive
	switch {
	case errors.As(err, &partial) && partial.LiveForOthers():
		result = readPartial
	case err != nil:
		result = readStale
	}
	reads.WithLabelValues(verb, result).Inc()
}
