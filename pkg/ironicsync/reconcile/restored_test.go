// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// TestOfBackupWhileNobodyPlanned: etcd is restored to when a host was deprovisioning, and a person lets the server go on before any step was
// planned for the host, because its Ironic could not be used. Its node has gone since, so its machine may be another user's. It stays
// held whatever else holds all hosts meanwhile.
func TestOfBackupWhileNobodyPlanned(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.start(0)
		w.available()
		w.provision()
		w.update(func(h *metal3.BareMetalHost) { h.Spec.Image = nil })
		w.after(time.Minute, "deprovisioning", w.in(metal3.StateDeprovisioning))
		backup := map[types.NamespacedName]*metal3.BareMetalHost{{Namespace: enginetest.Namespace, Name: enginetest.HostName(0)}: w.host()}
		w.after(time.Hour, "available", w.in(metal3.StateAvailable))
		w.stop()
		w.sim.Sim.LoseAllNodes()
		w.hosts.Restore(backup)
		asked := func() int { return w.sim.Count("provide") + w.sim.Count("deleted") + w.sim.Count("clean") }
		before := asked()

		w.restoredAt = 2
		w.start(0)
		defer func() { w.stop() }()
		isHeld := func() bool {
			hold := w.host().Status.Record.Hold
			return hold != nil && hold.Reason == metal3.AnotherDeploymentReason
		}
		w.after(10*time.Minute, "held", isHeld)
		w.hold.Set(metal3.OperatorRunningReason, "The Bare Metal Operator is running")
		w.after(time.Minute, "held for the operator", func() bool { return w.host().Status.Record.Hold.IsOfAllHosts() })
		w.hold.Set(metal3.OperatorRunningReason, "")
		time.Sleep(10 * time.Minute)
		if host := w.host(); !isHeld() {
			t.Errorf("held because of %+v", host.Status.Record.Hold)
		}
		if n := asked() - before; n > 0 {
			t.Errorf("Ironic was asked %d times", n)
		}
	})
}

// TestRestoreIsOver: what Ironic shows of hosts after a restore ends that they are of a backup. When Ironic loses a node later,
// its host is undeployed as ever.
func TestRestoreIsOver(t *testing.T) {
	inSimulation(t, ironicsim.Options{WithoutDefects: true}, func(t *testing.T, w *world) {
		w.available()
		w.provision()
		w.stop()
		w.restoredAt = 2
		w.start(0)
		w.after(time.Minute, "not of the backup", func() bool { return w.host().Status.Record.AsOfRestore == 2 })
		w.sim.Sim.LoseAllNodes()
		w.update(func(h *metal3.BareMetalHost) { h.Spec.Image = nil })
		w.after(time.Hour, "available", w.in(metal3.StateAvailable))
	})
}
