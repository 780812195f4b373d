// SPDX-License-Identifier: Apache-2.0

package live_test

import (
	"testing"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

// changeDelays returns the number and the sum, in seconds, of the delays that were measured so far.
func changeDelays(t *testing.T) (count uint64, sum float64) {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "metal3_ironic_change_delay_seconds" {
			h := family.GetMetric()[0].GetHistogram()
			return h.GetSampleCount(), h.GetSampleSum()
		}
	}
	t.Fatal("there is no metal3_ironic_change_delay_seconds")
	return 0, 0
}

// waitingReads returns how many reads wait for an observation.
func waitingReads(t *testing.T) float64 { return valueOf(t, "metal3_ironic_waiting_reads") }

// unreadableNodes returns how many nodes Ironic cannot show.
func unreadableNodes(t *testing.T) float64 { return valueOf(t, "metal3_ironic_unreadable_nodes") }

// feedMisses returns how many changes were missed in the feed so far.
func feedMisses(t *testing.T) float64 { return valueOf(t, "metal3_ironic_feed_misses_total") }

func valueOf(t *testing.T, name string) float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			metric := family.GetMetric()[0] // a gauge or a counter
			return metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
		}
	}
	t.Fatal("there is no " + name)
	return 0
}

// TestChangeDelay: the delay of a change is measured whatever Ironic's clock says.
func TestChangeDelay(t *testing.T) {
	for name, clock := range map[string]time.Duration{"one clock": 0, "Ironic ahead": 10 * time.Minute, "Ironic behind": -10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 2, func(t *testing.T, b *bench) {
				b.nodes.Change(func() { b.nodes.Clock = clock })
				b.nodes.Say(enginetest.NodeID(0), "begin")
				b.nodes.Say(enginetest.NodeID(1), "begin")
				b.list(t)
				count, sum := changeDelays(t)
				b.nodes.Say(enginetest.NodeID(0), "changed")
				time.Sleep(4 * time.Second)
				b.list(t)
				b.list(t) // shows nothing new
				newCount, newSum := changeDelays(t)
				if n, delay := newCount-count, newSum-sum; n != 1 || delay < 3 || delay > 5 {
					t.Errorf("%d changes were measured, with delays of %v s together; want 1 with 4 s", n, delay)
				}
			})
		})
	}
}
