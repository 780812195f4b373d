// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

func external(h *metal3.BareMetalHost) { h.Spec.ExternallyProvisioned = true }

// TestAdoptedHasIdentity: whatever Ironic adopts has an instance_uuid that is recorded, so that it is told from what somebody deploys
// later. A host that is external from the beginning needs no PATCH for that.
func TestAdoptedHasIdentity(t *testing.T) {
	identified := func(t *testing.T, w *world, host *metal3.BareMetalHost) {
		t.Helper()
		node := w.sim.Node(host.Status.Provisioning.ID)
		if d := host.Status.Record.Deployment; d == nil || d.InstanceUUID == "" || node.InstanceUUID != d.InstanceUUID {
			t.Errorf("the node has instance_uuid %q, and %+v is recorded", node.InstanceUUID, d)
		}
	}
	t.Run("external from the beginning", func(t *testing.T) {
		inSimulation(t, ironicsim.Options{BMCTimeout: time.Second}, func(t *testing.T, w *world) {
			w.secret("secret")
			host := enrolled(0)
			external(host)
			w.hosts.Add(host)
			w.after(time.Minute, "adopted", func() bool {
				return w.host().Status.Provisioning.State == metal3.StateExternallyProvisioned && w.sim.Node(w.host().Status.Provisioning.ID).ProvisionState == "active"
			})
			identified(t, w, w.host())
			if n := w.sim.Count("UpdateNode"); n > 0 {
				t.Errorf("%d updates of the node", n)
			}
		})
	})
	t.Run("external later, and lost", func(t *testing.T) {
		inLateWorld(t, false, func(t *testing.T, w *world, key types.NamespacedName) {
			w.edit(key, external)
			adopted := func() bool {
				host := w.hostOf(key)
				node := w.sim.Node(host.Status.Provisioning.ID)
				return w.is(key, metal3.StateExternallyProvisioned)() && node != nil && node.ProvisionState == "active"
			}
			w.after(time.Minute, "adopted", adopted)
			identified(t, w, w.hostOf(key))
			before := w.hostOf(key).Status.Record.Deployment.InstanceUUID
			if err := w.sim.Sim.LoseNode(w.hostOf(key).Status.Provisioning.ID); err != nil {
				t.Fatal(err)
			}
			w.after(time.Minute, "adopted again", adopted)
			identified(t, w, w.hostOf(key))
			if now := w.hostOf(key).Status.Record.Deployment.InstanceUUID; now != before {
				t.Errorf("the same deployment was %s, and is %s", before, now)
			}
		})
	})
}

// TestAnotherDriverWithInstance: a node that was created with an instance_uuid, which Ironic deletes only without one, is created
// again with another driver.
func TestAnotherDriverWithInstance(t *testing.T) {
	inSimulation(t, ironicsim.Options{BMCTimeout: time.Second}, func(t *testing.T, w *world) {
		w.secret("secret")
		host := enrolled(0)
		external(host)
		right := host.Spec.BMC.Address
		host.Spec.BMC.Address = "redfish://192.0.2.9/redfish/v1/Systems/1"
		w.hosts.Add(host)
		w.after(2*time.Minute, "not reached", func() bool { return w.host().Status.ErrorType == metal3.RegistrationError })
		w.update(func(h *metal3.BareMetalHost) { h.Spec.BMC.Address = right })
		w.after(2*time.Minute, "adopted", w.in(metal3.StateExternallyProvisioned))
	})
}
