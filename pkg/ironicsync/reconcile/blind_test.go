// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// addTheirs has somebody create another node with the BMC of the host, which nothing manages.
func (w *world) addTheirs() {
	w.ironic.Change(func() {
		now := time.Now()
		w.ironic.registrations["theirs"] = &ironic.Registration{DriverInfo: map[string]any{"ipmi_address": "192.168.111.1"}}
		w.ironic.ByID["theirs"] = ironic.Node{UUID: "theirs", Name: "theirs", ProvisionState: ironic.Manageable, UpdatedAt: &now}
		w.ironic.edit("theirs", func(*ironic.Node) {})
	})
}

// TestNewLeaderIsBlind: a host is held because Ironic has another node with its BMC. A new leader, which cannot
// read which nodes there are yet, does not take that for the end of the other node.
func TestNewLeaderIsBlind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start(0)
		defer func() { w.stop() }()
		w.provisionedHost()
		w.addTheirs()
		isHeld := func() bool { return condition(w.host(), metal3.HeldCondition) == metal3.BMCInUseReason }
		time.Sleep(5 * time.Second) // polls have read it
		w.update(func(h *metal3.BareMetalHost) { h.Spec.Image = nil })
		w.after(20*time.Second, "held", isHeld)

		w.stop()
		w.ironic.Change(func() { w.ironic.refuse["ListNodes"] = apiError(500, "Internal error") })
		w.start(0)
		for range 60 {
			time.Sleep(time.Second)
			if !isHeld() {
				t.Fatal("the host is not held any more, and nobody knows which nodes there are")
			}
		}
		w.ironic.Change(func() { delete(w.ironic.refuse, "ListNodes") })
		time.Sleep(time.Minute)
		if n := w.ironic.count("deleted"); n != 0 || !isHeld() {
			t.Errorf("the node was undeployed %d times, held: %v", n, isHeld())
		}

		w.ironic.Change(func() { delete(w.ironic.registrations, "theirs"); delete(w.ironic.ByID, "theirs") })
		w.after(2*time.Minute, "available, as the other node is gone", w.in(metal3.StateAvailable))
	})
}

// TestHeldHostLeavesBMCAlone: a host that is held is switched on all the same. If its BMC refuses that, it is left alone for longer and
// longer, although the host shows why it is held instead: BMCs lock the account of who asks again and again.
func TestHeldHostLeavesBMCAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start(0)
		defer func() { w.stop() }()
		w.provisionedHost()
		w.addTheirs()
		time.Sleep(5 * time.Second) // polls have read it
		w.ironic.Change(func() {
			w.ironic.powerFails = "Failed to change power state to 'power on'. Error: Redfish connection failed for node n: HTTP GET https://bmc/redfish/v1/Systems/1 returned code 401"
		})
		before := w.ironic.count("power on")
		w.editNode(func(n *ironic.Node) { n.PowerState = ironic.PowerOff })
		w.after(20*time.Second, "held", func() bool { return condition(w.host(), metal3.HeldCondition) == metal3.BMCInUseReason })
		time.Sleep(time.Hour)
		if n := w.ironic.count("power on") - before; n < 5 || n > 12 {
			t.Errorf("asked %d times in an hour, want some after pauses of 1 to 16 minutes", n)
		}
		w.ironic.Change(func() { w.ironic.powerFails = "" })
		w.after(20*time.Minute, "switched on", func() bool { return w.host().Status.PoweredOn })
	})
}

// TestSlowListIsTold: a host that waits because a new leader has not read all nodes yet says so, and goes on when they are read.
func TestSlowListIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start(0)
		defer func() { w.stop() }()
		w.provisionedHost()
		w.stop()
		w.ironic.Change(func() { w.ironic.Bulk = func() time.Duration { return 55 * time.Second } })
		w.start(0)
		w.update(func(h *metal3.BareMetalHost) { h.Spec.Image = nil })
		w.after(30*time.Second, "it says what it waits for", func() bool {
			return condition(w.host(), metal3.StepFailedCondition) == metal3.RequestFailedReason && strings.Contains(w.host().Status.ErrorMessage, "list Ironic's nodes")
		})
		if n := w.ironic.count("deleted"); n != 0 {
			t.Error("undeployed before the other nodes are known")
		}
		w.ironic.Change(func() { w.ironic.Bulk = nil })
		w.after(2*time.Minute, "available, as no other node has its BMC", w.in(metal3.StateAvailable))
		if s := w.host().Status; s.ErrorMessage != "" || condition(w.host(), metal3.StepFailedCondition) != "" {
			t.Errorf("the error stays: %s", s.ErrorMessage)
		}
	})
}

// TestNodeThatIronicCannotShow: who watches the host of a node that Ironic cannot show is told, and nothing happens to its machine.
func TestNodeThatIronicCannotShow(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.secret("secret")
		w.hosts.Add(enrolled(0))
		w.after(20*time.Second, "available", w.in(metal3.StateAvailable))
		id := w.host().Status.Provisioning.ID
		w.ironic.Change(func() { w.ironic.Unreadable = map[string]bool{id: true} })
		w.after(2*time.Minute, "the host says so", func() bool {
			c := meta.FindStatusCondition(w.host().Status.Conditions, metal3.IronicReachableCondition)
			return c != nil && c.Status == metav1.ConditionFalse && strings.Contains(c.Message, "reading the node of this host fails: HTTP 500")
		})
		time.Sleep(10 * time.Minute)
		if host := w.host(); host.Status.Provisioning.ID != id || host.Status.Provisioning.State != metal3.StateAvailable || condition(host, metal3.RegisteredCondition) != metal3.RegisteredReason {
			t.Errorf("the host is %+v", host.Status)
		}
		w.ironic.Change(func() { w.ironic.Unreadable = nil })
		w.after(time.Minute, "it is read again", func() bool {
			return meta.IsStatusConditionTrue(w.host().Status.Conditions, metal3.IronicReachableCondition)
		})
	})
}

func (w *world) editNode(change func(*ironic.Node)) {
	w.ironic.Change(func() { w.ironic.edit(w.host().Status.Provisioning.ID, change) })
}
