// SPDX-License-Identifier: Apache-2.0

package life

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

// TestFirmwareService updates the firmware of a provisioned machine when it is rebooted, with an update
// that fails first. Ironic 29.0.5 does not notice the end of one: there, the machine is rebooted
// without the update, and the host says why. Its firmware is updated when it runs nothing and has a new node.
func TestFirmwareService(t *testing.T) {
	t.Parallel()
	if s.release == "bookworm" {
		t.Skip("Ironic 21.4 cannot service machines")
	}
	h := newHost(t, virtualMedia, notInspected, notCleaned, withImage)
	h.provisioned()
	boots, asked := len(h.machine.Boots()), len(h.machine.Updates())
	h.updatePolicy(metal3.HostUpdatePolicySpec{FirmwareUpdates: metal3.UpdateOnReboot})
	if s.release != "trixie" {
		if err := h.machine.SetFault(bmcsim.UpdateTaskFails, "the signature is wrong"); err != nil {
			t.Fatal(err)
		}
	}
	updates := h.wantFirmware("bios", "2.18.0")
	h.annotate(metal3.RebootAnnotation, `{"mode":"hard"}`)

	if s.release == "trixie" {
		bmh := h.wait("says why it is not updated", func(bmh *metal3.BareMetalHost) bool {
			return bmh.Status.PoweredOn && len(h.machine.Boots()) > boots && bmh.Status.ErrorType == metal3.ServicingError
		})
		if st := bmh.Status; !strings.Contains(st.ErrorMessage, "29.0.5") || st.Record.Servicing != nil || st.Provisioning.State != metal3.StateProvisioned {
			t.Errorf("%s, %q, %+v", st.Provisioning.State, st.ErrorMessage, st.Record.Servicing)
		}
		if len(h.machine.Updates()) != asked {
			t.Errorf("the BMC was asked for %v", h.machine.Updates())
		}
		// The same node cannot be cleaned for it either, and a new one can.
		h.patch(`{"spec":{"image":null}}`)
		h.wait("says why it is not prepared", func(bmh *metal3.BareMetalHost) bool {
			return bmh.Status.ErrorType == metal3.PreparationError && strings.Contains(bmh.Status.ErrorMessage, "29.0.5")
		})
		h.annotate(metal3.DetachedAnnotation, `{"force":true}`)
		h.detached(metal3.StatePreparing)
		h.annotateNot(metal3.DetachedAnnotation)
		h.available()
		h.expectFirmware(metav1.ConditionFalse, metav1.ConditionTrue, updates, "bios", "2.18.0")
		h.wrote(1)
		return
	}

	failed := h.serviced(nil, metal3.PreparationFailed)
	if st := failed.Status; st.ErrorType != metal3.ServicingError || !strings.Contains(st.ErrorMessage, "the signature is wrong") || st.Provisioning.State != metal3.StateProvisioned || st.Ironic.Maintenance {
		t.Errorf("%s: %q, the host is %s, its node in maintenance: %v", st.ErrorType, st.ErrorMessage, st.Provisioning.State, st.Ironic.Maintenance)
	}
	h.runsItsDisk()
	h.tells("Normal ServicingStarted", "Warning ServicingError", "Normal ServicingAbandoned")
	h.expectFirmware(metav1.ConditionTrue, metav1.ConditionTrue, nil, "bios", "2.17.1")

	h.mend(bmcsim.UpdateTaskFails)
	h.annotate(metal3.RebootAnnotation, `{"mode":"hard"}`)
	bmh := h.serviced(failed.Status.Record.Servicing, metal3.PreparationSucceeded)
	h.expectFirmware(metav1.ConditionFalse, metav1.ConditionTrue, updates, "bios", "2.18.0")
	h.runsItsDisk()
	if st := bmh.Status; st.ErrorMessage != "" || !slices.Equal(st.Record.Servicing.Steps, []string{"firmware.update"}) {
		t.Errorf("error %q, servicing %+v", st.ErrorMessage, st.Record.Servicing)
	}
	if got := h.machine.Updates()[asked:]; len(got) != 2 { // the one that failed, and the one after it
		t.Errorf("the BMC was asked for %v", got)
	}
	h.wrote(1)
}

// runsItsDisk waits until the machine runs what it was provisioned with.
func (h *host) runsItsDisk() {
	h.t.Helper()
	h.eventually(func() string {
		if running := h.machine.Running(); running != bmcsim.RunningDisk {
			return "the machine runs " + string(running)
		}
		return ""
	})
}
