// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// addTheirs has somebody create another node with the BMC of the host, which nothing manages.
func (w *world) addTheirs() (id string) {
	w.t.Helper()
	ours, _ := w.sim.Sim.Node(w.host().Status.Provisioning.ID)
	return w.addNode(map[string]any{"name": "theirs", "driver": ours["driver"], "driver_info": ours["driver_info"]})
}

// addNode has somebody create a node in Ironic, of which the BMC is verified.
func (w *world) addNode(fields map[string]any) (id string) {
	w.t.Helper()
	id, err := w.sim.Sim.CreateNode(fields)
	if err == nil {
		err = w.sim.Sim.SetNode(id, map[string]any{"provision_state": string(ironic.Manageable)})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

// TestNewLeaderIsBlind: a host is held because Ironic has another node with its BMC. A new leader, which cannot
// read which nodes there are yet, does not take that for the end of the other node.
func TestNewLeaderIsBlind(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.provisionedHost()
		theirs := w.addTheirs()
		isHeld := func() bool { return condition(w.host(), metal3.HeldCondition) == metal3.BMCInUseReason }
		time.Sleep(5 * time.Second) // polls have read it
		w.update(func(h *metal3.BareMetalHost) { h.Spec.Image = nil })
		w.after(20*time.Second, "held", isHeld)

		w.stop()
		w.sim.Refuse("ListNodes", 500, "Internal error")
		w.start(0)
		for range 60 {
			time.Sleep(time.Second)
			if !isHeld() {
				t.Fatal("the host is not held any more, and nobody knows which nodes there are")
			}
		}
		w.sim.Accept("ListNodes")
		time.Sleep(time.Minute)
		if n := w.sim.Count("deleted"); n != 0 || !isHeld() {
			t.Errorf("the node was undeployed %d times, held: %v", n, isHeld())
		}

		if err := w.sim.Sim.LoseNode(theirs); err != nil {
			t.Fatal(err)
		}
		w.after(2*time.Minute, "available, as the other node is gone", w.in(metal3.StateAvailable))
	})
}

// TestHeldHostLeavesBMCAlone: a host that is held is switched on all the same. If its BMC refuses that, it is left alone for longer and
// longer, although the host shows why it is held instead: BMCs lock the account of who asks again and again.
func TestHeldHostLeavesBMCAlone(t *testing.T) {
	inSimulation(t, ironicsim.Options{PowerSyncInterval: -1}, func(t *testing.T, w *world) {
		w.provisionedHost(redfishHost())
		w.addTheirs()
		time.Sleep(5 * time.Second) // polls have read it
		w.sim.Sim.AddBMC(enginetest.BMCAddress(0), enginetest.BMCUser, "another")
		before := w.sim.Count("power on")
		w.sim.BMC(0).SetPower(string(ironic.PowerOff))
		w.setNode("power_state", string(ironic.PowerOff))
		w.after(20*time.Second, "held", func() bool { return condition(w.host(), metal3.HeldCondition) == metal3.BMCInUseReason })
		time.Sleep(time.Hour)
		if n := w.sim.Count("power on") - before; n < 5 || n > 12 {
			t.Errorf("asked %d times in an hour, want some after pauses of 1 to 16 minutes", n)
		}
		w.sim.Sim.AddBMC(enginetest.BMCAddress(0), enginetest.BMCUser, enginetest.BMCPassword)
		w.after(20*time.Minute, "switched on", func() bool { return w.host().Status.PoweredOn })
	})
}

// TestSlowListIsTold: a host that waits because a new leader has not read all nodes yet says so, and goes on when they are read.
func TestSlowListIsTold(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.provisionedHost()
		w.stop()
		w.sim.Sim.SetFaults(ironicsim.Faults{LatencyPerNode: 55 * time.Second})
		w.start(0)
		w.update(func(h *metal3.BareMetalHost) { h.Spec.Image = nil })
		w.after(30*time.Second, "it says what it waits for", func() bool {
			return condition(w.host(), metal3.StepFailedCondition) == metal3.RequestFailedReason && strings.Contains(w.host().Status.ErrorMessage, "list Ironic's nodes")
		})
		if n := w.sim.Count("deleted"); n != 0 {
			t.Error("undeployed before the other nodes are known")
		}
		w.sim.Sim.SetFaults(ironicsim.Faults{})
		w.after(2*time.Minute, "available, as no other node has its BMC", w.in(metal3.StateAvailable))
		if s := w.host().Status; s.ErrorMessage != "" || condition(w.host(), metal3.StepFailedCondition) != "" {
			t.Errorf("the error stays: %s", s.ErrorMessage)
		}
	})
}

// TestNodeThatIronicCannotShow: who watches the host of a node that Ironic cannot show is told, and nothing happens to its machine.
func TestNodeThatIronicCannotShow(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.secret("secret")
		w.hosts.Add(enrolled(0))
		w.after(30*time.Second, "available", w.in(metal3.StateAvailable))
		id := w.host().Status.Provisioning.ID
		w.sim.Sim.SetFaults(ironicsim.Faults{Unreadable: []string{id}})
		w.after(2*time.Minute, "the host says so", func() bool {
			c := meta.FindStatusCondition(w.host().Status.Conditions, metal3.IronicReachableCondition)
			return c != nil && c.Status == metav1.ConditionFalse && c.Reason == metal3.NodeUnreadableReason && strings.HasSuffix(c.Message, ": HTTP 500")
		})
		w.sim.SetAway(true)
		w.after(2*time.Minute, "it says that Ironic is away", func() bool { return condition(w.host(), metal3.IronicReachableCondition) == metal3.UnreachableReason })
		w.sim.SetAway(false)
		w.after(2*time.Minute, "it says again that its node is not shown", func() bool {
			return condition(w.host(), metal3.IronicReachableCondition) == metal3.NodeUnreadableReason
		})
		time.Sleep(10 * time.Minute)
		if host := w.host(); host.Status.Provisioning.ID != id || host.Status.Provisioning.State != metal3.StateAvailable || condition(host, metal3.RegisteredCondition) != metal3.RegisteredReason {
			t.Errorf("the host is %+v", host.Status)
		}
		w.sim.Sim.SetFaults(ironicsim.Faults{})
		w.after(time.Minute, "it is read again", func() bool {
			return meta.IsStatusConditionTrue(w.host().Status.Conditions, metal3.IronicReachableCondition)
		})
	})
}
