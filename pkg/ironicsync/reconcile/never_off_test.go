// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// TestNeverOffIsRebootedOncePerKey: a machine that is never switched off is rebooted for each annotation that would keep another one off,
// once, whoever leads, and once more when the annotation comes back.
func TestNeverOffIsRebootedOncePerKey(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.provisionedHost()
		w.update(func(h *metal3.BareMetalHost) { h.Spec.DisablePowerOff = true })
		expect := func(what string, reboots int) {
			t.Helper()
			time.Sleep(10 * time.Minute)
			if n := w.sim.Count("rebooting") + w.sim.Count("soft rebooting"); n != reboots || w.sim.Count("power off")+w.sim.Count("soft power off") > 0 {
				t.Errorf("%s: %d reboots, want %d; power-offs: %d", what, n, reboots, w.sim.Count("power off")+w.sim.Count("soft power off"))
			}
		}
		annotate := func(key, value string) {
			w.update(func(h *metal3.BareMetalHost) {
				metav1.SetMetaDataAnnotation(&h.ObjectMeta, metal3.RebootAnnotationPrefix+key, value)
			})
		}
		annotate("fence", `{"mode":"hard"}`)
		expect("one key", 1)
		w.stop()
		w.start(0)
		expect("another leader", 1)
		annotate("drain", "")
		expect("a second key", 2)
		w.update(func(h *metal3.BareMetalHost) { delete(h.Annotations, metal3.RebootAnnotationPrefix+"fence") })
		expect("the first one gone", 2)
		annotate("fence", `{"mode":"hard"}`)
		expect("back again", 3)
		w.update(func(h *metal3.BareMetalHost) { h.Annotations = nil })
		expect("both gone", 3)
		if done := w.host().Status.Record.Rebooted; len(done) > 0 {
			t.Errorf("still recorded: %v", done)
		}
	})
}

// TestFailedRebootOfNeverOff: Ironic accepts a reboot that the BMC then refuses. It is told, and followed by a hard one, once.
func TestFailedRebootOfNeverOff(t *testing.T) {
	for name, key := range map[string]string{"once": metal3.RebootAnnotation, "for a key": metal3.RebootAnnotationPrefix + "fence"} {
		t.Run(name, func(t *testing.T) {
			inSimulation(t, ironicsim.Options{Delays: ironicsim.Delays{Power: 3 * time.Second}}, func(t *testing.T, w *world) {
				w.provisionedHost()
				w.update(func(h *metal3.BareMetalHost) { h.Spec.DisablePowerOff = true })
				time.Sleep(time.Minute)
				w.failNext("power")
				w.update(func(h *metal3.BareMetalHost) { metav1.SetMetaDataAnnotation(&h.ObjectMeta, key, "") })
				w.after(time.Minute, "the failure is told", func() bool {
					return w.host().Status.ErrorType == metal3.PowerManagementError && strings.Contains(w.host().Status.ErrorMessage, failure)
				})
				w.after(5*time.Minute, "rebooted by force", func() bool { return w.sim.Count("rebooting") == 1 && w.host().Status.ErrorType == "" })
				time.Sleep(10 * time.Minute)
				if soft, hard := w.sim.Count("soft rebooting"), w.sim.Count("rebooting"); soft != 1 || hard != 1 {
					t.Errorf("%d soft reboots, %d hard ones", soft, hard)
				}
				if _, has := w.host().Annotations[metal3.RebootAnnotation]; has {
					t.Error("the annotation that asks for one reboot is still there")
				}
			})
		})
	}
}
