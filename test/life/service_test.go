// SPDX-License-Identifier: Apache-2.0

package life

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

func (h *host) updatePolicy(spec metal3.HostUpdatePolicySpec) {
	h.t.Helper()
	policy := &metal3.HostUpdatePolicy{ObjectMeta: metav1.ObjectMeta{Name: h.name}, Spec: spec}
	if _, err := s.Metal3.Metal3V1alpha1().HostUpdatePolicies(h.ns).Create(h.ctx, policy, metav1.CreateOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

// serviced waits until a service has ended and the machine runs what it ran before.
func (h *host) serviced(after *metal3.Servicing, phase metal3.PreparationPhase) *metal3.BareMetalHost {
	h.t.Helper()
	return h.wait("serviced: "+string(phase), func(bmh *metal3.BareMetalHost) bool {
		service := bmh.Status.Record.Servicing
		return service != nil && service.EndedAt != nil && service.Phase == phase && (after == nil || !service.StartedAt.Equal(&after.StartedAt)) &&
			bmh.Status.PoweredOn && bmh.Status.OperationalStatus != metal3.OperationalStatusServicing
	})
}

// TestServicing changes a BIOS setting of a provisioned machine when it is rebooted.
func TestServicing(t *testing.T) {
	t.Parallel()
	if s.release == "bookworm" {
		t.Skip("Ironic 21.4 cannot service machines")
	}
	h := newHost(t, virtualMedia, notInspected, notCleaned, withImage)
	h.provisioned()
	disks, boots := h.machine.Disks(), len(h.machine.Boots())
	h.updatePolicy(metal3.HostUpdatePolicySpec{FirmwareSettings: metal3.UpdateOnReboot})
	h.patchSettings(`{"spec":{"settings":{"NumCores":8}}}`)
	h.stays(4*time.Second, "left alone", func(bmh *metal3.BareMetalHost) bool {
		return len(h.machine.Boots()) == boots && bmh.Status.OperationalStatus == metal3.OperationalStatusOK
	})

	h.annotate(metal3.RebootAnnotation, `{"mode":"hard"}`)
	h.wait("being serviced", func(bmh *metal3.BareMetalHost) bool {
		return bmh.Status.OperationalStatus == metal3.OperationalStatusServicing && isIn(metal3.StateProvisioned)(bmh)
	})
	h.shows(metal3.OperationService, 1, "bios.apply_configuration")
	bmh := h.wait("serviced", func(bmh *metal3.BareMetalHost) bool {
		return bmh.Status.OperationalStatus == metal3.OperationalStatusOK
	})
	h.expectSettings(metav1.ConditionFalse, metav1.ConditionTrue, metal3.SettingsMap{"NumCores": "8"})
	done := h.serviced(nil, metal3.PreparationSucceeded).Status.Record.Servicing
	if h.machine.Running() != bmcsim.RunningDisk || bmh.Status.Provisioning.State != metal3.StateProvisioned || bmh.Status.ErrorMessage != "" {
		t.Errorf("the machine runs %s, the host is %s: %s", h.machine.Running(), bmh.Status.Provisioning.State, bmh.Status.ErrorMessage)
	}
	h.tells("Normal ServicingStarted", "Normal ServicingComplete")

	if s.release == "trixie" { // later releases wait for the value, until a time-out
		h.fault(bmcsim.LoseBIOSChanges)
		h.patchSettings(`{"spec":{"settings":{"NumCores":4}}}`)
		h.patch(`{"spec":{"online":false}}`)
		h.power(bmcsim.Off)
		h.patch(`{"spec":{"online":true}}`)
		bmh = h.serviced(done, metal3.PreparationFailed)
		if st := bmh.Status; st.ErrorType != metal3.ServicingError || !strings.Contains(st.ErrorMessage, "NumCores") || st.Provisioning.State != metal3.StateProvisioned || st.Ironic.Maintenance {
			t.Errorf("%s: %q, the host is %s, its node in maintenance: %v", st.ErrorType, st.ErrorMessage, st.Provisioning.State, st.Ironic.Maintenance)
		}
		h.runsItsDisk()
		h.tells("Warning ServicingError", "Normal ServicingAbandoned")
		h.mend(bmcsim.LoseBIOSChanges)
		h.annotate(metal3.RebootAnnotation, `{"mode":"hard"}`)
		bmh = h.serviced(bmh.Status.Record.Servicing, metal3.PreparationSucceeded)
		h.expectSettings(metav1.ConditionFalse, metav1.ConditionTrue, metal3.SettingsMap{"NumCores": "4"})
		if bmh.Status.ErrorMessage != "" {
			t.Errorf("the error stays: %s", bmh.Status.ErrorMessage)
		}
	}
	if got := h.machine.Writes(); got != 1 || len(h.machine.Disks()) != len(disks) {
		t.Errorf("the disks were written to %d times", got)
	}
}
