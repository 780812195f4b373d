// SPDX-License-Identifier: Apache-2.0

package client

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	requestDuration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Namespace:      "metal3",
		Subsystem:      "ironic",
		Name:           "request_duration_seconds",
		Help:           "Time that one request to Ironic took, by IronicInstance, operation and HTTP status code (\"error\" where no answer arrived).",
		Buckets:        []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		StabilityLevel: metrics.ALPHA,
	}, []string{"ironic", "operation", "code"})

	requestsInFlight = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace:      "metal3",
		Subsystem:      "ironic",
		Name:           "requests_in_flight",
		Help:           "Requests to Ironic that are under way, by IronicInstance.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"ironic"})

	requestErrors = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace:      "metal3",
		Subsystem:      "ironic",
		Name:           "request_errors_total",
		Help:           "Requests that failed because Ironic as a whole did not serve them, by IronicInstance, operation and reason.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"ironic", "operation", "reason"})
)

var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(requestDuration, requestsInFlight, requestErrors)
})

// ForgetMetrics removes the series of an Ironic that is no longer used.
func ForgetMetrics(name string) {
	series := map[string]string{"ironic": name}
	if requestDuration.IsCreated() {
		requestDuration.DeletePartialMatch(series)
	}
	if requestsInFlight.IsCreated() {
		requestsInFlight.DeletePartialMatch(series)
	}
	if requestErrors.IsCreated() {
		requestErrors.DeletePartialMatch(series)
	}
}
