// SPDX-License-Identifier: Apache-2.0

package life

import (
	"testing"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

// untouched asserts that a machine which another tool installed runs on.
func (h *host) untouched() {
	h.t.Helper()
	h.wrote(0)
	if steps := h.machine.Steps(); len(steps) != 0 {
		h.t.Errorf("steps were done on the machine: %q", steps)
	}
	for _, boot := range h.machine.Boots() {
		if boot.Running != bmcsim.RunningDisk {
			h.t.Errorf("the machine booted %+v", boot)
		}
	}
}

func TestExternallyProvisioned(t *testing.T) {
	t.Parallel()
	h := newHost(t, external, runsAlready)
	bmh := h.in(metal3.StateExternallyProvisioned)
	h.expectStates(metal3.StateRegistering, metal3.StateExternallyProvisioned)
	if bmh.Status.Ironic.ProvisionState != "active" {
		h.ironicIn("active")
	}
	h.untouched()
	if boots := len(h.machine.Boots()); boots != 1 {
		t.Errorf("the machine was rebooted: it booted %d times", boots)
	}
	h.delete()
	h.gone()
	h.untouched()
	if h.machine.Power() != bmcsim.Off {
		t.Error("the machine of a deleted host is on")
	}
}

// Clearing the flag of a host with an image makes it ours as it is: from then on
// it is deprovisioned like any other.
func TestExternalTakenOver(t *testing.T) {
	t.Parallel()
	h := newHost(t, external, runsAlready, withImage)
	h.in(metal3.StateExternallyProvisioned)
	h.patch(`{"spec":{"externallyProvisioned":false}}`)
	bmh := h.provisioned()
	if bmh.Status.Provisioning.Image.URL != s.machines.FileURL(bmcsim.ImageFile) {
		t.Errorf("image is %+v", bmh.Status.Provisioning.Image)
	}
	h.stays(4*time.Second, "provisioned", func(bmh *metal3.BareMetalHost) bool { return bmh.Status.Provisioning.State == metal3.StateProvisioned })
	h.untouched()
	if boots := len(h.machine.Boots()); boots != 1 {
		t.Errorf("the machine was rebooted: it booted %d times", boots)
	}
	h.patch(`{"spec":{"image":null}}`)
	h.available()
	h.expectStates(metal3.StateRegistering, metal3.StateExternallyProvisioned, metal3.StateProvisioned, metal3.StateDeprovisioning, metal3.StateAvailable)
}

// Without an image, the machine of a host whose flag is cleared is left as it is, and the flag can be set again.
func TestExternalFlagLost(t *testing.T) {
	t.Parallel()
	h := newHost(t, external, runsAlready)
	h.in(metal3.StateExternallyProvisioned)
	h.patch(`{"spec":{"externallyProvisioned":false}}`)
	bmh := h.provisioned()
	if bmh.Status.Provisioning.Image.URL != "" {
		t.Errorf("image is %+v", bmh.Status.Provisioning.Image)
	}
	h.ironicIn("active")
	h.patch(`{"spec":{"externallyProvisioned":true}}`)
	h.in(metal3.StateExternallyProvisioned)
	h.expectStates(metal3.StateRegistering, metal3.StateExternallyProvisioned, metal3.StateProvisioned, metal3.StateExternallyProvisioned)
	if boots := len(h.machine.Boots()); boots != 1 {
		t.Errorf("the machine was rebooted: it booted %d times", boots)
	}
	h.untouched()
}

// An available host may be marked later; that alone does not reboot it.
func TestMarkedExternal(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned)
	h.available()
	boots := len(h.machine.Boots())
	h.patch(`{"spec":{"externallyProvisioned":true}}`)
	h.in(metal3.StateExternallyProvisioned)
	h.ironicIn("active")
	h.stays(4*time.Second, "externally provisioned", func(bmh *metal3.BareMetalHost) bool {
		return bmh.Status.Provisioning.State == metal3.StateExternallyProvisioned
	})
	if got := len(h.machine.Boots()); got != boots {
		t.Errorf("the machine booted %d times more", got-boots)
	}
	h.untouched()
}
