// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

var (
	heldSteps = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace:      "metal3",
		Subsystem:      "host",
		Name:           "held_total",
		Help:           "How often a host was found whose machine is left alone, because what is recorded of it contradicts what Ironic says, by the reason of the condition Held.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"reason"})

	powerChanges = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace:      "metal3",
		Subsystem:      "operation",
		Name:           "power_change_total",
		Help:           "Machines that were switched on or off because of spec.online.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"on_off"})
)

// registerMetrics registers the metrics. Counters whose labels have few values are there from the
// beginning with 0, because rate() does not see the increase of one that begins with 1.
var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(heldSteps, powerChanges)
	for _, reason := range lifecycle.HoldReasons() {
		heldSteps.WithLabelValues(reason)
	}
	for _, onOff := range []string{"on", "off"} {
		powerChanges.WithLabelValues(onOff)
	}
})
