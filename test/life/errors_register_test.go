// SPDX-License-Identifier: Apache-2.0

package life

import (
	"strings"
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

// leftRegistering reports whether the BMC was verified.
func leftRegistering(bmh *metal3.BareMetalHost) bool {
	return bmh.Status.Provisioning.State != metal3.StateRegistering && bmh.Status.ErrorMessage == ""
}

// triedAgain waits for the next try of a registration that failed, which has to come
// at once: without a reason for that it comes after 16 s at the earliest. How long
// the try takes is Ironic's affair.
func (h *host) triedAgain() {
	h.t.Helper()
	h.wait("tried again", func(bmh *metal3.BareMetalHost) bool {
		return leftRegistering(bmh) || bmh.Status.Ironic != nil && bmh.Status.Ironic.ProvisionState != string(ironic.Enroll)
	})
	h.wait("registered", leftRegistering)
}

// A Secret that is missing, then wrong, then right: each is told, none of it needs
// more than the change itself.
func TestPasswordMended(t *testing.T) {
	t.Parallel()
	h := newHost(t, withSecret("mine"))
	h.failed(metal3.RegistrationError, `Secret "mine"`)

	h.secret("mine", map[string]string{"username": h.machine.Username(), "password": "not-the-password"})
	bmh := h.wait("shows that the password is wrong", func(bmh *metal3.BareMetalHost) bool {
		return bmh.Status.ErrorType == metal3.RegistrationError && !strings.Contains(bmh.Status.ErrorMessage, `Secret "mine"`)
	})
	if strings.Contains(bmh.Status.ErrorMessage, "not-the-password") || bmh.Status.Provisioning.State != metal3.StateRegistering {
		t.Errorf("in state %q the error is %q", bmh.Status.Provisioning.State, bmh.Status.ErrorMessage)
	}
	if good := bmh.Status.GoodCredentials.Reference; good != nil {
		t.Errorf("wrong credentials count as good: %+v", good)
	}

	h.patchSecret("mine", map[string]string{"password": h.machine.Password()})
	h.triedAgain()
	bmh = h.available()
	if good := bmh.Status.GoodCredentials; good.Reference == nil || good.Reference.Name != "mine" || good.Version != bmh.Status.TriedCredentials.Version {
		t.Errorf("good credentials are %+v, tried %+v", good, bmh.Status.TriedCredentials)
	}
	if bmh.Status.ErrorCount != 0 {
		t.Errorf("errorCount is %d", bmh.Status.ErrorCount)
	}
}

// A BMC that does not answer is tried again all the time: it may be back at any moment.
func TestBMCSilentWhileRegistering(t *testing.T) {
	t.Parallel()
	for _, fault := range []bmcsim.Fault{bmcsim.RefuseConnections, bmcsim.HangConnections} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			needsTimeouts(t, fault)
			h := newHost(t, faulty(fault), notInspected, notCleaned)
			bmh := h.failed(metal3.RegistrationError, "")
			if !strings.Contains(bmh.Status.ErrorMessage, strings.TrimPrefix(h.machine.URL(), "http://")) {
				t.Errorf("the error does not name the BMC: %q", bmh.Status.ErrorMessage)
			}
			h.mend(fault)
			h.wait("registered", leftRegistering)
			h.available()
		})
	}
}

func TestBMCSilentWhileInspecting(t *testing.T) {
	t.Parallel()
	needsInspection(t)
	h := newHost(t, faulty(bmcsim.SilentInspection))
	h.ironicIn(ironic.InspectWait)
	h.fault(bmcsim.RefuseConnections)
	h.mend(bmcsim.SilentInspection)
	h.wait("shows an error", func(bmh *metal3.BareMetalHost) bool {
		return bmh.Status.OperationalStatus == metal3.OperationalStatusError
	})
	h.mend(bmcsim.RefuseConnections)
	bmh := h.wait("available", isIn(metal3.StateAvailable))
	if bmh.Status.HardwareDetails == nil {
		t.Error("the host became available without an inventory")
	}
}

// An inspection that fails is told in the words of the ramdisk, and is tried again
// when somebody asks for that.
func TestInspectionFails(t *testing.T) {
	t.Parallel()
	needsInspection(t)
	h := newHost(t, faulty(bmcsim.InspectionFails))
	bmh := h.failed(metal3.InspectionError, "simulated fault inspection-fails")
	if bmh.Status.Provisioning.State != metal3.StateInspecting || bmh.Status.ErrorCount != 1 {
		t.Errorf("state %q, errorCount %d", bmh.Status.Provisioning.State, bmh.Status.ErrorCount)
	}
	h.mend(bmcsim.InspectionFails)
	h.retry()
	h.wait("is inspected again", func(bmh *metal3.BareMetalHost) bool { return bmh.Status.ErrorMessage == "" })
	bmh = h.available()
	if bmh.Status.HardwareDetails == nil || bmh.Status.ErrorCount != 0 {
		t.Errorf("hardware %v, errorCount %d", bmh.Status.HardwareDetails, bmh.Status.ErrorCount)
	}
}

func TestCleaningFails(t *testing.T) {
	t.Parallel()
	h := newHost(t, faulty(bmcsim.CleanStepFails), notInspected, withImage)
	bmh := h.failed(metal3.ProvisioningError, "simulated fault clean-step-fails")
	if bmh.Status.Provisioning.State != metal3.StateProvisioning || bmh.Status.ProvisioningFailCount != 0 {
		t.Errorf("state %q, provisioningFailCount %d: no deployment was tried", bmh.Status.Provisioning.State, bmh.Status.ProvisioningFailCount)
	}
	h.mend(bmcsim.CleanStepFails)
	h.retry()
	bmh = h.provisioned()
	if bmh.Status.ErrorCount != 0 {
		t.Errorf("errorCount is %d", bmh.Status.ErrorCount)
	}
	h.wrote(1)
}

// A power command without effect is an error after Ironic's time-out.
func TestPowerCommandIgnored(t *testing.T) {
	t.Parallel()
	h := newHost(t, offline, notInspected, notCleaned)
	h.available()
	h.fault(bmcsim.IgnorePower)
	h.patch(`{"spec":{"online":true}}`)
	bmh := h.failed(metal3.PowerManagementError, "power on")
	if bmh.Status.PoweredOn || bmh.Status.Provisioning.State != metal3.StateAvailable {
		t.Errorf("on is %t, state %q", bmh.Status.PoweredOn, bmh.Status.Provisioning.State)
	}
	h.mend(bmcsim.IgnorePower)
	h.retry()
	h.power(bmcsim.On)
	h.available()
}
