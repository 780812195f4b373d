// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// lateTest is about a request that is late. meanwhile has the leader be another one, or the same.
type lateTest func(t *testing.T, w *world, key types.NamespacedName, meanwhile func(w *world))

// underEachLeader runs a test in which the same leader goes on while a request is late, and one in which another does.
func underEachLeader(t *testing.T, image bool, test lateTest) {
	leaders := map[string]func(w *world){"same leader": func(*world) {}, "new leader": (*world).another}
	for name, meanwhile := range leaders {
		t.Run(name, func(t *testing.T) {
			inLateWorld(t, image, func(t *testing.T, w *world, key types.NamespacedName) { test(t, w, key, meanwhile) })
		})
	}
}

// erasures is how often the disk of the host was erased.
func (w *world) erasures(key types.NamespacedName) (n int) {
	for _, write := range w.sim.Sim.DiskWrites(w.hostOf(key).Status.Provisioning.ID) {
		if write.Image == "" {
			n++
		}
	}
	return n
}

// TestLateClean: the steps that somebody has requested are carried out once, however late.
func TestLateClean(t *testing.T) {
	underEachLeader(t, false, func(t *testing.T, w *world, key types.NamespacedName, meanwhile func(w *world)) {
		before := w.erasures(key)
		node := w.sim.Node(w.hostOf(key).Status.Provisioning.ID)
		w.firstIsLate("clean", func() {
			w.edit(key, func(h *metal3.BareMetalHost) {
				if err := lifecycle.RequestClean(h, node, []metal3.CleanStep{{Interface: "deploy", Step: "erase_devices_metadata"}}, time.Now()); err != nil {
					t.Error(err)
				}
			})
		})
		meanwhile(w)
		w.after(15*time.Minute, "cleaned", func() bool {
			p := w.hostOf(key).Status.Record.Preparation
			return w.is(key, metal3.StateAvailable)() && p != nil && p.Phase == metal3.PreparationSucceeded
		})
		time.Sleep(10 * time.Minute)
		if n := w.erasures(key) - before; n != 1 || !w.is(key, metal3.StateAvailable)() {
			t.Errorf("erased %d times by %d requests", n, w.sim.Count("clean"))
		}
	})
}

// TestLatePowerOff: the machine that was to be off is to be on again before it is off. It goes off all the same, and
// is on in the end. Nobody is told that this was an accident.
func TestLatePowerOff(t *testing.T) {
	underEachLeader(t, true, func(t *testing.T, w *world, key types.NamespacedName, meanwhile func(w *world)) {
		w.firstIsLate("soft power off", func() { w.edit(key, func(h *metal3.BareMetalHost) { h.Spec.Online = false }) })
		meanwhile(w)
		w.edit(key, func(h *metal3.BareMetalHost) { h.Spec.Online = true })
		w.after(10*time.Minute, "off all the same", func() bool { return w.sim.BMC(0).Power() == string(ironic.PowerOff) })
		w.after(time.Minute, "on again", func() bool { return w.sim.BMC(0).Power() == string(ironic.PowerOn) && w.hostOf(key).Status.PoweredOn })
		time.Sleep(10 * time.Minute)
		if n := w.sim.Count("soft power off") + w.sim.Count("power off"); n != 1 || !w.hostOf(key).Status.PoweredOn {
			t.Errorf("asked to be off %d times", n)
		}
		w.stop()
		if slices.ContainsFunc(w.events.messages, func(m string) bool { return strings.Contains(m, "while spec.online is true") }) {
			t.Errorf("it is told as an accident: %q", w.events.messages)
		}
	})
}

// TestLateReboot: a machine that was to be rebooted goes off once.
func TestLateReboot(t *testing.T) {
	underEachLeader(t, true, func(t *testing.T, w *world, key types.NamespacedName, meanwhile func(w *world)) {
		cuts := w.sim.BMC(0).PowerCuts()
		w.firstIsLate("power off", func() {
			w.edit(key, func(h *metal3.BareMetalHost) {
				h.Annotations = map[string]string{metal3.RebootAnnotation: `{"mode":"hard"}`}
			})
		})
		meanwhile(w)
		w.after(15*time.Minute, "rebooted", func() bool {
			host := w.hostOf(key)
			return len(host.Annotations) == 0 && host.Status.PoweredOn && w.sim.BMC(0).Power() == string(ironic.PowerOn)
		})
		time.Sleep(10 * time.Minute)
		if n := w.sim.BMC(0).PowerCuts() - cuts; n != 1 {
			t.Errorf("the power was cut %d times by %d requests", n, w.sim.Count("power off"))
		}
	})
}

// TestLateCleanOfAdoptedMachine: a machine of which somebody says that it runs something is not erased by what was asked for
// before.
func TestLateCleanOfAdoptedMachine(t *testing.T) {
	underEachLeader(t, false, func(t *testing.T, w *world, key types.NamespacedName, meanwhile func(w *world)) {
		node := w.sim.Node(w.hostOf(key).Status.Provisioning.ID)
		w.firstIsLate("clean", func() {
			w.edit(key, func(h *metal3.BareMetalHost) {
				if err := lifecycle.RequestClean(h, node, []metal3.CleanStep{{Interface: "deploy", Step: "erase_devices_metadata"}}, time.Now()); err != nil {
					t.Error(err)
				}
			})
		})
		meanwhile(w)
		w.edit(key, func(h *metal3.BareMetalHost) { h.Spec.ExternallyProvisioned = true })
		w.after(15*time.Minute, "adopted", w.is(key, metal3.StateExternallyProvisioned))
		before := w.erasures(key)
		time.Sleep(10 * time.Minute)
		if n := w.erasures(key) - before; n != 0 || !w.is(key, metal3.StateExternallyProvisioned)() {
			t.Errorf("erased %d times after it was adopted", n)
		}
	})
}

// TestLostPowerOff: a machine is rebooted although the first request is lost. It is off until it is certain that the request does
// not come any more.
func TestLostPowerOff(t *testing.T) {
	inLateWorld(t, true, func(t *testing.T, w *world, key types.NamespacedName) {
		w.sim.SetLate("power off", 24*time.Hour)
		w.edit(key, func(h *metal3.BareMetalHost) {
			h.Annotations = map[string]string{metal3.RebootAnnotation: `{"mode":"hard"}`}
		})
		w.after(time.Minute, "asked", func() bool { return w.sim.Count("power off") == 1 })
		w.sim.SetLate("power off", 0)
		if took := w.after(2*time.Minute, "off", func() bool { return w.sim.BMC(0).Power() == string(ironic.PowerOff) }); took > time.Minute {
			t.Errorf("asked again after %s", took)
		}
		took := w.after(10*time.Minute, "on again", func() bool { return w.sim.BMC(0).Power() == string(ironic.PowerOn) })
		if took < 3*time.Minute {
			t.Errorf("on again after %s, when the first request could still come", took)
		}
	})
}

// TestLateService: a machine whose settings are changed when it is rebooted is serviced once, and is not on while the service may
// still begin.
func TestLateService(t *testing.T) {
	inSimulatedFleet(t, fleetSettings(), ironicsim.Options{}, func(t *testing.T, w *world) {
		w.available(redfishHost())
		w.provision()
		w.policy(metal3.UpdateOnReboot)
		w.wantBIOS("ProcVirtualization", "Enabled")
		w.firstIsLate("service", w.reboot)
		w.another()
		w.after(15*time.Minute, "it runs again", w.runsAgain(""))
		time.Sleep(10 * time.Minute)
		if n := w.sim.Count("service"); n != 1 || !w.runsAgain("")() || !w.biosSays(false, true) {
			t.Errorf("serviced %d times", n)
		}
	})
}
