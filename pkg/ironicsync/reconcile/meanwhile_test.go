// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"sync/atomic"
	"testing"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// quickIronic is done with everything before a look at it is too old to act on.
func quickIronic() ironicsim.Options {
	const quick = 50 * time.Millisecond
	return ironicsim.Options{Delays: ironicsim.All(quick), RamdiskDelay: quick}
}

// byHand has another client of Ironic ask for something that leaves the node of the host active, and waits until it is.
func (w *world) byHand(target ironic.ProvisionTarget, options ironic.ProvisionOptions) {
	w.t.Helper()
	id := w.host().Status.Provisioning.ID
	if err := w.sim.SetProvisionState(w.t.Context(), ironic.NoFence, id, target, options); err != nil {
		w.t.Error(err)
	}
	w.after(2*time.Second, string(target)+" by hand has ended", func() bool {
		node, _ := w.sim.Sim.Node(id)
		return node["provision_state"] == string(ironic.Active) && node["reservation"] == nil
	})
}

// TestReservedMeanwhile: a node that another user of Ironic has reserved since it was planned to deploy it is
// looked at anew first, whether Ironic has been told of the image by then or not.
func TestReservedMeanwhile(t *testing.T) {
	const byHand = "7f6b7d4c-3d8a-4a11-9f6e-8d3f0c1b2a90"
	for name, isNext := range map[string]func(w *world) (request string, isNext func() bool){
		"before the image is told": func(w *world) (string, func() bool) {
			return "GetRegistration", func() bool {
				node, _ := w.sim.Sim.Node(w.host().Status.Provisioning.ID)
				return node["provision_state"] == string(ironic.Available)
			}
		},
		"when it is told and validated": func(w *world) (string, func() bool) {
			return "GetNode", func() bool { return w.sim.Count("Validate") > 0 }
		},
	} {
		t.Run(name, func(t *testing.T) {
			inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
				w.available()
				var reserved atomic.Bool
				request, isNext := isNext(w)
				w.before(request, isNext, func() { w.setNode("instance_uuid", byHand); reserved.Store(true) })
				w.update(wantImage)
				w.after(20*time.Second, "reserved", func() bool { return reserved.Load() })
				time.Sleep(5 * time.Minute)
				if n := w.sim.Count("active"); n != 0 {
					t.Error("what another user has reserved is deployed")
				}
				if got := w.sim.Node(w.host().Status.Provisioning.ID).InstanceUUID; got != byHand {
					t.Errorf("the reservation of another user is %q now", got)
				}
				if got := condition(w.host(), metal3.HeldCondition); got != metal3.AnotherDeploymentReason {
					t.Errorf("Held is %q", got)
				}
				w.setNode("instance_uuid", nil)
				w.after(10*time.Minute, "provisioned, as it was released", w.in(metal3.StateProvisioned))
			})
		})
	}
}

// TestRebuiltMeanwhile: a rebuild that has been carried out is not requested once more.
func TestRebuiltMeanwhile(t *testing.T) {
	inSimulation(t, quickIronic(), func(t *testing.T, w *world) {
		w.provisionedHost()
		host := w.host()
		if err := lifecycle.RequestRebuild(host, w.sim.Node(host.Status.Provisioning.ID), time.Now()); err != nil {
			t.Fatal(err)
		}
		validated := w.sim.Count("Validate")
		w.before("GetNode", func() bool { return w.sim.Count("Validate") > validated }, func() { w.byHand(ironic.TargetRebuild, ironic.ProvisionOptions{}) })
		if _, err := w.hosts.Record(t.Context(), host); err != nil {
			t.Fatal(err)
		}
		w.after(time.Minute, "validated", func() bool { return w.sim.Count("Validate") > validated })
		w.after(time.Minute, "provisioned", w.in(metal3.StateProvisioned))
		if n := w.sim.Count("rebuild"); n != 1 {
			t.Errorf("requested %d times", n-1)
		}
	})
}

// TestServicedMeanwhile: a service that has been carried out is not requested once more.
func TestServicedMeanwhile(t *testing.T) {
	inSimulation(t, quickIronic(), func(t *testing.T, w *world) {
		w.provisionedWithPolicy()
		w.wantBIOS("BootMode", "Bios")
		isRequested := func() bool { return w.host().Status.Record.Servicing != nil }
		w.before("GetNode", isRequested, func() {
			settings := []map[string]any{{"name": "BootMode", "value": "Bios"}}
			w.byHand(ironic.TargetService, ironic.ProvisionOptions{ServiceSteps: []ironic.StepRequest{
				{Interface: "bios", Step: "apply_configuration", Args: map[string]any{"settings": settings}},
			}})
		})
		w.reboot()
		w.after(time.Minute, "serviced", isRequested)
		time.Sleep(time.Minute)
		if got := w.services(); len(got) != 1 {
			t.Errorf("requested: %v", got[1:])
		}
	})
}
