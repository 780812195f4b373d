// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
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
