// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/reconcile"
)

// busyIronic is an Ironic in which something happens once, just before the server looks at a node
// that it is about to interrupt.
type busyIronic struct {
	mortalIronic
	isNext  func() bool // whether the next look is that one; nil if nothing is to happen
	happens func()
}

func (b *busyIronic) GetNode(ctx context.Context, id string) (*ironic.Node, error) {
	var happens func()
	b.Change(func() {
		if b.isNext != nil && b.isNext() {
			happens, b.isNext = b.happens, nil
		}
	})
	if happens != nil {
		happens()
	}
	return b.mortalIronic.GetNode(ctx, id)
}

// inBusyWorld is inWorld with a busyIronic.
func inBusyWorld(t *testing.T, test func(t *testing.T, w *world, busy *busyIronic)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		w.fuse = &fuse{kill: cancel}
		w.secrets.fuse = w.fuse
		busy := &busyIronic{mortalIronic: mortalIronic{w.ironic, w.fuse}}
		w.run(ctx, cancel, w.hosts, busy, reconcile.Settings{BMCs: anywhere, Images: anywhere, MaxProvisioningRetries: 3, Workers: 4, PollInterval: time.Second})
		defer func() { w.stop() }()
		test(t, w, busy)
	})
}

// changeState has the node come into its state anew.
func (w *world) changeState() {
	id := w.host().Status.Provisioning.ID
	w.ironic.Change(func() { w.ironic.edit(id, func(n *ironic.Node) { n.ProvisionUpdatedAt = new(time.Now()) }) })
}

// TestReservedMeanwhile: a node that another user of Ironic has reserved since it was planned to deploy it is
// looked at anew first.
func TestReservedMeanwhile(t *testing.T) {
	inBusyWorld(t, func(t *testing.T, w *world, busy *busyIronic) {
		w.available()
		id := w.host().Status.Provisioning.ID
		busy.Change(func() {
			busy.isNext = func() bool { return w.ironic.calls["Validate"] > 0 }
			busy.happens = func() {
				w.ironic.Change(func() {
					w.ironic.registrations[id].InstanceUUID = "by-hand"
					w.ironic.edit(id, func(*ironic.Node) {})
				})
			}
		})
		w.update(wantImage)
		w.after(20*time.Second, "validated", func() bool { return w.ironic.count("Validate") > 0 })
		time.Sleep(5 * time.Minute)
		if n := w.ironic.count("active"); n != 0 {
			t.Error("what another user has reserved is deployed")
		}
		if got := w.ironic.registrations[id].InstanceUUID; got != "by-hand" {
			t.Errorf("the reservation of another user is %q now", got)
		}
		if got := condition(w.host(), metal3.HeldCondition); got != metal3.AnotherDeploymentReason {
			t.Errorf("Held is %q", got)
		}
		w.ironic.Change(func() {
			w.ironic.registrations[id].InstanceUUID = ""
			w.ironic.edit(id, func(*ironic.Node) {})
		})
		w.after(10*time.Minute, "provisioned, as it was released", w.in(metal3.StateProvisioned))
	})
}

// TestRebuiltMeanwhile: a rebuild that has been carried out is not requested once more.
func TestRebuiltMeanwhile(t *testing.T) {
	inBusyWorld(t, func(t *testing.T, w *world, busy *busyIronic) {
		w.provisionedHost()
		host := w.host()
		node, err := w.ironic.GetNode(t.Context(), host.Status.Provisioning.ID)
		if err != nil {
			t.Fatal(err)
		}
		if err := lifecycle.RequestRebuild(host, node, time.Now()); err != nil {
			t.Fatal(err)
		}
		validated := w.ironic.count("Validate")
		busy.Change(func() {
			busy.isNext = func() bool { return w.ironic.calls["Validate"] > validated }
			busy.happens = w.changeState
		})
		if _, err := w.hosts.Record(t.Context(), host); err != nil {
			t.Fatal(err)
		}
		w.after(time.Minute, "validated", func() bool { return w.ironic.count("Validate") > validated })
		w.after(time.Minute, "provisioned", w.in(metal3.StateProvisioned))
		if n := w.ironic.count("rebuild"); n != 0 {
			t.Errorf("requested %d times", n)
		}
	})
}

// TestServicedMeanwhile: a service that has been carried out is not requested once more.
func TestServicedMeanwhile(t *testing.T) {
	inBusyWorld(t, func(t *testing.T, w *world, busy *busyIronic) {
		w.provisionedWithPolicy()
		w.wantBIOS("Turbo", "off")
		isRequested := func() bool { return w.host().Status.Record.Servicing != nil }
		busy.Change(func() {
			busy.isNext = isRequested
			busy.happens = func() {
				w.ironic.Change(func() { w.ironic.bios["Turbo"] = "off" })
				w.changeState()
			}
		})
		w.reboot()
		w.after(time.Minute, "serviced", isRequested)
		time.Sleep(time.Minute)
		if got := w.services(); len(got) != 0 {
			t.Errorf("requested: %v", got)
		}
	})
}
