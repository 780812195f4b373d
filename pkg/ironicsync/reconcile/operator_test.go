// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/bmo"
)

// writtenByOperator is what shows in a host of which the Bare Metal Operator writes the status.
func writtenByOperator(h *metal3.BareMetalHost) {
	h.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: bmo.Name, Subresource: "status", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "metal3.io/v1alpha1", Time: &metav1.Time{Time: time.Now()},
	}}
}

// TestOperatorComesBack: while the Bare Metal Operator writes statuses, nothing is asked of Ironic, whoever leads; and when it has
// been gone for a while, the host goes on.
func TestOperatorComesBack(t *testing.T) {
	inLateWorld(t, false, func(t *testing.T, w *world, key types.NamespacedName) {
		// The process that begins watches for the end of the operator.
		lead := func() (stop func()) {
			ctx, cancel := context.WithCancel(t.Context())
			go func(watch *bmo.Watch) { _ = watch.Run(ctx) }(w.operator)
			return cancel
		}
		stop := lead()
		w.edit(key, writtenByOperator)
		held := func() bool { return condition(w.hostOf(key), metal3.HeldCondition) == metal3.OperatorRunningReason }
		w.after(time.Second, "held", held)
		asked := w.sim.Count("SetProvisionState") + w.sim.Count("SetPowerState") + w.sim.Count("UpdateNode")
		w.edit(key, setImage)
		for range 10 {
			time.Sleep(time.Minute)
			w.edit(key, writtenByOperator)
		}
		stop()
		w.another() // which has not seen the operator
		stop = lead()
		defer func() { stop() }()
		time.Sleep(2 * time.Minute)
		if now := w.sim.Count("SetProvisionState") + w.sim.Count("SetPowerState") + w.sim.Count("UpdateNode"); now > asked || !held() {
			t.Errorf("%d requests while the operator was running, held: %t", now-asked, held())
		}
		w.after(5*time.Minute, "provisioned", w.is(key, metal3.StateProvisioned))
		if held() {
			t.Error("it is still held")
		}
	})
}
