// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// inKeptWorld runs a test with an externally provisioned host whose machine runs, and whose YAML leaves spec.online out; and with
// another leader after each act of its user, or the same one.
func inKeptWorld(t *testing.T, test func(t *testing.T, w *world, key types.NamespacedName, meanwhile func(w *world))) {
	for name, meanwhile := range map[string]func(w *world){"same leader": func(*world) {}, "new leader": (*world).another} {
		t.Run(name, func(t *testing.T) {
			inSimulatedFleet(t, fleetSettings(), ironicsim.Options{}, func(t *testing.T, w *world) {
				w.sim.BMC(0).SetPower(string(ironic.PowerOn))
				host := enrolledIn(enginetest.Namespace, enginetest.HostName(0), 0)
				host.Spec.ExternallyProvisioned, host.Spec.Online = true, false
				w.addWithSecret(host)
				key := enginetest.KeyOf(host)
				w.after(time.Minute, "taken over", w.is(key, metal3.StateExternallyProvisioned))
				time.Sleep(10 * time.Minute)
				if !w.isOn() || w.sim.BMC(0).PowerCuts() > 0 {
					t.Error("it is off")
				}
				test(t, w, key, meanwhile)
			})
		})
	}
}

func (w *world) isOn() bool  { return w.sim.BMC(0).Power() == string(ironic.PowerOn) }
func (w *world) isOff() bool { return w.sim.BMC(0).Power() == string(ironic.PowerOff) }

// TestKeptIsOnAfterReboot: a machine that is left on although spec.online is false is rebooted and fenced as any other, and goes on
// running after that.
func TestKeptIsOnAfterReboot(t *testing.T) {
	inKeptWorld(t, func(t *testing.T, w *world, key types.NamespacedName, meanwhile func(w *world)) {
		runsOn := func(cuts int) {
			t.Helper()
			w.after(2*time.Minute, "on again", w.isOn)
			time.Sleep(10 * time.Minute)
			host := w.hostOf(key)
			if n := w.sim.BMC(0).PowerCuts(); !w.isOn() || n != cuts || len(host.Annotations) > 0 || len(host.Status.Record.Rebooted) > 0 {
				t.Errorf("it is on: %t, after %d cuts; annotations %v; recorded %v", w.isOn(), n, host.Annotations, host.Status.Record.Rebooted)
			}
		}
		w.edit(key, func(h *metal3.BareMetalHost) {
			metav1.SetMetaDataAnnotation(&h.ObjectMeta, metal3.RebootAnnotation, "")
		})
		w.after(2*time.Minute, "off", w.isOff)
		meanwhile(w)
		runsOn(1)
		const fence = metal3.RebootAnnotationPrefix + "fence"
		w.edit(key, func(h *metal3.BareMetalHost) { metav1.SetMetaDataAnnotation(&h.ObjectMeta, fence, "") })
		w.after(2*time.Minute, "off", w.isOff)
		meanwhile(w)
		time.Sleep(10 * time.Minute)
		if !w.isOff() {
			t.Error("it is on while it is fenced")
		}
		w.edit(key, func(h *metal3.BareMetalHost) { delete(h.Annotations, fence) })
		meanwhile(w)
		runsOn(2)
	})
}

// TestKeptIsFenced: a hard power-off that a replica has not got carried out is carried out by the leader, and lasts.
func TestKeptIsFenced(t *testing.T) {
	inKeptWorld(t, func(t *testing.T, w *world, key types.NamespacedName, meanwhile func(w *world)) {
		node := w.sim.Node(w.hostOf(key).Status.Provisioning.ID)
		w.edit(key, func(h *metal3.BareMetalHost) { lifecycle.CutPower(h, node, time.Now()) })
		meanwhile(w)
		w.after(2*time.Minute, "off", w.isOff)
		if n := w.sim.Count("soft power off"); n > 0 {
			t.Errorf("it was asked to shut down %d times", n)
		}
		time.Sleep(10 * time.Minute)
		w.sim.BMC(0).SetPower(string(ironic.PowerOn))
		w.after(2*time.Minute, "off again", w.isOff)
	})
}
