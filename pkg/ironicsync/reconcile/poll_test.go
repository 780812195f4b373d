package reconcile_test

import (
	"testing"
	"time"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// TestPollsOfBusyIronic: while Ironic works on a host, it is polled often, but a slow Ironic less often, so
// that polls do not take the time that the work needs. A change is seen within a second nevertheless.
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
				host := withRedfish()
				w.sim.Sim.AddBMC(host.Spec.BMC.Address, enginetest.BMCUser, enginetest.BMCPassword)
				w.secret(enginetest.BMCPassword)
				w.hosts.Add(host)
				w.after(time.Minute, "being inspected", func() bool {
					s := w.host().Status.Ironic
					return s != nil && s.ProvisionState == string(ironic.Inspecting)
				})
				w.sim.Sim.SetFaults(ironicsim.Faults{Latency: tt.took})
				before := w.sim.Count("ChangedSince")
				time.Sleep(time.Minute)
				if polls := w.sim.Count("ChangedSince") - before; polls < tt.least || polls > tt.most {
					t.Errorf("%d polls a minute", polls)
				}
			})
		})
	}
}
