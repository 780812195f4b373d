// SPDX-License-Identifier: Apache-2.0

package live

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var feedMisses = metrics.NewCounterVec(&metrics.CounterOpts{
	Namespace:      "metal3",
	Subsystem:      "ironic",
	Name:           "feed_misses_total",
	Help:           "Changes of nodes that Ironic's feed of changes should have shown and that only a read of all nodes did: the clocks of its conductors differ. By IronicInstance.",
	StabilityLevel: metrics.ALPHA,
}, []string{"ironic"})

var changeDelay = metrics.NewHistogramVec(&metrics.HistogramOpts{
	Namespace:      "metal3",
	Subsystem:      "ironic",
	Name:           "change_delay_seconds",
	Help:           "Time from a change of a node in Ironic until the status of its host was recorded, which is when watchers get it. Precise to a second, as Ironic's clock is read from the Date header of its answers. By IronicInstance.",
	Buckets:        []float64{.25, .5, 1, 2, 3, 5, 8, 15, 30, 60, 120},
	StabilityLevel: metrics.ALPHA,
}, []string{"ironic"})

var waitingReads = metrics.NewGaugeVec(&metrics.GaugeOpts{
	Namespace:      "metal3",
	Subsystem:      "ironic",
	Name:           "waiting_reads",
	Help:           "Reads of hosts that wait for an observation of their nodes, by IronicInstance. Many of them can wait for the same request to Ironic.",
	StabilityLevel: metrics.ALPHA,
}, []string{"ironic"})

var unreadableNodes = metrics.NewGaugeVec(&metrics.GaugeOpts{
	Namespace:      "metal3",
	Subsystem:      "ironic",
	Name:           "unreadable_nodes",
	Help:           "Nodes that Ironic fails to show, as of the last read of all nodes, by IronicInstance. The status of their hosts is not live.",
	StabilityLevel: metrics.ALPHA,
}, []string{"ironic"})

var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(feedMisses, changeDelay, waitingReads, unreadableNodes) })

// beginMetrics has the series of an Ironic begin with 0, because rate() does not see the increase of one that begins later.
func beginMetrics(name string) {
	registerMetrics()
	feedMisses.WithLabelValues(name)
	changeDelay.WithLabelValues(name)
	waitingReads.WithLabelValues(name)
	unreadableNodes.WithLabelValues(name)
}

// ForgetMetrics removes the series of an Ironic that is no longer used.
func ForgetMetrics(name string) {
	series := map[string]string{"ironic": name}
	if feedMisses.IsCreated() {
		feedMisses.DeletePartialMatch(series)
	}
	if changeDelay.IsCreated() {
		changeDelay.DeletePartialMatch(series)
	}
	if waitingReads.IsCreated() {
		waitingReads.DeletePartialMatch(series)
	}
	if unreadableNodes.IsCreated() {
		unreadableNodes.DeletePartialMatch(series)
	}
}
