// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

// addForeign creates a node in an Ironic, which is marked as that of a host of a cluster.
func (r *rooms) addForeign(room, name, host, cluster string) {
	r.t.Helper()
	extra := map[string]any{}
	if cluster != "" {
		extra[ironic.HostMark], extra[ironic.ClusterMark] = host, cluster
	}
	if _, err := r.sims[room].Sim.CreateNode(map[string]any{"name": name, "driver": "fake-hardware", "extra": extra}); err != nil {
		r.t.Fatal(err)
	}
}

// TestAddressLeadsToAnotherIronic: where the address of an Ironic suddenly leads to one with the nodes of others, its hosts are
// held, old ones and new ones, and go on when it leads to the right one again. An Ironic that has lost its database goes on by
// itself, and so does one that has lost one of several nodes.
func TestAddressLeadsToAnotherIronic(t *testing.T) {
	for name, tt := range map[string]struct {
		others func(r *rooms) // fills the other Ironic
		held   bool
	}{
		"of another cluster":                   {func(r *rooms) { r.addForeign("b", "metal3~worker-0", "another-uid", "another-cluster") }, true},
		"of the Bare Metal Operator elsewhere": {func(r *rooms) { r.addForeign("b", "metal3~worker-77", "", "") }, true},
		"of another IronicInstance":            {func(r *rooms) { r.hosts.Add(in("b", 7)); r.after(time.Minute, "there", r.is(7, metal3.StateAvailable)) }, true},
		"without any node":                     {func(r *rooms) {}, false},
		"with a node of an operator":           {func(r *rooms) { r.addForeign("b", "rack-7", "", "") }, false},
		"with a node of a former host":         {func(r *rooms) { r.addForeign("b", "metal3~former", "former-uid", "this-cluster") }, false},
		"with a node that confirms the address": {func(r *rooms) {
			r.addForeign("b", "rack~worker-0", "another-uid", "another-cluster")
			r.addForeign("b", "metal3~worker-1", "", "")
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			inRooms(t, func(t *testing.T, r *rooms) {
				for i := range 2 {
					r.hosts.Add(in("", i))
				}
				for i := range 2 {
					r.after(time.Minute, "available", r.is(i, metal3.StateAvailable))
				}
				r.hosts.Edit(t, enginetest.HostName(0), wantImage)
				r.after(time.Minute, "provisioned", r.is(0, metal3.StateProvisioned))
				tt.others(r)
				r.disuse("b")
				here, there := r.sims[""], r.sims["b"]
				created := there.Count("CreateNode")
				lead := func(to *enginetest.Ironic) {
					r.mu.Lock()
					r.sims[""] = to
					r.mu.Unlock()
					r.use("")
				}
				lead(there)
				if !tt.held {
					t.Logf("registered again after %s", r.after(30*time.Second, "registered again", func() bool { return there.Count("CreateNode")-created >= 1 }))
					if name != "with a node that confirms the address" {
						r.after(time.Minute, "provisioned again", r.is(0, metal3.StateProvisioned))
					}
					return
				}
				held := func(i int) func() bool {
					return func() bool { return condition(r.at(i), metal3.HeldCondition) == metal3.AnotherIronicReason }
				}
				r.after(10*time.Second, "held", held(0))
				r.hosts.Add(in("", 2))
				r.hosts.Remove(t, enginetest.HostName(1))
				r.after(30*time.Second, "held, though it is new", held(2))
				r.after(30*time.Second, "held, though it is to be deleted", held(1))
				time.Sleep(5 * time.Minute)
				for _, call := range []string{"CreateNode", "UpdateNode", "DeleteNode", "manage"} {
					if n := there.Count(call); call == "CreateNode" && n != created || call == "DeleteNode" && n != 0 {
						t.Errorf("%s was requested of the other Ironic: %d times", call, n)
					}
				}
				lead(here)
				r.after(time.Minute, "available in the right one", r.is(2, metal3.StateAvailable))
				r.after(time.Minute, "deleted", r.isGone(1))
				r.after(time.Minute, "provisioned, and not held", func() bool {
					return r.is(0, metal3.StateProvisioned)() && conditionOf(r.at(0), metal3.HeldCondition).Status != "True"
				})
				if n := here.Count("active"); n != 1 {
					t.Errorf("deployed %d times", n)
				}
			}, "b")
		})
	}
}

// TestDeletedInSharedIronic: the only host of an Ironic that another cluster uses, too, is deleted, attached or detached. Its node is
// missing because the server has removed it.
func TestDeletedInSharedIronic(t *testing.T) {
	for _, annotation := range []string{"", metal3.DetachedAnnotation} {
		t.Run(annotation, func(t *testing.T) {
			inRooms(t, func(t *testing.T, r *rooms) {
				r.hosts.Add(in("", 0))
				r.after(time.Minute, "available", r.is(0, metal3.StateAvailable))
				r.addForeign("", "metal3~worker-77", "another-uid", "another-cluster")
				time.Sleep(time.Minute) // it is known
				name := enginetest.HostName(0)
				if annotation != "" {
					r.hosts.Edit(t, name, func(h *metal3.BareMetalHost) { metav1.SetMetaDataAnnotation(&h.ObjectMeta, annotation, "") })
				}
				r.hosts.Remove(t, name)
				r.after(time.Minute, "gone", r.isGone(0))
			})
		})
	}
}

// TestAnotherDriverInSharedIronic: the node of the only host is created again with another driver, after its user has corrected the
// address of the BMC.
func TestAnotherDriverInSharedIronic(t *testing.T) {
	inRooms(t, func(t *testing.T, r *rooms) {
		host := in("", 0)
		right := host.Spec.BMC.Address
		host.Spec.BMC.Address = "redfish://192.0.2.9/redfish/v1/Systems/1"
		r.hosts.Add(host)
		r.after(2*time.Minute, "not reached", func() bool { return r.at(0).Status.ErrorType == metal3.RegistrationError })
		r.addForeign("", "metal3~worker-77", "another-uid", "another-cluster")
		time.Sleep(time.Minute) // it is known
		r.hosts.Edit(t, host.Name, func(h *metal3.BareMetalHost) { h.Spec.BMC.Address = right })
		r.after(2*time.Minute, "available", r.is(0, metal3.StateAvailable))
	})
}

// TestAttachedInSharedIronic: the only host of an Ironic that another cluster uses, too, is detached and attached. Its node is
// missing because the server has removed it.
func TestAttachedInSharedIronic(t *testing.T) {
	inRooms(t, func(t *testing.T, r *rooms) {
		r.hosts.Add(in("", 0))
		r.after(time.Minute, "available", r.is(0, metal3.StateAvailable))
		r.addForeign("", "metal3~worker-77", "another-uid", "another-cluster")
		name := enginetest.HostName(0)
		r.hosts.Edit(t, name, func(h *metal3.BareMetalHost) {
			metav1.SetMetaDataAnnotation(&h.ObjectMeta, metal3.DetachedAnnotation, "")
		})
		r.after(time.Minute, "detached", func() bool { return r.at(0).Status.OperationalStatus == metal3.OperationalStatusDetached })
		time.Sleep(time.Minute)
		r.hosts.Edit(t, name, func(h *metal3.BareMetalHost) { delete(h.Annotations, metal3.DetachedAnnotation) })
		r.after(time.Minute, "registered again", func() bool {
			return r.is(0, metal3.StateAvailable)() && condition(r.at(0), metal3.RegisteredCondition) == metal3.RegisteredReason && condition(r.at(0), metal3.HeldCondition) != metal3.AnotherIronicReason
		})
	})
}

// TestAddressLeadsElsewhereUnnoticed: the same without another Member, as when a name leads to another address. What was
// known of the nodes before does not count.
func TestAddressLeadsElsewhereUnnoticed(t *testing.T) {
	inRooms(t, func(t *testing.T, r *rooms) {
		for i := range 3 {
			r.hosts.Add(in("", i))
		}
		for i := range 3 {
			r.after(time.Minute, "available", r.is(i, metal3.StateAvailable))
		}
		time.Sleep(time.Minute)
		r.sims[""].Sim.LoseAllNodes()
		r.addForeign("", "metal3~worker-0", "another-uid", "another-cluster")
		created := r.sims[""].Count("CreateNode")
		// A change of the first host has it looked at before all nodes are.
		r.hosts.Edit(t, enginetest.HostName(0), func(h *metal3.BareMetalHost) { h.Spec.Online = false })
		r.after(time.Minute, "held", func() bool {
			for i := range 3 {
				if condition(r.at(i), metal3.HeldCondition) != metal3.AnotherIronicReason {
					return false
				}
			}
			return true
		})
		if more := r.sims[""].Count("CreateNode") - created; more != 0 {
			t.Errorf("%d nodes were created", more)
		}
	})
}

// TestDeletedWhileAddressLeadsElsewhere: a host that is deleted or detached while its Ironic is away does not go when the address leads to
// another Ironic, before that one's nodes are known; nor does one that is to be moved. Its machine and its node are left in its own.
func TestDeletedWhileAddressLeadsElsewhere(t *testing.T) {
	inRooms(t, func(t *testing.T, r *rooms) {
		host := in("", 0)
		host.Spec.ExternallyProvisioned = true
		r.hosts.Add(host)
		for i := 1; i <= 3; i++ {
			r.hosts.Add(in("", i))
		}
		r.after(time.Minute, "externally provisioned", r.is(0, metal3.StateExternallyProvisioned))
		for i := 1; i <= 3; i++ {
			r.after(time.Minute, "available", r.is(i, metal3.StateAvailable))
		}
		r.addForeign("b", "metal3~worker-77", "another-uid", "another-cluster")
		here, there := r.sims[""], r.sims["b"]
		here.SetAway(true)
		r.hosts.Remove(t, enginetest.HostName(0))
		r.hosts.Remove(t, enginetest.HostName(1))
		r.hosts.Edit(t, enginetest.HostName(2), func(h *metal3.BareMetalHost) {
			metav1.SetMetaDataAnnotation(&h.ObjectMeta, metal3.DetachedAnnotation, "")
		})
		r.hosts.EditStatus(t, enginetest.HostName(3), func(h *metal3.BareMetalHost) { h.Status.Record.Transfer = &metal3.Transfer{To: "b"} })
		time.Sleep(5 * time.Minute)
		there.Refuse("ListNodes", 500, "Internal error")
		r.mu.Lock()
		r.sims[""] = there
		r.mu.Unlock()
		r.use("")
		stay := func() {
			t.Helper()
			for i := range 2 {
				if r.isGone(i)() {
					t.Fatalf("host %d is gone", i)
				}
			}
			if status := r.at(2).Status; status.OperationalStatus == metal3.OperationalStatusDetached {
				t.Fatal("it is said to be detached")
			}
			if record := r.at(3).Status.Record; record.Transfer == nil {
				t.Fatal("it is said to have been moved")
			}
		}
		for range 60 {
			time.Sleep(time.Second)
			stay()
		}
		there.Accept("ListNodes")
		for i := range 2 {
			r.after(time.Minute, "held", func() bool { return condition(r.at(i), metal3.HeldCondition) == metal3.AnotherIronicReason })
		}
		if r.isGone(0)() || r.isGone(1)() {
			t.Error("a host is gone")
		}
	}, "b")
}
