package drive

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var heldSteps = metrics.NewCounterVec(&metrics.CounterOpts{
	Namespace:      "metal3",
	Subsystem:      "host",
	Name:           "held_total",
	Help:           "How often a host was found whose machine is left alone, because what is recorded of it contradicts what Ironic says, by the reason of the condition Held.",
	StabilityLevel: metrics.ALPHA,
}, []string{"reason"})

var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(heldSteps) })
