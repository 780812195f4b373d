// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/reconcile"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// otherRoom is the name of the IronicInstance of world.other.
const otherRoom = "room-b"

// twoIronics are the Ironic of the server's flags and that of another room. Hosts without a node are those of the flags.
type twoIronics []*reconcile.Member

func (twoIronics) HasSynced() bool { return true }

func (i twoIronics) Members() (members []*reconcile.Member, changed <-chan struct{}) { return i, nil }

func (twoIronics) Known() []string { return []string{"", otherRoom} }

func (twoIronics) OwnerOf(host *metal3.BareMetalHost) (name, problem string) {
	return host.Status.Record.Ironic, ""
}

func (w *world) twoRooms(ctx context.Context, hosts live.Hosts, home *reconcile.Member) twoIronics {
	client := w.other.Client
	if w.fuse != nil {
		client = w.other.Process(w.fuse.step)
	}
	refresher := live.NewRefresher(ctx, live.Deps{Ironic: otherRoom, Hosts: hosts, Nodes: client, Secrets: enginetest.NoSecret, Clock: clock.RealClock{}, Wait: enginetest.ReaderWait, Cluster: enginetest.UnknownCluster})
	return twoIronics{home, &reconcile.Member{Name: otherRoom, Ironic: client, Refresher: refresher, Settings: home.Settings}}
}

// newTwoRooms returns a world with a host in the Ironic of the flags, which another one can reach as well. The machine is
// the same: what the one has done to it is so for the other one.
func newTwoRooms(t *testing.T, want metal3.ProvisioningState) *world {
	t.Helper()
	w := newSimulatedWorld(t, ironicsim.Options{})
	w.other = enginetest.NewIronic(t, ironicsim.Options{})
	w.secret("secret")
	host := enrolled(0)
	if want == metal3.StateProvisioned {
		wantImage(host)
	}
	host.Spec.ExternallyProvisioned = want == metal3.StateExternallyProvisioned
	w.hosts.Add(host)
	w.start(0)
	w.after(5*time.Minute, "is "+string(want), w.in(want))
	w.other.BMC(0).SetPower(w.sim.BMC(0).Power())
	return w
}

func inTwoRooms(t *testing.T, want metal3.ProvisioningState, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newTwoRooms(t, want)
		defer func() { w.stop() }()
		test(t, w)
	})
}

// move requests a move as the subresource transfer does.
func (w *world) move(to string) {
	w.t.Helper()
	node := w.nodeAt(w.sim)
	if node == nil {
		w.t.Fatal("the host has no node")
	}
	w.update(func(h *metal3.BareMetalHost) {
		if err := lifecycle.RequestTransfer(h, node, to, time.Now()); err != nil {
			w.t.Fatal(err)
		}
	})
}

func (w *world) callOff() {
	w.t.Helper()
	w.update(func(h *metal3.BareMetalHost) {
		if !lifecycle.CallOffTransfer(h, time.Now()) {
			w.t.Error("the move had ended")
		}
	})
}

// nodeAt returns the node of the host in an Ironic; nil if that has none.
func (w *world) nodeAt(in *enginetest.Ironic) *ironic.Node {
	w.t.Helper()
	return in.Node(w.host().Status.Provisioning.ID)
}

// at reports whether the host is at rest with its only node in an Ironic.
func (w *world) at(room string, state metal3.ProvisioningState) func() bool {
	return func() bool {
		host := w.host()
		record := &host.Status.Record
		deployed := record.Deployment == nil || !record.Deployment.MayAdopt && host.Status.Ironic != nil && host.Status.Ironic.ProvisionState == string(ironic.Active)
		return record.Ironic == room && record.Transfer == nil && record.Hold == nil && host.Status.Ironic != nil && !host.Status.Ironic.Maintenance && deployed &&
			w.in(state)() && condition(host, metal3.RegisteredCondition) == metal3.RegisteredReason
	}
}

// machine is what has been done to the machine, in both rooms.
type machine struct {
	powerCuts, diskWrites int
	requests              string
}

func (w *world) machine() (m machine) {
	for _, in := range []*enginetest.Ironic{w.sim, w.other} {
		bmc := in.BMC(0)
		m.powerCuts += bmc.PowerCuts()
		m.diskWrites += len(bmc.DiskWrites())
		for _, request := range []string{"power on", "power off", "rebooting", "soft power off", "soft rebooting", "inspect", "clean", "provide", "active", "rebuild", "deleted", "service"} {
			m.requests += fmt.Sprintf("%s %d;", request, in.Count(request))
		}
	}
	return m
}

// expectMoved compares the host and its machine with what they were.
func (w *world) expectMoved(before *metal3.BareMetalHost, was machine, room string, in, not *enginetest.Ironic) {
	w.t.Helper()
	if is := w.machine(); is != was {
		w.t.Errorf("the machine was not left alone: %+v, before the move %+v", is, was)
	}
	id := before.Status.Provisioning.ID
	if all, others := in.Sim.NodeUUIDs(), not.Sim.NodeUUIDs(); len(all) != 1 || all[0] != id || len(others) != 0 {
		w.t.Errorf("the nodes are %v, and in the other Ironic %v", all, others)
	}
	after := w.host()
	if after.Status.Record.Ironic != room || after.Status.Provisioning.ID != id || after.Status.Provisioning.State != before.Status.Provisioning.State ||
		after.Status.PoweredOn != before.Status.PoweredOn || after.Status.HardwareDetails == nil != (before.Status.HardwareDetails == nil) {
		w.t.Errorf("the host is %+v", after.Status)
	}
	if is, was := after.Status.Record.Deployment, before.Status.Record.Deployment; was != nil {
		if is == nil || is.InstanceUUID != was.InstanceUUID || is.MayAdopt || is.Gone != nil || in.Node(id).InstanceUUID != was.InstanceUUID {
			w.t.Errorf("the deployment is %+v, was %+v", is, was)
		}
	}
}

var movable = []metal3.ProvisioningState{metal3.StateProvisioned, metal3.StateAvailable, metal3.StateExternallyProvisioned}

// TestTransfer: a host is moved to another Ironic and back, and its machine is left alone.
func TestTransfer(t *testing.T) {
	for _, state := range movable {
		t.Run(string(state), func(t *testing.T) {
			inTwoRooms(t, state, func(t *testing.T, w *world) {
				before, was := w.host(), w.machine()
				w.move(otherRoom)
				if took := w.after(time.Minute, "moved", w.at(otherRoom, state)); took > 20*time.Second {
					t.Errorf("it took %s", took)
				}
				time.Sleep(time.Minute)
				w.expectMoved(before, was, otherRoom, w.other, w.sim)

				w.sim, w.other = w.other, w.sim
				w.move("")
				w.sim, w.other = w.other, w.sim
				w.after(time.Minute, "moved back", w.at("", state))
				time.Sleep(time.Minute)
				w.expectMoved(before, was, "", w.sim, w.other)
			})
		})
	}
}

// TestTransferToSharedIronic: an Ironic that has had the nodes of another cluster only takes its first host of this one.
func TestTransferToSharedIronic(t *testing.T) {
	inTwoRooms(t, metal3.StateProvisioned, func(t *testing.T, w *world) {
		if _, err := w.other.CreateNode(t.Context(), ironic.NoFence, ironic.NodeCreate{UUID: "4e0b2fd3-6a4c-4bd2-9b19-1b3f7a3d2c77", Name: "metal3~worker-77", Driver: "ipmi"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // it is known
		w.move(otherRoom)
		w.after(time.Minute, "moved", w.at(otherRoom, metal3.StateProvisioned))
	})
}

// TestTransferKilledAnywhere kills the controller at each step of a move, before it has had its effect and after. The next process
// finishes it.
func TestTransferKilledAnywhere(t *testing.T) {
	for _, state := range movable {
		t.Run(string(state), func(t *testing.T) {
			killedAnywhere(t, func(t *testing.T, killedAt int) *world {
				w := newTwoRooms(t, state)
				before, was := w.host(), w.machine()
				w.stop()
				w.move(otherRoom)
				w.start(killedAt)
				w.after(5*time.Minute, "moved", func() bool { w.goOn(0); return w.at(otherRoom, state)() })
				time.Sleep(time.Minute)
				w.expectMoved(before, was, otherRoom, w.other, w.sim)
				w.stop()
				return w
			})
		})
	}
}

// TestTransferCalledOffAnywhere kills the controller at each step of a move, which is then called off: the host is where it was,
// or where it was to be.
func TestTransferCalledOffAnywhere(t *testing.T) {
	for n := 1; ; n++ {
		killed, stayed := false, false
		t.Run(fmt.Sprintf("at %d", n), func(t *testing.T) {
			inTwoRooms(t, metal3.StateProvisioned, func(t *testing.T, w *world) {
				before, was := w.host(), w.machine()
				w.stop()
				w.move(otherRoom)
				w.start(n)
				w.after(5*time.Minute, "killed or moved", func() bool { return w.fuse.isBurnt() || w.at(otherRoom, metal3.StateProvisioned)() })
				killed = w.fuse.isBurnt()
				w.stop()
				if stayed = w.host().Status.Record.Transfer != nil; stayed {
					w.callOff()
				}
				w.start(0)
				room, in, not := otherRoom, w.other, w.sim
				if stayed {
					room, in, not = "", w.sim, w.other
				}
				w.after(5*time.Minute, "at rest", w.at(room, metal3.StateProvisioned))
				time.Sleep(time.Minute)
				w.expectMoved(before, was, room, in, not)
			})
		})
		if !killed || !stayed {
			t.Logf("called off at %d places", n-1)
			if n < 5 {
				t.Error("there are more steps than that")
			}
			return
		}
		if n > 100 || t.Failed() {
			t.Fatal("this does not end well")
		}
	}
}

// TestTransferWaitsForDestination: as long as the other Ironic cannot take the host, it stays, and says what is the matter.
func TestTransferWaitsForDestination(t *testing.T) {
	conflicting := func(create ironic.NodeCreate, mac string) func(*world) (end func()) {
		return func(w *world) func() {
			node, err := w.other.CreateNode(w.t.Context(), ironic.NoFence, create)
			if err != nil {
				w.t.Fatal(err)
			}
			if mac != "" {
				if _, err := w.other.CreatePort(w.t.Context(), ironic.NoFence, node.UUID, mac, true); err != nil {
					w.t.Fatal(err)
				}
			}
			return func() {
				if err := w.other.DeleteNode(w.t.Context(), ironic.NoFence, node.UUID); err != nil {
					w.t.Fatal(err)
				}
			}
		}
	}
	for name, tt := range map[string]struct {
		prepare func(*world) (end func())
		says    string
	}{
		"away": {func(w *world) func() {
			w.other.SetAway(true)
			return func() { w.other.SetAway(false) }
		}, "cannot be asked"},
		"with a port of the machine": {conflicting(ironic.NodeCreate{Name: "somebodys", Driver: "ipmi"}, "00:ab:4f:d8:9e:00"), "00:ab:4f:d8:9e:00"},
		"with a node of the name":    {conflicting(ironic.NodeCreate{Name: "metal3~worker-0", Driver: "ipmi"}, ""), "metal3~worker-0"},
	} {
		t.Run(name, func(t *testing.T) {
			inTwoRooms(t, metal3.StateProvisioned, func(t *testing.T, w *world) {
				before, was := w.host(), w.machine()
				end := tt.prepare(w)
				w.move(otherRoom)
				says := func() bool {
					message := w.host().Status.ErrorMessage
					return strings.Contains(message, tt.says) && strings.Contains(message, `IronicInstance "room-b"`) && strings.Contains(message, "to call it off")
				}
				w.after(20*time.Second, "the host says why it is not moved", says)
				time.Sleep(5 * time.Minute)
				if node := w.nodeAt(w.sim); !says() || node == nil || node.Maintenance || node.ProvisionState != ironic.Active {
					t.Fatalf("the node is %+v, and the host says %q", node, w.host().Status.ErrorMessage)
				}
				end()
				w.after(time.Minute, "moved", w.at(otherRoom, metal3.StateProvisioned))
				time.Sleep(time.Minute)
				w.expectMoved(before, was, otherRoom, w.other, w.sim)
			})
		})
	}
}

// manage creates a node of the machine in an Ironic, which verifies its BMC.
func (w *world) manage(in *enginetest.Ironic, id, name string) {
	w.t.Helper()
	node, err := in.CreateNode(w.t.Context(), ironic.NoFence, ironic.NodeCreate{UUID: id, Name: name, Driver: "ipmi", DriverInfo: map[string]any{
		"ipmi_address": enginetest.BMCAddress(0), "ipmi_username": enginetest.BMCUser, "ipmi_password": enginetest.BMCPassword,
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := in.SetProvisionState(w.t.Context(), ironic.NoFence, node.UUID, ironic.TargetManage, ironic.ProvisionOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.after(time.Minute, "verified", func() bool { return in.Node(node.UUID).ProvisionState == ironic.Manageable })
}

func (w *world) heldForBMC() bool {
	hold := w.host().Status.Record.Hold
	return hold != nil && hold.Reason == metal3.BMCInUseReason
}

// TestTransferToIronicWithTheBMC: a host whose BMC another node of the other Ironic has is held, and stays where it is.
func TestTransferToIronicWithTheBMC(t *testing.T) {
	inTwoRooms(t, metal3.StateProvisioned, func(t *testing.T, w *world) {
		before, was := w.host(), w.machine()
		const id = "9a5c2a4e-2f0b-4f6a-8a52-3d7f6f0c6b11"
		w.stop() // a host that is held already cannot be moved
		w.manage(w.other, id, "somebodys")
		w.move(otherRoom)
		w.start(0)
		w.after(20*time.Second, "held", w.heldForBMC)
		time.Sleep(5 * time.Minute)
		if node := w.nodeAt(w.sim); !w.heldForBMC() || node == nil || node.Maintenance {
			t.Fatalf("the node is %+v, and the host is %+v", node, w.host().Status)
		}
		if err := w.other.DeleteNode(t.Context(), ironic.NoFence, id); err != nil {
			t.Fatal(err)
		}
		w.after(2*time.Minute, "moved", w.at(otherRoom, metal3.StateProvisioned))
		time.Sleep(time.Minute)
		w.expectMoved(before, was, otherRoom, w.other, w.sim)
	})
}

// TestTransferToIronicWithoutTheBMC: a host that was moved to an Ironic that cannot reach its BMC can be moved back.
func TestTransferToIronicWithoutTheBMC(t *testing.T) {
	for _, state := range movable {
		t.Run(string(state), func(t *testing.T) {
			inTwoRooms(t, state, func(t *testing.T, w *world) {
				before, was := w.host(), w.machine()
				w.other.BMC(0).SetDead(true)
				w.move(otherRoom)
				w.after(2*time.Minute, "registration fails there", func() bool {
					host := w.host()
					return host.Status.Record.Ironic == otherRoom && host.Status.Record.Error != nil
				})
				time.Sleep(10 * time.Minute)

				w.sim, w.other = w.other, w.sim
				w.after(5*time.Minute, "it may be moved back", func() bool {
					node := w.nodeAt(w.sim)
					return node != nil && lifecycle.RequestTransfer(w.host(), node, "", time.Now()) == nil
				})
				w.move("")
				w.sim, w.other = w.other, w.sim
				w.after(5*time.Minute, "moved back", w.at("", state))
				time.Sleep(time.Minute)
				w.expectMoved(before, was, "", w.sim, w.other)
			})
		})
	}
}

// TestTransferFromSilentIronic: the host is not in another Ironic as long as its own cannot say that its node is gone.
func TestTransferFromSilentIronic(t *testing.T) {
	inTwoRooms(t, metal3.StateProvisioned, func(t *testing.T, w *world) {
		before, was := w.host(), w.machine()
		w.stop()
		w.move(otherRoom)
		w.sim.SetLate("DeleteNode", time.Minute) // carried out, without an answer
		w.start(0)
		w.after(time.Minute, "asked to delete the node", func() bool { return w.sim.Count("DeleteNode") > 0 })
		w.sim.SetAway(true)
		time.Sleep(5 * time.Minute)
		if host := w.host(); host.Status.Record.Ironic != "" || host.Status.Record.Transfer == nil || len(w.other.Sim.NodeUUIDs()) > 0 {
			t.Errorf("moved although nobody knows of the node: %+v", host.Status.Record)
		}
		w.sim.SetLate("DeleteNode", 0)
		w.sim.SetAway(false)
		w.after(2*time.Minute, "moved", w.at(otherRoom, metal3.StateProvisioned))
		time.Sleep(time.Minute)
		w.expectMoved(before, was, otherRoom, w.other, w.sim)
	})
}

// TestNodeComesBackAfterTransfer: a backup of the former Ironic is restored, which has the node again. The host is held before
// anything is done to its machine.
func TestNodeComesBackAfterTransfer(t *testing.T) {
	inTwoRooms(t, metal3.StateProvisioned, func(t *testing.T, w *world) {
		w.move(otherRoom)
		w.after(time.Minute, "moved", w.at(otherRoom, metal3.StateProvisioned))
		time.Sleep(5 * time.Minute) // no host has its node in the former Ironic, which is looked at all the same
		host, was := w.host(), w.machine()
		w.manage(w.sim, host.Status.Provisioning.ID, lifecycle.NodeName(host))
		time.Sleep(time.Minute)
		w.update(func(h *metal3.BareMetalHost) { h.Spec.Online = false })
		w.after(time.Minute, "held", w.heldForBMC)
		w.update(func(h *metal3.BareMetalHost) { h.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
		time.Sleep(5 * time.Minute)
		if is := w.machine(); is != was {
			t.Errorf("the machine was not left alone: %+v, before %+v", is, was)
		}
	})
}
