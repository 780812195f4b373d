// SPDX-License-Identifier: Apache-2.0

package life

import (
	"slices"
	"strings"
	"testing"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

// A deployment that has failed as often as it may is not tried any more, until
// somebody asks for that.
func TestRetryLimit(t *testing.T) {
	t.Parallel()
	o := startOwnServer(t, "--max-provisioning-retries=2")
	h := o.newHost("worker-0", notInspected, notCleaned)
	h.available()
	h.fault(bmcsim.DeployStepFails)
	h.wantImage()
	h.undone(1)
	// The spec changes, which ends the back-off and leaves the count alone.
	h.patch(`{"spec":{"description":"second try"}}`)
	h.undone(2)
	h.states()
	boots := len(h.machine.Boots())
	h.patch(`{"spec":{"description":"no third try"}}`)
	h.stays(20*time.Second, "available", func(bmh *metal3.BareMetalHost) bool {
		return bmh.Status.Provisioning.State == metal3.StateAvailable && bmh.Status.ErrorType == metal3.ProvisioningError && bmh.Status.ProvisioningFailCount == 2
	})
	h.expectStates(metal3.StateAvailable)
	tries := slices.DeleteFunc(h.machine.Steps(), func(step string) bool { return step != "deploy write_image" })
	if ramdisks := h.ramdisksSince(boots); len(tries) != 2 || ramdisks != 0 {
		t.Errorf("the steps %q were tried, and the ramdisk was booted %d times more", tries, ramdisks)
	}

	h.mend(bmcsim.DeployStepFails)
	h.retry()
	bmh := h.wait("provisioned", isIn(metal3.StateProvisioned))
	if bmh.Status.ProvisioningFailCount != 0 || bmh.Status.ErrorCount != 0 {
		t.Errorf("provisioningFailCount %d, errorCount %d", bmh.Status.ProvisioningFailCount, bmh.Status.ErrorCount)
	}
	h.wrote(1)
}

// Ironic is asked whether it can deploy a host before it is told to, and its words
// are the host's error: here there is no ramdisk of the host's architecture.
func TestDeploymentNotPossible(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned, withImage, func(h *metal3.BareMetalHost, _ *bmcsim.Machine) { h.Spec.Architecture = "ppc64le" })
	bmh := h.failed(metal3.ProvisioningError, "Ironic cannot deploy the host")
	if !strings.Contains(bmh.Status.ErrorMessage, "deploy_kernel") {
		t.Errorf("the error is %q", bmh.Status.ErrorMessage)
	}
	if bmh.Status.Provisioning.State != metal3.StateProvisioning || bmh.Status.ProvisioningFailCount != 0 {
		t.Errorf("state %q, provisioningFailCount %d: nothing was tried", bmh.Status.Provisioning.State, bmh.Status.ProvisioningFailCount)
	}
	if ramdisks := h.ramdisksSince(0); ramdisks != 0 {
		t.Errorf("the ramdisk was booted %d times", ramdisks)
	}
	h.wrote(0)
	h.patch(`{"spec":{"architecture":"x86_64"}}`)
	h.wait("provisioned", isIn(metal3.StateProvisioned))
	h.expectStates(metal3.StateRegistering, metal3.StatePreparing, metal3.StateAvailable, metal3.StateProvisioning, metal3.StateProvisioned)
	h.wrote(1)
}

// ramdisksSince counts the boots of the ramdisk after the first n boots.
func (h *host) ramdisksSince(n int) (ramdisks int) {
	for _, boot := range h.machine.Boots()[n:] {
		if boot.Running == bmcsim.RunningRamdisk {
			ramdisks++
		}
	}
	return ramdisks
}
