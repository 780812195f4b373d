// SPDX-License-Identifier: Apache-2.0

package life

import (
	"testing"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

const (
	forceDetach = `{"force":true}`
	delayDetach = `{"deleteAction":"delay"}`
)

// detached waits until a host is out of Ironic, in the state that it had.
func (h *host) detached(state metal3.ProvisioningState) {
	h.t.Helper()
	h.wait("detached", func(bmh *metal3.BareMetalHost) bool {
		return bmh.Status.OperationalStatus == metal3.OperationalStatusDetached && bmh.Status.Provisioning.State == state
	})
	h.nodeGone()
}

func (h *host) nodeGone() {
	h.t.Helper()
	if _, err := s.ironic.Operator().Node(h.ctx, h.ns+"~"+h.name); !testbed.IsNotFound(err) {
		h.t.Errorf("Ironic still has its node: %v", err)
	}
}

// A detached host is left alone by Ironic and by us, and comes back as it was.
func TestDetach(t *testing.T) {
	t.Parallel()
	h := newHost(t, withImage)
	before := h.provisioned()
	boots := len(h.machine.Boots())
	h.states()
	h.annotate(metal3.DetachedAnnotation, "")
	h.detached(metal3.StateProvisioned)
	h.patch(`{"spec":{"online":false}}`)
	h.stays(4*time.Second, "detached", func(bmh *metal3.BareMetalHost) bool {
		return bmh.Status.OperationalStatus == metal3.OperationalStatusDetached && h.machine.Power() == bmcsim.On
	})
	h.nodeGone()
	if after := h.get(); s.inspects() && after.Status.HardwareDetails == nil || after.Status.Provisioning.Image != before.Status.Provisioning.Image || !after.Status.PoweredOn {
		t.Errorf("the status was not kept: %+v", after.Status)
	}
	h.patch(`{"spec":{"online":true}}`)
	h.annotateNot(metal3.DetachedAnnotation)
	h.ironicIn(ironic.Active)
	after := h.provisioned()
	h.expectStates(metal3.StateProvisioned)
	if after.Status.OperationalStatus != metal3.OperationalStatusOK {
		t.Errorf("operational status %q", after.Status.OperationalStatus)
	}
	h.tells("Normal Detached", "Normal Attached")
	h.wrote(1)
	if got := len(h.machine.Boots()); got != boots {
		t.Errorf("the machine booted %d times more", got-boots)
	}
	h.patch(`{"spec":{"image":null}}`)
	h.available()
}

func TestDetachWhenAvailable(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected)
	h.available()
	h.states()
	h.annotate(metal3.DetachedAnnotation, "true")
	h.detached(metal3.StateAvailable)
	h.annotateNot(metal3.DetachedAnnotation)
	h.ironicIn(ironic.Manageable) // which the node of an available host is until it is provisioned
	h.available()
}

// Detaching waits for what is under way; with force it does not, and what was
// under way is begun again afterwards.
func TestDetachWhileDeploying(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned)
	h.available()
	image := h.deploying()
	h.annotate(metal3.DetachedAnnotation, "")
	h.stays(3*time.Second, "deployed on", func(bmh *metal3.BareMetalHost) bool {
		return bmh.Status.Provisioning.State == metal3.StateProvisioning && bmh.Status.OperationalStatus == metal3.OperationalStatusOK
	})
	h.annotate(metal3.DetachedAnnotation, forceDetach)
	h.detached(metal3.StateProvisioning)
	image.release()
	h.annotateNot(metal3.DetachedAnnotation)
	h.provisioned()
}

func TestDeleteDetached(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, withImage)
	h.provisioned()
	boots := len(h.machine.Boots())
	h.annotate(metal3.DetachedAnnotation, "")
	h.detached(metal3.StateProvisioned)
	h.delete()
	h.gone()
	if h.machine.Power() != bmcsim.On || len(h.machine.Boots()) != boots {
		t.Errorf("the machine of a detached host was touched: %+v", h.machine.PowerHistory())
	}
}

// With deleteAction delay the deletion waits until the host is attached again, and
// then deprovisions it.
func TestDeleteDetachedDelayed(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, withImage)
	h.provisioned()
	h.annotate(metal3.DetachedAnnotation, delayDetach)
	h.detached(metal3.StateProvisioned)
	h.delete()
	h.stays(4*time.Second, "kept", func(bmh *metal3.BareMetalHost) bool {
		return bmh.DeletionTimestamp != nil && bmh.Status.OperationalStatus == metal3.OperationalStatusDetached && h.machine.Power() == bmcsim.On
	})
	steps := len(h.machine.Steps())
	h.annotateNot(metal3.DetachedAnnotation)
	h.isGone()
	if len(h.machine.Steps()) == steps {
		t.Error("the disks of the deleted host were not cleaned")
	}
}
