// SPDX-License-Identifier: Apache-2.0

package life

import (
	"slices"
	"testing"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

const forceReboot = `{"force":true}`

// A forced reboot aborts an inspection that does not get on, and begins another.
func TestForcedRebootWhileInspecting(t *testing.T) {
	t.Parallel()
	needsInspection(t)
	h := newHost(t, faulty(bmcsim.SilentInspection), notCleaned)
	h.ironicIn(ironic.InspectWait)
	boots := len(h.machine.Boots())
	h.annotate(metal3.RebootAnnotation, forceReboot)
	h.wait("inspected anew", func(bmh *metal3.BareMetalHost) bool {
		_, asked := bmh.Annotations[metal3.RebootAnnotation]
		return !asked && len(h.machine.Boots()) > boots && bmh.Status.Ironic.ProvisionState == string(ironic.InspectWait)
	})
	h.mend(bmcsim.SilentInspection)
	h.available()
}

// A forced reboot aborts a deployment, which is begun again.
func TestForcedRebootWhileDeploying(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned)
	h.available()
	image := h.deploying()
	h.states()
	boots := len(h.machine.Boots())
	h.annotate(metal3.RebootAnnotation, forceReboot)
	// The host may be provisioning again before anybody reads it.
	h.wait("aborted", func(*metal3.BareMetalHost) bool {
		return slices.Contains(h.seenSoFar(), metal3.StateDeprovisioning) && (h.machine.Running() != bmcsim.RunningRamdisk || len(h.machine.Boots()) > boots)
	})
	image.release()
	bmh := h.provisioned()
	h.expectStates(metal3.StateProvisioning, metal3.StateDeprovisioning, metal3.StateAvailable, metal3.StateProvisioning, metal3.StateProvisioned)
	if _, asked := bmh.Annotations[metal3.RebootAnnotation]; asked || bmh.Status.ProvisioningFailCount != 0 {
		t.Errorf("annotations %v, provisioningFailCount %d", bmh.Annotations, bmh.Status.ProvisioningFailCount)
	}
	h.wrote(1)
}

// What Ironic does goes on while a host is paused; we take it up afterwards.
func TestPausedWhileDeploying(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned)
	h.available()
	image := h.deploying()
	h.annotate(metal3.PausedAnnotation, "")
	image.release()
	h.ironicIn(ironic.Active)
	h.stays(3*time.Second, "provisioning", func(bmh *metal3.BareMetalHost) bool { return bmh.Status.Provisioning.State == metal3.StateProvisioning })
	h.annotateNot(metal3.PausedAnnotation)
	h.provisioned()
	h.wrote(1)
}

// A host that is to be off is switched off when its image is written.
func TestOfflineWhileDeploying(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned)
	h.available()
	image := h.deploying()
	h.patch(`{"spec":{"online":false}}`)
	image.release()
	h.provisioned()
	h.power(bmcsim.Off)
	h.wrote(1)
}

// An annotation that asks for an inspection waits until the host is available.
func TestInspectionWaitsForImage(t *testing.T) {
	t.Parallel()
	needsInspection(t)
	h := newHost(t, notCleaned, withImage)
	h.provisioned()
	h.states()
	h.annotate(metal3.InspectAnnotation, "")
	h.stays(3*time.Second, "provisioned", func(bmh *metal3.BareMetalHost) bool { return bmh.Status.Provisioning.State == metal3.StateProvisioned })
	h.inspected(1)
	h.patch(`{"spec":{"image":null}}`)
	h.wait("inspected again", func(bmh *metal3.BareMetalHost) bool {
		_, asked := bmh.Annotations[metal3.InspectAnnotation]
		return !asked && bmh.Status.Provisioning.State == metal3.StateAvailable
	})
	h.expectStates(metal3.StateProvisioned, metal3.StateDeprovisioning, metal3.StateAvailable, metal3.StateInspecting, metal3.StatePreparing, metal3.StateAvailable)
	h.inspected(2)
}

// Other settings for the disks make an available host be prepared anew.
func TestSettingsChangedWhenAvailable(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned)
	h.available()
	h.states()
	h.patch(`{"spec":{"rootDeviceHints":{"deviceName":"/dev/nvme0n1"},"bootMode":"legacy"}}`)
	bmh := h.wait("prepared", func(bmh *metal3.BareMetalHost) bool {
		hints := bmh.Status.Provisioning.RootDeviceHints
		return hints != nil && hints.DeviceName == "/dev/nvme0n1" && bmh.Status.Provisioning.State == metal3.StateAvailable
	})
	if bmh.Status.Provisioning.BootMode != metal3.Legacy {
		t.Errorf("boot mode %q", bmh.Status.Provisioning.BootMode)
	}
	h.expectStates(metal3.StateAvailable, metal3.StatePreparing, metal3.StateAvailable)
}
