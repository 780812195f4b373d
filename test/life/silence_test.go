// SPDX-License-Identifier: Apache-2.0

package life

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

// A BMC that falls silent when all is done: Ironic notices by itself, and that it
// is back, too.
func TestBMCSilentWhenDone(t *testing.T) {
	t.Parallel()
	h := newHost(t, external, runsAlready)
	h.in(metal3.StateExternallyProvisioned)
	h.ironicIn(ironic.Active)
	h.fault(bmcsim.RefuseConnections)
	bmh := h.failed(metal3.PowerManagementError, "")
	if c := meta.FindStatusCondition(bmh.Status.Conditions, metal3.ManageableCondition); c == nil || c.Reason != metal3.PowerFailureReason {
		t.Errorf("condition %+v", c)
	}
	if bmh.Status.Provisioning.State != metal3.StateExternallyProvisioned || bmh.Status.Ironic.Fault != "power failure" {
		t.Errorf("state %q, fault %q", bmh.Status.Provisioning.State, bmh.Status.Ironic.Fault)
	}
	h.mend(bmcsim.RefuseConnections)
	if bmh := h.in(metal3.StateExternallyProvisioned); bmh.Status.ErrorCount != 0 || bmh.Status.Ironic.Fault != "" {
		t.Errorf("the BMC answers, and errorCount is %d, the fault %q", bmh.Status.ErrorCount, bmh.Status.Ironic.Fault)
	}
	h.untouched()
}

// A power command to a BMC that does not answer is given again when it does.
func TestPowerCommandToSilentBMC(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned, withImage)
	h.provisioned()
	h.fault(bmcsim.RefuseConnections)
	h.patch(`{"spec":{"online":false}}`)
	h.failed(metal3.PowerManagementError, "")
	h.mend(bmcsim.RefuseConnections)
	h.wait("off", func(bmh *metal3.BareMetalHost) bool { return h.machine.Power() == bmcsim.Off })
	h.provisioned()
	h.wrote(1)
}

func TestBMCSilentWhileDeprovisioning(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned, withImage)
	h.provisioned()
	h.fault(bmcsim.RefuseConnections)
	h.patch(`{"spec":{"image":null}}`)
	h.failed(metal3.ProvisioningError, "")
	h.mend(bmcsim.RefuseConnections)
	h.wait("available", isIn(metal3.StateAvailable))
}

// Cleaning after a deployment fails, is mended and tried again.
func TestDeprovisioningFails(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, withImage)
	h.provisioned()
	h.fault(bmcsim.CleanStepFails)
	h.patch(`{"spec":{"image":null}}`)
	bmh := h.failed(metal3.ProvisioningError, "simulated fault clean-step-fails")
	if bmh.Status.Provisioning.State != metal3.StateDeprovisioning {
		t.Errorf("state %q", bmh.Status.Provisioning.State)
	}
	h.mend(bmcsim.CleanStepFails)
	h.retry()
	bmh = h.available()
	if bmh.Status.ErrorCount != 0 || bmh.Status.ProvisioningFailCount != 0 {
		t.Errorf("errorCount %d, provisioningFailCount %d", bmh.Status.ErrorCount, bmh.Status.ProvisioningFailCount)
	}
}

// A provisioned host whose Secret goes and comes back keeps its state.
func TestSecretGoneWhenProvisioned(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned, withImage)
	h.provisioned()
	h.states()
	h.patch(`{"spec":{"bmc":{"credentialsName":"later"}}}`)
	h.failed(metal3.RegistrationError, `Secret "later"`)
	h.secret("later", map[string]string{"username": h.machine.Username(), "password": h.machine.Password()})
	h.wait("mended", func(bmh *metal3.BareMetalHost) bool { return bmh.Status.ErrorMessage == "" })
	h.provisioned()
	h.expectStates(metal3.StateProvisioned)
	h.wrote(1)
}
