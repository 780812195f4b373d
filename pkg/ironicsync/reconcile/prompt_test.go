// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"testing"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// TestSpecChangesAreTakenAtOnce: steps follow from events. The leader's look at Ironic, each second, would take half a
// second on the average, and so is not what brings a changed spec there.
func TestSpecChangesAreTakenAtOnce(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.secret("secret")
		w.hosts.Add(enrolled(0))
		switches := func() int {
			return w.sim.Count("power on") + w.sim.Count("power off") + w.sim.Count("soft power off")
		}
		for _, online := range []bool{true, false, true, false} {
			w.update(func(host *metal3.BareMetalHost) { host.Spec.Online = online })
			w.after(time.Minute, "the power is as the spec says", func() bool {
				host := w.host()
				return host.Status.Provisioning.State == metal3.StateAvailable && host.Status.PoweredOn == online
			})
			time.Sleep(10*time.Second + 300*time.Millisecond) // at rest, at some moment between two looks
			asked := switches()
			w.update(func(host *metal3.BareMetalHost) { host.Spec.Online = !online })
			w.after(100*time.Millisecond, "Ironic is asked to switch the power", func() bool { return switches() > asked })
		}
	})
}

// TestChangesWhateverTheClock: with nobody reading, a change in Ironic is recorded with the leader's next look, whatever Ironic's
// clock says and though its conductors do not agree.
func TestChangesWhateverTheClock(t *testing.T) {
	const hosts = 8
	for name, set := range map[string]func(sim *ironicsim.Sim, nodes []string) error{
		"IronicAhead": func(sim *ironicsim.Sim, _ []string) error {
			sim.SetClock(ironicsim.Clock{Offset: 10 * time.Minute})
			return nil
		},
		"IronicBehind": func(sim *ironicsim.Sim, _ []string) error {
			sim.SetClock(ironicsim.Clock{Offset: -10 * time.Minute})
			return nil
		},
		"WholeSeconds": func(sim *ironicsim.Sim, _ []string) error {
			sim.SetClock(ironicsim.Clock{WholeSeconds: true})
			return nil
		},
		"NodeOfTheFuture": func(sim *ironicsim.Sim, _ []string) error {
			// A conductor's clock was wrong for a moment: nothing else is to happen to this node.
			id, err := sim.CreateNode(map[string]any{"driver": "fake-hardware"})
			if err == nil {
				err = sim.SetNodeClock(id, time.Hour)
			}
			if err == nil {
				err = sim.SetNode(id, nil)
			}
			return err
		},
		"HostOfTheFuture": func(sim *ironicsim.Sim, nodes []string) error { return sim.SetNodeClock(nodes[0], time.Hour) },
		"ConductorBehind": func(sim *ironicsim.Sim, nodes []string) (err error) {
			for i := 1; i < hosts && err == nil; i += 2 {
				err = sim.SetNodeClock(nodes[i], -time.Second)
			}
			return err
		},
		"ConductorAhead": func(sim *ironicsim.Sim, nodes []string) (err error) {
			for i := 0; i < hosts && err == nil; i += 2 {
				err = sim.SetNodeClock(nodes[i], time.Second)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
				w.secret("secret")
				var nodes []string
				for i := range hosts {
					w.hosts.Add(enrolled(i))
				}
				for i := range hosts {
					host := func() *metal3.BareMetalHost { return w.hosts.Host(t, enginetest.HostName(i)) }
					w.after(5*time.Minute, "available", func() bool {
						return host().Status.Provisioning.State == metal3.StateAvailable && host().Status.PoweredOn
					})
					nodes = append(nodes, host().Status.Provisioning.ID)
				}
				if err := set(w.sim.Sim, nodes); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Second)
				for i, node := range nodes {
					time.Sleep(350 * time.Millisecond) // at all moments between two looks
					if err := w.sim.Sim.SetNode(node, map[string]any{"maintenance": true, "maintenance_reason": "changed"}); err != nil {
						t.Fatal(err)
					}
					w.after(1100*time.Millisecond, "the change is recorded", func() bool {
						return w.hosts.Host(t, enginetest.HostName(i)).Status.Ironic.MaintenanceReason == "changed"
					})
				}
			})
		})
	}
}
