// SPDX-License-Identifier: Apache-2.0

package life

import (
	"strings"
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

// A deployment that fails is undone, and the host tells why until the next try.
func TestDeploymentFails(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected)
	h.available()
	h.states()
	h.fault(bmcsim.DeployStepFails)
	h.wantImage()
	bmh := h.undone(1)
	h.expectStates(metal3.StateAvailable, metal3.StateProvisioning, metal3.StateDeprovisioning, metal3.StateAvailable)
	if bmh.Status.ProvisioningFailCount != 1 || bmh.Status.ErrorCount != 1 || bmh.Status.OperationalStatus != metal3.OperationalStatusError {
		t.Errorf("provisioningFailCount %d, errorCount %d, operational status %q", bmh.Status.ProvisioningFailCount, bmh.Status.ErrorCount, bmh.Status.OperationalStatus)
	}
	if !strings.Contains(bmh.Status.ErrorMessage, "simulated fault deploy-step-fails") {
		t.Errorf("the error is %q", bmh.Status.ErrorMessage)
	}
	h.wrote(0)

	h.mend(bmcsim.DeployStepFails)
	h.retry()
	bmh = h.provisioned()
	h.expectStates(metal3.StateAvailable, metal3.StateProvisioning, metal3.StateProvisioned)
	h.wrote(1)
	if bmh.Status.ProvisioningFailCount != 0 || bmh.Status.ErrorCount != 0 {
		t.Errorf("provisioningFailCount %d, errorCount %d", bmh.Status.ProvisioningFailCount, bmh.Status.ErrorCount)
	}
}

// An image that is not there is replaced by one that is.
func TestImageNotFound(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned)
	h.available()
	h.wantImageAt(s.machines.FileURL("missing.raw"), s.machines.FileChecksum(bmcsim.ImageFile))
	h.failed(metal3.ProvisioningError, "missing.raw")
	h.undone(1)
	h.wantImage()
	bmh := h.wait("provisioned", isIn(metal3.StateProvisioned))
	if bmh.Status.ProvisioningFailCount != 0 || bmh.Status.Provisioning.Image.URL != s.machines.FileURL(bmcsim.ImageFile) {
		t.Errorf("provisioningFailCount %d, image %+v", bmh.Status.ProvisioningFailCount, bmh.Status.Provisioning.Image)
	}
	h.wrote(1)
}

func TestWrongChecksum(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned)
	h.available()
	h.wantImageAt(s.machines.FileURL(bmcsim.ImageFile), s.machines.FileChecksum(bmcsim.KernelFile))
	if bmh := h.undone(1); !strings.Contains(bmh.Status.ErrorMessage, "failed to verify against checksum") {
		t.Errorf("the error is %q", bmh.Status.ErrorMessage)
	}
	h.wrote(0)
	// The checksum alone is tried at once, with a new count.
	h.wantImage()
	h.wait("provisioned", isIn(metal3.StateProvisioned))
	h.wrote(1)
}

// deployedAgain waits for the next try of a deployment that failed, which has to come
// by itself and at once: without a reason for that it comes after a minute at the
// earliest.
func (h *host) deployedAgain(failed metal3.BareMetalHostStatus) {
	h.t.Helper()
	h.wait("tried again", func(bmh *metal3.BareMetalHost) bool {
		s := bmh.Status
		return s.ErrorMessage == "" || s.ErrorCount > failed.ErrorCount || s.OperationHistory.Provision.Start.After(failed.OperationHistory.Provision.Start.Time)
	})
}

// A Secret that comes late is all that the deployment waits for.
func TestUserDataMissing(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned)
	h.available()
	h.patch(`{"spec":{"userData":{"name":"late"}}}`)
	h.wantImage()
	bmh := h.failed(metal3.ProvisioningError, `Secret "late"`)
	if bmh.Status.ProvisioningFailCount != 0 || bmh.Status.Provisioning.State != metal3.StateAvailable {
		t.Errorf("%s, and provisioningFailCount is %d: nothing was tried", bmh.Status.Provisioning.State, bmh.Status.ProvisioningFailCount)
	}
	h.secret("late", map[string]string{"userData": "#cloud-config\n"})
	h.deployedAgain(bmh.Status)
	h.provisioned()
	h.wrote(1)
	if got := h.machine.ConfigDrive().UserData(); got != "#cloud-config\n" {
		t.Errorf("user data is %q", got)
	}
}

// A BMC that falls silent while an image is written makes the deployment fail, and
// undoing that, too. When it is back the host gets where it was to go.
func TestBMCSilentWhileDeploying(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned)
	h.available()
	image := h.deploying()
	h.fault(bmcsim.RefuseConnections)
	image.release()
	h.wait("shows an error", func(bmh *metal3.BareMetalHost) bool {
		return bmh.Status.OperationalStatus == metal3.OperationalStatusError
	})
	h.mend(bmcsim.RefuseConnections)
	h.wait("provisioned", isIn(metal3.StateProvisioned))
}
