// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"testing"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// TestPollsOfBusyIronic: while Ironic works on hosts, however many, it is polled often, but a slow Ironic less often, so
// that polls do not take the time that the work needs. A change is seen within a second nevertheless, and single nodes
// are not read.
func TestPollsOfBusyIronic(t *testing.T) {
	for _, tt := range []struct {
		name        string
		took        time.Duration
		least, most int // polls a minute
	}{
		{"quick", 0, 170, 210},
		{"slow", 50 * time.Millisecond, 110, 130},
		{"very slow", time.Second, 28, 32},
	} {
		t.Run(tt.name, func(t *testing.T) {
			delays := ironicsim.All(time.Second)
			delays.Inspect = 10 * time.Minute
			inSimulation(t, ironicsim.Options{Delays: delays}, func(t *testing.T, w *world) {
				keys := w.enrol(enginetest.Namespace, 20)
				w.after(5*time.Minute, "all are being inspected", w.all(keys, func(host *metal3.BareMetalHost) bool {
					return host.Status.Ironic != nil && host.Status.Ironic.ProvisionState == string(ironic.Inspecting)
				}))
				time.Sleep(10 * time.Second) // what has just changed is looked at for a while
				w.sim.Sim.SetFaults(ironicsim.Faults{Latency: tt.took})
				single := func() int { return w.sim.Count("GetNode") + w.sim.Count("GetRegistration") }
				before, gets, lists := w.sim.Count("ChangedSince"), single(), w.sim.Count("ListNodes")
				time.Sleep(time.Minute)
				if polls := w.sim.Count("ChangedSince") - before; polls < tt.least || polls > tt.most {
					t.Errorf("%d polls a minute", polls)
				}
				if gets, lists = single()-gets, w.sim.Count("ListNodes")-lists; gets > 0 || lists > 3 {
					t.Errorf("single nodes were read %d times, and all %d times", gets, lists)
				}
			})
		})
	}
}
