package live

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var feedMisses = metrics.NewCounter(&metrics.CounterOpts{
	Namespace:      "metal3",
	Subsystem:      "ironic",
	Name:           "feed_misses_total",
	Help:           "Changes of nodes that Ironic's feed of changes should have shown and that only a read of all nodes did: the clocks of its conductors differ.",
	StabilityLevel: metrics.ALPHA,
})

var changeDelay = metrics.NewHistogram(&metrics.HistogramOpts{
	Namespace:      "metal3",
	Subsystem:      "ironic",
	Name:           "change_delay_seconds",
	Help:           "Time from a change of a node in Ironic until the status of its host was recorded, which is when watchers get it. Precise to a second, as Ironic's clock is read from the Date header of its answers.",
	Buckets:        []float64{.25, .5, 1, 2, 3, 5, 8, 15, 30, 60, 120},
	StabilityLevel: metrics.ALPHA,
})

var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(feedMisses, changeDelay) })
