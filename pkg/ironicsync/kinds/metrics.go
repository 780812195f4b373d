// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var reconciliations = metrics.NewCounterVec(&metrics.CounterOpts{
	Namespace:      "metal3",
	Name:           "reconcile_total",
	Help:           "How often objects of the kinds other than BareMetalHost were reconciled, by the resource and the result: success or error.",
	StabilityLevel: metrics.ALPHA,
}, []string{"resource", "result"})

// The results of reconciliations.
const (
	succeeded = "success"
	failed    = "error"
)

var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(reconciliations) })
