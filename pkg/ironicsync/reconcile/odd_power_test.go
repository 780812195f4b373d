// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// TestResetOfMachineThatIsOff: a machine that must not be switched off is reset to boot the ramdisk, which its BMC refuses by IPMI while it is
// off. It is switched on before.
func TestResetOfMachineThatIsOff(t *testing.T) {
	inSimulation(t, ironicsim.Options{WithoutDefects: true}, func(t *testing.T, w *world) {
		host := enrolled(0)
		host.Spec.DisablePowerOff = true
		w.available(host)
		if w.host().Status.HardwareDetails == nil {
			t.Error("it was not inspected")
		}
		w.sim.BMC(0).SetPower(string(ironic.PowerOff)) // by its button
		w.update(wantImage)
		w.after(10*time.Minute, "provisioned", w.in(metal3.StateProvisioned))
		w.sim.BMC(0).SetPower(string(ironic.PowerOff))
		w.after(10*time.Minute, "on again", w.isOn)
		w.sim.BMC(0).SetPower(string(ironic.PowerOff))
		w.update(func(h *metal3.BareMetalHost) { h.Spec.Image = nil })
		w.after(time.Hour, "available again", w.in(metal3.StateAvailable))
	})
}

// TestFenceOfUnknownPower: who fences a machine does not wait for a BMC that says nothing of its power.
func TestFenceOfUnknownPower(t *testing.T) {
	const fence = metal3.RebootAnnotationPrefix + "fence"
	inSimulation(t, ironicsim.Options{WithoutDefects: true}, func(t *testing.T, w *world) {
		w.provisionedHost()
		w.sim.BMC(0).SetPower("")
		w.after(2*time.Minute, "not known", func() bool { return w.host().Status.Ironic.PowerState == "" })
		if !w.host().Status.PoweredOn {
			t.Error("shown as off")
		}
		w.update(func(h *metal3.BareMetalHost) { metav1.SetMetaDataAnnotation(&h.ObjectMeta, fence, "") })
		w.after(time.Minute, "off", func() bool { return w.isOff() && !w.host().Status.PoweredOn })
		w.update(func(h *metal3.BareMetalHost) { delete(h.Annotations, fence) })
		w.after(time.Minute, "on", func() bool { return w.isOn() && w.host().Status.PoweredOn })
	})
}

// TestForgottenPowerTarget: Ironic has a power target that no conductor works on any more, and does not ask the BMC meanwhile. The machine
// gets the power that its host asks for all the same, after an hour, and what Ironic says is live again.
func TestForgottenPowerTarget(t *testing.T) {
	for name, test := range map[string]struct {
		is, recorded, target ironic.PowerState
		online               bool
	}{
		"to be on, and nobody knows, off": {is: ironic.PowerOff, recorded: ironic.PowerOn, target: ironic.PowerOff, online: true},
		"to be on, and on":                {is: ironic.PowerOn, recorded: ironic.PowerOn, target: ironic.PowerOff, online: true},
		"to be off, and on":               {is: ironic.PowerOn, recorded: ironic.PowerOff, target: ironic.PowerOn},
	} {
		t.Run(name, func(t *testing.T) {
			inSimulation(t, ironicsim.Options{WithoutDefects: true}, func(t *testing.T, w *world) {
				w.provisionedHost()
				cuts := w.sim.BMC(0).PowerCuts()
				w.setNode("power_state", string(test.recorded))
				w.setNode("target_power_state", string(test.target))
				w.sim.BMC(0).SetPower(string(test.is))
				w.update(func(h *metal3.BareMetalHost) { h.Spec.Online = test.online })
				time.Sleep(50 * time.Minute)
				if got := w.host().Status.Ironic.TargetPowerState; got != string(test.target) {
					t.Errorf("after 50 minutes, the target is %q", got)
				}
				if !test.online && !w.host().Status.PoweredOn {
					t.Error("a machine that is on is shown as off")
				}
				w.after(20*time.Minute, "as it is to be", func() bool {
					status := w.host().Status
					return w.isOn() == test.online && status.PoweredOn == test.online && status.Ironic.TargetPowerState == "" && status.ErrorMessage == ""
				})
				if n := w.sim.BMC(0).PowerCuts() - cuts; test.is == ironic.PowerOn && n > 0 == test.online {
					t.Errorf("its power was cut %d times", n)
				}
			})
		})
	}
}
