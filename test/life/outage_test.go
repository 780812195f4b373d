// SPDX-License-Identifier: Apache-2.0

package life

import (
	"context"
	"testing"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

// These tests stop Ironic or take nodes from it, and so have it for themselves:
// none of them is parallel, and those that are come later.

// ironicDown stops Ironic while during runs, and starts it again.
func (h *host) ironicDown(during func()) {
	h.t.Helper()
	if err := s.ironic.Stop(); err != nil {
		h.t.Fatal(err)
	}
	up := false
	defer func() {
		if !up { // the other tests need it
			_ = s.ironic.Start(context.WithoutCancel(h.ctx))
		}
	}()
	during()
	up = true
	if err := s.ironic.Start(h.ctx); err != nil {
		h.t.Fatal(err)
	}
}

// wipe takes all nodes from Ironic, as the loss of its database does.
func (h *host) wipe() {
	h.t.Helper()
	operator := s.ironic.Operator()
	nodes, err := operator.Nodes(h.ctx)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, node := range nodes {
		if err := operator.SetMaintenance(h.ctx, node.UUID, true, "the database is lost"); err != nil {
			h.t.Fatal(err)
		}
		if err := operator.DeleteNode(h.ctx, node.UUID); err != nil {
			h.t.Fatal(err)
		}
	}
}

// Ironic is stopped and started again at each stage of a host's life; what is under
// way goes on, or is begun again.
func TestIronicRestartedAtEachStage(t *testing.T) {
	h := newHost(t, faulty(bmcsim.RefuseConnections))
	h.failed(metal3.RegistrationError, "")
	h.ironicDown(func() { h.mend(bmcsim.RefuseConnections) })
	h.wait("registered", leftRegistering)

	if s.inspects() {
		h.fault(bmcsim.SilentInspection)
		h.ironicIn(ironic.InspectWait)
		h.ironicDown(func() {})
		h.mend(bmcsim.SilentInspection)
	}
	h.wait("available", isIn(metal3.StateAvailable))

	h.fault(bmcsim.SilentRamdisk)
	h.wantImage()
	h.ironicIn(ironic.CleanWait)
	h.ironicDown(func() {})
	h.mend(bmcsim.SilentRamdisk)
	h.patch(`{"spec":{"image":null}}`)
	h.wait("available", isIn(metal3.StateAvailable))

	image := h.deploying()
	h.ironicDown(image.release)
	h.wait("provisioned", isIn(metal3.StateProvisioned))

	h.ironicDown(func() { h.patch(`{"spec":{"image":null}}`) })
	h.wait("deprovisioning", func(bmh *metal3.BareMetalHost) bool {
		return bmh.Status.Provisioning.State == metal3.StateDeprovisioning
	})
	h.ironicDown(func() {})
	h.wait("available", isIn(metal3.StateAvailable))

	h.ironicDown(func() {
		h.delete()
		h.stays(3*time.Second, "there while Ironic is away", func(*metal3.BareMetalHost) bool { return true })
	})
	h.gone()
	if h.machine.Power() != bmcsim.Off {
		t.Error("the machine of a deleted host is on")
	}
}

// A killed Ironic leaves nodes locked, and in states that no conductor works on. 29.0.5
// forgets those that it has made their own parents, which is noticed.
func TestIronicKilledWhileDeploying(t *testing.T) {
	h := newHost(t, notInspected, notCleaned)
	h.available()
	h.wantImage()
	h.wait("Ironic deploys", func(bmh *metal3.BareMetalHost) bool {
		return bmh.Status.Ironic != nil && bmh.Status.Ironic.ProvisionState == string(ironic.Deploying)
	})
	if err := s.ironic.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.ironic.Start(h.ctx); err != nil {
		t.Fatal(err)
	}
	h.wait("provisioned", isIn(metal3.StateProvisioned))
	h.wrote(1)
}

// An undeployment that was killed is begun again, too.
func TestIronicKilledWhileUndeploying(t *testing.T) {
	h := newHost(t, withImage, notInspected, notCleaned)
	h.provisioned()
	h.fault(bmcsim.IgnorePower) // so that Ironic waits for it
	h.patch(`{"spec":{"image":null}}`)
	h.ironicIn(ironic.Deleting)
	if err := s.ironic.Kill(); err != nil {
		t.Fatal(err)
	}
	h.mend(bmcsim.IgnorePower)
	if err := s.ironic.Start(h.ctx); err != nil {
		t.Fatal(err)
	}
	h.wait("available", isIn(metal3.StateAvailable))
	h.wrote(1)
}

// An Ironic that has lost its database gets all hosts back as they are.
func TestIronicLosesItsNodes(t *testing.T) {
	h := newHost(t, withImage)
	other := newHostIn(t, h.ctx, h.ns, "worker-1", notInspected, notCleaned)
	outside := newHostIn(t, h.ctx, h.ns, "worker-2", external, runsAlready)
	bmh := h.provisioned()
	other.available()
	outside.in(metal3.StateExternallyProvisioned)
	outside.ironicIn(ironic.Active)
	boots, boots2 := len(h.machine.Boots()), len(outside.machine.Boots())
	h.states()

	h.wipe()
	id := bmh.Status.Provisioning.ID
	again := func(bmh *metal3.BareMetalHost) bool {
		return bmh.Status.Ironic != nil && bmh.Status.Ironic.ProvisionState == string(ironic.Active) && bmh.Status.ErrorMessage == ""
	}
	after := h.wait("adopted", again)
	outside.wait("adopted", again)
	other.ironicIn(ironic.Manageable) // as the node of an available host that was never provisioned
	other.available()
	h.expectStates(metal3.StateProvisioned)
	if got := after.Status.Provisioning.ID; got != id {
		t.Errorf("node %s came back as %s", id, got)
	}
	if after.Status.Provisioning.Image != bmh.Status.Provisioning.Image || s.inspects() && after.Status.HardwareDetails == nil {
		t.Errorf("image %+v, was %+v; hardware %v", after.Status.Provisioning.Image, bmh.Status.Provisioning.Image, after.Status.HardwareDetails)
	}
	h.wrote(1)
	outside.untouched()
	if got, got2 := len(h.machine.Boots()), len(outside.machine.Boots()); got != boots || got2 != boots2 {
		t.Errorf("machines that were deployed booted %d and %d times more", got-boots, got2-boots2)
	}

	// It is ours to deprovision, still.
	h.patch(`{"spec":{"image":null}}`)
	h.available()
}
