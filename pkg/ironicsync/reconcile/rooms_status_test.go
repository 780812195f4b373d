// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/component-base/metrics"
)

// TestStuckRoomIsNamed: the health check names the Ironic whose poll does not move, and only that one.
func TestStuckRoomIsNamed(t *testing.T) {
	inRooms(t, func(t *testing.T, r *rooms) {
		r.hosts.Add(in("b", 0))
		time.Sleep(30 * time.Second)
		h, stuck := &hanging{}, make(chan struct{})
		h.change(func() { h.stuckReads = stuck })
		r.intercept("b", h.holdUp)
		r.after(20*time.Minute, "it is noticed", func() bool { return r.active.Check(nil) != nil })
		if err := r.active.Check(nil); !strings.Contains(err.Error(), `IronicInstance "b"`) || !strings.Contains(err.Error(), "poll") {
			t.Errorf("the check says: %v", err)
		}
		h.change(func() { h.stuckReads = nil })
		close(stuck)
		r.after(time.Minute, "over", func() bool { return r.active.Check(nil) == nil })
	}, "b")
}

// TestMetricsOfEachRoom: limits and queues are told apart by Ironic.
func TestMetricsOfEachRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRooms(t, "b")
		r.settings.ProvisioningLimit = 1
		r.secret("secret")
		r.begin(0)
		defer func() { r.stop() }()
		r.settings.ProvisioningLimit = 2
		r.use("b")
		r.hosts.Add(in("b", 0))
		registry := metrics.NewKubeRegistry()
		registry.CustomMustRegister(&r.active)
		values := func(name string) map[string]float64 {
			found := map[string]float64{}
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, family := range families {
				if family.GetName() != name {
					continue
				}
				for _, m := range family.GetMetric() {
					for _, label := range m.GetLabel() {
						if label.GetName() == "ironic" {
							found[label.GetValue()] = m.GetGauge().GetValue()
						}
					}
				}
			}
			return found
		}
		r.after(time.Minute, "a slot of b is in use", func() bool { return values("metal3_provisioning_slots_in_use")["b"] == 1 })
		if n := values("metal3_provisioning_slots_in_use")[""]; n != 0 {
			t.Errorf("%v slots of the flags' Ironic are in use", n)
		}
		if got := values("metal3_provisioning_slots"); len(got) != 2 || got[""] != 1 || got["b"] != 2 {
			t.Errorf("limits: %v", got)
		}
		if got := values("metal3_host_queue_oldest_seconds"); len(got) != 2 {
			t.Errorf("queues: %v", got)
		}
		r.disuse("b")
		r.after(time.Minute, "told no more", func() bool { return len(values("metal3_provisioning_slots")) == 1 })
	})
}
