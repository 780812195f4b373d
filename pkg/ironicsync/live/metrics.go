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

var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(feedMisses) })
