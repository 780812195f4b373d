// SPDX-License-Identifier: Apache-2.0

package life

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

// firmware returns the firmware components of the host, as a GET does.
func (h *host) firmware() *metal3.HostFirmwareComponents {
	h.t.Helper()
	components, err := s.Metal3.Metal3V1alpha1().HostFirmwareComponents(h.ns).Get(h.ctx, h.name, metav1.GetOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	return components
}

// wantFirmware asks for updates, given as components and versions in turn.
func (h *host) wantFirmware(componentsAndVersions ...string) []metal3.FirmwareUpdate {
	h.t.Helper()
	updates, texts := []metal3.FirmwareUpdate{}, []string{}
	for i := 0; i < len(componentsAndVersions); i += 2 {
		component, url := componentsAndVersions[i], s.machines.FirmwareURL(componentsAndVersions[i], componentsAndVersions[i+1])
		updates = append(updates, metal3.FirmwareUpdate{Component: component, URL: url})
		texts = append(texts, fmt.Sprintf(`{"component":%q,"url":%q}`, component, url))
	}
	patch := `{"spec":{"updates":[` + strings.Join(texts, ",") + `]}}`
	if _, err := s.Metal3.Metal3V1alpha1().HostFirmwareComponents(h.ns).Patch(h.ctx, h.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		h.t.Fatal(err)
	}
	return updates
}

// expectFirmware fails unless the very next GET has the conditions for the spec of now, the
// updates, and the versions, given as components and versions in turn.
func (h *host) expectFirmware(changeDetected, valid metav1.ConditionStatus, updates []metal3.FirmwareUpdate, componentsAndVersions ...string) {
	h.t.Helper()
	components := h.firmware()
	for condition, want := range map[string]metav1.ConditionStatus{"ChangeDetected": changeDetected, "Valid": valid} {
		c := meta.FindStatusCondition(components.Status.Conditions, condition)
		if c == nil || c.Status != want || c.ObservedGeneration != components.Generation {
			h.t.Errorf("generation %d, want %s %s, condition is %+v", components.Generation, condition, want, c)
		}
	}
	if !slices.Equal(components.Status.Updates, updates) {
		h.t.Errorf("status.updates is %+v", components.Status.Updates)
	}
	for i := 0; i < len(componentsAndVersions); i += 2 {
		name, version := componentsAndVersions[i], componentsAndVersions[i+1]
		if !slices.ContainsFunc(components.Status.Components, func(c metal3.FirmwareComponentStatus) bool {
			return c.Component == name && c.CurrentVersion == version && c.InitialVersion != ""
		}) || h.machine.Firmware()[name] != version {
			h.t.Errorf("%s is not of version %s: %+v; the machine has %v", name, version, components.Status.Components, h.machine.Firmware())
		}
	}
}

// TestFirmware updates the firmware of a machine that runs nothing, by a BMC that restarts itself
// after its own update, and explains an update that fails.
func TestFirmware(t *testing.T) {
	t.Parallel()
	if s.release == "bookworm" {
		t.Skip("Ironic 21.4 has no firmware interface")
	}
	h := newHost(t, virtualMedia, notInspected, notCleaned, faulty(bmcsim.BMCRestarts))
	h.available()
	h.expectFirmware(metav1.ConditionFalse, metav1.ConditionTrue, nil, "bios", "2.17.1", "bmc", "1.45.0")

	// Ironic knows network adapters from 32 on.
	if s.release == "sid" {
		updates := h.wantFirmware("nic:NIC1", "23.0.0")
		h.prepared()
		h.expectFirmware(metav1.ConditionFalse, metav1.ConditionTrue, updates, "nic:NIC1", "23.0.0")
	} else {
		h.wantFirmware("nic:NIC1", "23.0.0")
		h.expectFirmware(metav1.ConditionTrue, metav1.ConditionFalse, nil)
	}

	updates := h.wantFirmware("bmc", "1.46.0", "bios", "2.18.0")
	bmh := h.prepared()
	h.expectFirmware(metav1.ConditionFalse, metav1.ConditionTrue, updates, "bmc", "1.46.0", "bios", "2.18.0")
	if p := bmh.Status.Record.Preparation; p == nil || p.Phase != metal3.PreparationSucceeded || !slices.Equal(p.Steps, []string{"firmware.update", "firmware.update"}) {
		t.Errorf("status.record.preparation is %+v", p)
	}
	requested := h.machine.Updates()
	if len(requested) < 2 || !slices.Equal(requested[len(requested)-2:], []string{updates[0].URL, updates[1].URL}) {
		t.Errorf("the BMC was asked for %v", requested)
	}

	if err := h.machine.SetFault(bmcsim.UpdateTaskFails, "the signature is wrong"); err != nil {
		t.Fatal(err)
	}
	h.wantFirmware("bmc", "1.46.0", "bios", "2.19.0")
	bmh = h.wait("not updated", func(bmh *metal3.BareMetalHost) bool { return bmh.Status.ErrorType == metal3.PreparationError })
	if !strings.Contains(bmh.Status.ErrorMessage, "the signature is wrong") {
		t.Errorf("the error is %q", bmh.Status.ErrorMessage)
	}
	h.expectFirmware(metav1.ConditionTrue, metav1.ConditionTrue, updates[:1], "bios", "2.18.0")
	// Corrected, it is tried again at once, and only what is left.
	if err := h.machine.ClearFault(bmcsim.UpdateTaskFails); err != nil {
		t.Fatal(err)
	}
	before := len(h.machine.Updates())
	updates = h.wantFirmware("bmc", "1.46.0", "bios", "2.20.0")
	h.available()
	h.expectFirmware(metav1.ConditionFalse, metav1.ConditionTrue, updates, "bmc", "1.46.0", "bios", "2.20.0")
	if again := h.machine.Updates()[before:]; !slices.Equal(again, []string{updates[1].URL}) {
		t.Errorf("the BMC was asked again for %v", again)
	}
}
