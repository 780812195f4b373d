// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"encoding/json"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// inRefusedUndeployment runs a test with a host of which the image was removed, and whose node Ironic does not undeploy, because somebody
// protects it.
func inRefusedUndeployment(t *testing.T, test func(w *world)) {
	inSimulatedFleet(t, fleetSettings(), ironicsim.Options{}, func(t *testing.T, w *world) {
		w.available()
		w.provision()
		cleanings := w.sim.Count("provide")
		w.setNode("protected", true)
		w.update(func(h *metal3.BareMetalHost) { h.Spec.Image = nil })
		w.after(time.Minute, "the undeployment is refused", func() bool {
			host := w.host()
			return host.Status.Provisioning.State == metal3.StateDeprovisioning && host.Status.ErrorMessage != ""
		})
		test(w)
		if n := w.sim.Count("provide"); n != cleanings {
			t.Errorf("cleaned %d times", n-cleanings)
		}
	})
}

// TestTakenBackAfterLoss: the image of a host is removed, and set again when its node is gone. What Ironic has refused to undeploy is adopted
// when the host was detached and attached again; if Ironic has lost the node, a person decides. The machine is not cleaned.
func TestTakenBackAfterLoss(t *testing.T) {
	t.Run("detached and attached", func(t *testing.T) {
		inRefusedUndeployment(t, func(w *world) {
			w.update(func(h *metal3.BareMetalHost) {
				metav1.SetMetaDataAnnotation(&h.ObjectMeta, metal3.DetachedAnnotation, `{"force":true}`)
			})
			w.setNode("protected", false)
			w.after(10*time.Minute, "detached", func() bool { return w.host().IsDetached() })
			w.update(wantImage)
			w.update(func(h *metal3.BareMetalHost) { delete(h.Annotations, metal3.DetachedAnnotation) })
			w.after(5*time.Minute, "provisioned again", func() bool {
				host := w.host()
				return host.Status.Provisioning.State == metal3.StateProvisioned && host.Status.Ironic != nil && host.Status.Ironic.ProvisionState == string(ironic.Active)
			})
			time.Sleep(10 * time.Minute)
			if held := w.host().Status.Record.Hold; w.sim.Count("adopt") != 1 || held != nil {
				t.Errorf("%d adoptions, held: %+v", w.sim.Count("adopt"), held)
			}
		})
	})
	t.Run("lost", func(t *testing.T) {
		inRefusedUndeployment(t, func(w *world) {
			w.sim.Sim.LoseNode(w.host().Status.Provisioning.ID)
			w.update(wantImage)
			w.after(5*time.Minute, "held", func() bool {
				held := w.host().Status.Record.Hold
				return held != nil && held.Reason == metal3.DeploymentGoneReason
			})
			time.Sleep(10 * time.Minute)
			if n := w.sim.Count("adopt"); n != 0 {
				t.Errorf("adopted %d times", n)
			}
		})
	})
}

// TestLostIsEnded: what a machine runs has ended when its host becomes available, also where Ironic has lost the deployment before it was to
// end, or while it was begun, and cleans nothing.
func TestLostIsEnded(t *testing.T) {
	for name, begin := range map[string]func(w *world){
		"a deployment": func(w *world) { w.provision() },
		"an attempt": func(w *world) {
			w.update(wantImage)
			w.after(30*time.Minute, "deploying", func() bool {
				node := w.host().Status.Ironic
				return node != nil && node.ProvisionState == string(ironic.DeployWait)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inSimulatedFleet(t, fleetSettings(), ironicsim.Options{}, func(t *testing.T, w *world) {
				w.available()
				w.update(func(h *metal3.BareMetalHost) { h.Spec.AutomatedCleaningMode = metal3.CleaningModeDisabled })
				begin(w)
				cuts := w.sim.BMC(0).PowerCuts()
				w.sim.Sim.LoseNode(w.host().Status.Provisioning.ID)
				w.update(func(h *metal3.BareMetalHost) { h.Spec.Image = nil })
				w.after(30*time.Minute, "available", func() bool { return w.host().Status.Provisioning.State == metal3.StateAvailable })
				if w.sim.BMC(0).PowerCuts() == cuts {
					t.Error("the host is available, and its machine was never switched off")
				}
			})
		})
	}
}

// TestMovedMachineRunsOn: a machine that runs is left on when its host comes with its status from another cluster, whose YAML leaves
// spec.online out, to an Ironic that does not know it.
func TestMovedMachineRunsOn(t *testing.T) {
	inSimulatedFleet(t, fleetSettings(), ironicsim.Options{}, func(t *testing.T, w *world) {
		w.sim.BMC(0).SetPower(string(ironic.PowerOn))
		w.secret("secret")
		host := enrolled(0)
		wantImage(host)
		host.Spec.Online = false
		status, err := json.Marshal(metal3.BareMetalHostStatus{
			OperationalStatus: metal3.OperationalStatusOK, PoweredOn: true,
			Provisioning: metal3.ProvisionStatus{State: metal3.StateProvisioned, Image: *host.Spec.Image},
		})
		if err != nil {
			t.Fatal(err)
		}
		host.Annotations = map[string]string{metal3.StatusAnnotation: string(status)}
		w.hosts.Add(host)
		w.after(5*time.Minute, "adopted", func() bool {
			return w.host().Status.Ironic != nil && w.host().Status.Ironic.ProvisionState == string(ironic.Active)
		})
		time.Sleep(10 * time.Minute)
		if d := w.host().Status.Record.Deployment; !w.isOn() || w.sim.BMC(0).PowerCuts() > 0 || d == nil || !d.KeepPower {
			t.Errorf("it is on: %t, after %d cuts; recorded %+v", w.isOn(), w.sim.BMC(0).PowerCuts(), d)
		}
		w.update(func(h *metal3.BareMetalHost) { h.Spec.Online = true })
		time.Sleep(time.Minute)
		w.update(func(h *metal3.BareMetalHost) { h.Spec.Online = false })
		w.after(10*time.Minute, "off when spec.online says so", w.isOff)
	})
}
