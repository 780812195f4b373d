// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// TestPowerCutOfKilledReplica checks that a hard power-off is carried out, and no soft one, if the replica that served the
// action was killed before it asked Ironic, so that nothing changes in Ironic that the leader could notice.
func TestPowerCutOfKilledReplica(t *testing.T) {
	inLateWorld(t, true, func(t *testing.T, w *world, key types.NamespacedName) {
		soft, hard := w.sim.Count(string(ironic.TargetSoftPowerOff)), w.sim.Count(string(ironic.TargetPowerOff))
		w.edit(key, func(h *metal3.BareMetalHost) {
			h.Spec.Online = false
			lifecycle.CutPower(h, &ironic.Node{UUID: h.Status.Provisioning.ID}, time.Now().Add(time.Hour)) // by a clock that is ahead
		})
		w.after(30*time.Second, "it is off", func() bool { return !w.hostOf(key).Status.PoweredOn })
		if soft, hard := w.sim.Count(string(ironic.TargetSoftPowerOff))-soft, w.sim.Count(string(ironic.TargetPowerOff))-hard; soft != 0 || hard != 1 {
			t.Errorf("Ironic was asked for %d soft and %d hard power-offs, want one hard one", soft, hard)
		}
		w.after(time.Minute, "the record is gone", func() bool { return w.hostOf(key).Status.Record.PowerCut == nil })
	})
}

// TestLatePowerCutOfReplica checks that a machine is not cut while it boots: the replica that served the action got no answer, the leader
// has switched the machine off, or the user by the action once more, and it is to be on again when what the replica has asked
// for is carried out.
func TestLatePowerCutOfReplica(t *testing.T) {
	for name, repeat := range map[string]func(t *testing.T, w *world, key types.NamespacedName, id string){
		"by the leader": func(*testing.T, *world, types.NamespacedName, string) {},
		"by the action": func(t *testing.T, w *world, key types.NamespacedName, id string) {
			w.edit(key, func(h *metal3.BareMetalHost) { lifecycle.CutPower(h, &ironic.Node{UUID: id}, time.Now()) })
			if _, _, err := w.sim.SwitchPower(t.Context(), ironic.NoFence, id, ironic.TargetPowerOff); err != nil {
				t.Fatal(err)
			}
			w.edit(key, func(h *metal3.BareMetalHost) { lifecycle.PowerCutAnswered(h) })
		},
	} {
		t.Run(name, func(t *testing.T) { testLatePowerCut(t, repeat) })
	}
}

func testLatePowerCut(t *testing.T, repeat func(t *testing.T, w *world, key types.NamespacedName, id string)) {
	inLateWorld(t, true, func(t *testing.T, w *world, key types.NamespacedName) {
		cuts, id := w.sim.BMC(0).PowerCuts(), w.hostOf(key).Status.Provisioning.ID
		w.sim.SetLate(string(ironic.TargetPowerOff), lateBy)
		w.edit(key, func(h *metal3.BareMetalHost) {
			lifecycle.CutPower(h, &ironic.Node{UUID: id}, time.Now())
			h.Spec.Online = false
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := w.sim.SwitchPower(ctx, ironic.NoFence, id, ironic.TargetPowerOff); err == nil {
			t.Fatal("the late request was answered")
		}
		w.sim.SetLate(string(ironic.TargetPowerOff), 0)
		repeat(t, w, key, id)
		w.after(30*time.Second, "off", func() bool { return !w.hostOf(key).Status.PoweredOn })
		w.edit(key, func(h *metal3.BareMetalHost) { h.Spec.Online = true })
		w.after(10*time.Minute, "on", func() bool { return w.hostOf(key).Status.PoweredOn })
		time.Sleep(10 * time.Minute)
		if n := w.sim.BMC(0).PowerCuts() - cuts; n != 1 || !w.hostOf(key).Status.PoweredOn {
			t.Errorf("its power was cut %d times", n)
		}
	})
}
