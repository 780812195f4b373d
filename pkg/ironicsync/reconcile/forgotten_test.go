// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// TestConductorForgetsNodes: a conductor that is started again fails eight of the nodes in each state that it has worked on, and never looks at
// the others again. What it was to do with them is done all the same, and hosts can be deleted.
func TestConductorForgetsNodes(t *testing.T) {
	const many = 12
	available := func(w *world) []types.NamespacedName {
		hosts := w.enrol("a", many)
		w.after(10*time.Minute, "all are available", w.all(hosts, arrived(metal3.StateAvailable)))
		return hosts
	}
	provisioned := func(w *world) []types.NamespacedName {
		hosts := available(w)
		for _, key := range hosts {
			w.edit(key, wantImage)
		}
		w.after(10*time.Minute, "all are provisioned", w.all(hosts, arrived(metal3.StateProvisioned)))
		return hosts
	}
	for name, test := range map[string]struct {
		hosts func(*world) []types.NamespacedName
		edit  func(*metal3.BareMetalHost) // after which all are in the state
		state ironic.ProvisionState
		then  func(*metal3.BareMetalHost)      // while Ironic is away
		end   func(*metal3.BareMetalHost) bool // nil if all are gone
	}{
		"verified":  {hosts: func(w *world) []types.NamespacedName { return w.enrol("a", many) }, state: ironic.Verifying, end: arrived(metal3.StateAvailable)},
		"inspected": {hosts: func(w *world) []types.NamespacedName { return w.enrol("a", many) }, state: ironic.Inspecting, end: arrived(metal3.StateAvailable)},
		"deployed":  {hosts: available, edit: wantImage, state: ironic.Deploying, end: arrived(metal3.StateProvisioned)},
		"undeployed": {hosts: provisioned, edit: func(h *metal3.BareMetalHost) { h.Spec.Image = nil }, state: ironic.Deleting,
			end: arrived(metal3.StateAvailable)},
		"deleted meanwhile": {hosts: func(w *world) []types.NamespacedName { return w.enrol("a", many) }, state: ironic.Inspecting,
			then: func(h *metal3.BareMetalHost) { h.DeletionTimestamp = &metav1.Time{Time: time.Now()} }},
	} {
		t.Run(name, func(t *testing.T) {
			delays := ironicsim.All(20 * time.Second)
			delays.Power = time.Second
			inSimulatedFleet(t, fleetSettings(), ironicsim.Options{Delays: delays, WithoutDefects: true}, func(t *testing.T, w *world) {
				hosts := test.hosts(w)
				for _, key := range hosts {
					if test.edit != nil {
						w.edit(key, test.edit)
					}
				}
				w.after(10*time.Minute, "all are in the state", func() bool { return len(w.namesIn(test.state)) == many })
				w.sim.Sim.KillConductor()
				time.Sleep(10 * time.Second)
				for _, key := range hosts {
					if test.then != nil {
						w.edit(key, test.then)
					}
				}
				w.sim.Sim.RestartConductor()
				if left := len(w.namesIn(test.state)); left != many-8 {
					t.Fatalf("Ironic has forgotten %d nodes", left)
				}
				w.after(2*time.Hour, "all have ended", func() bool {
					if test.end == nil {
						return !slices.ContainsFunc(hosts, func(key types.NamespacedName) bool { return w.hostOf(key) != nil })
					}
					return w.all(hosts, test.end)()
				})
			})
		})
	}
}

// TestForgottenWhileInUse: a node that Ironic has forgotten while it serviced a machine is left to people, and so is one that somebody has put into
// maintenance: nothing happens to the machine.
func TestForgottenWhileInUse(t *testing.T) {
	for name, set := range map[string]func(*world){
		"serviced": func(w *world) { w.setNode("provision_state", string(ironic.Servicing)) },
		"in a maintenance": func(w *world) {
			w.setNode("maintenance", true)
			w.setNode("provision_state", string(ironic.Cleaning))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inSimulation(t, ironicsim.Options{WithoutDefects: true}, func(t *testing.T, w *world) {
				w.provisionedHost()
				requests := func() (n int) {
					for _, request := range []string{"power off", "soft power off", "rebooting", "soft rebooting", "deleted", "clean", "rebuild", "active", "adopt", "provide"} {
						n += w.sim.Count(request)
					}
					return n
				}
				before, node := requests(), w.host().Status.Provisioning.ID
				set(w)
				time.Sleep(2 * time.Hour)
				if n := requests() - before; n > 0 || w.host().Status.Provisioning.ID != node || len(w.sim.Sim.NodeUUIDs()) != 1 {
					t.Errorf("%d requests to a machine that is in use", n)
				}
				// In a maintenance, the host is held for something else.
				if message := w.host().Status.ErrorMessage; name == "serviced" && !strings.Contains(message, "has forgotten the node") {
					t.Errorf("the host shows the error %q", message)
				}
			})
		})
	}
}

// TestNoFreeWorker: a request that Ironic refuses because it has no free worker, after it has changed the state of the node and changed it
// back, is made again. Each host is inspected before it is available.
func TestNoFreeWorker(t *testing.T) {
	delays := ironicsim.All(5 * time.Second)
	inSimulatedFleet(t, fleetSettings(), ironicsim.Options{Delays: delays, Workers: 2, WithoutDefects: true}, func(t *testing.T, w *world) {
		hosts := w.enrol("a", 8)
		w.after(30*time.Minute, "all are available", w.all(hosts, arrived(metal3.StateAvailable)))
		for _, key := range hosts {
			if host := w.hostOf(key); host.Status.HardwareDetails == nil {
				t.Errorf("%s is available and was not inspected", key)
			}
			w.edit(key, wantImage)
		}
		w.after(30*time.Minute, "all are provisioned", w.all(hosts, arrived(metal3.StateProvisioned)))
	})
}
