// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// TestNothingIsRememberedOfHostsThatAreGone: hosts are created and deleted, in the middle of whatever they are at, and planned
// once more when they are gone, as a change of a DataImage or the deletion itself has them planned.
func TestNothingIsRememberedOfHostsThatAreGone(t *testing.T) {
	inSimulatedFleet(t, fleetSettings(), ironicsim.Options{}, func(t *testing.T, w *world) {
		for _, namespace := range []string{"a", "b", "c"} {
			keys := w.enrol(namespace, 40)
			time.Sleep(3 * time.Second) // of the bubble: some are registered, and others have not begun
			if len(w.remembered()) == 0 {
				t.Fatal("nothing is remembered of hosts that exist: the test is broken")
			}
			for _, key := range keys {
				w.edit(key, func(h *metal3.BareMetalHost) { h.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
				synctest.Wait() // the fake watch has room for a hundred changes
			}
			w.after(10*time.Minute, "the hosts are gone", func() bool {
				w.hosts.Mu.Lock()
				defer w.hosts.Mu.Unlock()
				return len(w.hosts.ByName) == 0
			})
			for _, key := range keys {
				w.planHost(key.Namespace, key.Name)
			}
			time.Sleep(time.Minute)
			if left := w.remembered(); len(left) > 0 {
				t.Errorf("%d hosts that are gone are remembered, such as %s", len(left), left[0])
			}
		}
	})
}
