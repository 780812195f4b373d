// SPDX-License-Identifier: Apache-2.0

package life

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

// inspected asserts how often the machine was inspected by its ramdisk so far.
func (h *host) inspected(want int) {
	h.t.Helper()
	if got := h.machine.Inspections(); got != want {
		h.t.Errorf("the machine was inspected %d times, want %d", got, want)
	}
}

func TestHardwareByAnnotation(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned, annotated(metal3.HardwareDetailsAnnotation, `{"hostname":"given","ramMebibytes":4096,"cpu":{"arch":"x86_64","count":4}}`))
	bmh := h.available()
	if hw := bmh.Status.HardwareDetails; hw == nil || hw.Hostname != "given" || hw.RAMMebibytes != 4096 || hw.CPU.Count != 4 {
		t.Errorf("hardware is %+v", hw)
	}
	if _, still := bmh.Annotations[metal3.HardwareDetailsAnnotation]; still {
		t.Error("the annotation is still there")
	}
	data, err := s.Metal3.Metal3V1alpha1().HardwareData(h.ns).Get(h.ctx, h.name, metav1.GetOptions{})
	if err != nil || data.Spec.HardwareDetails.Hostname != "given" {
		t.Errorf("HardwareData is %+v: %v", data, err)
	}
	h.inspected(0)
}

// What is known of the hardware beforehand needs no inspection, until somebody
// asks for one.
func TestHardwareDataBeforehand(t *testing.T) {
	t.Parallel()
	needsInspection(t)
	h := newHost(t, annotated(metal3.PausedAnnotation, ""), notCleaned)
	data := &metal3.HardwareData{ObjectMeta: metav1.ObjectMeta{Name: h.name}, Spec: metal3.HardwareDataSpec{
		HardwareDetails: &metal3.HardwareDetails{Hostname: "known", CPU: metal3.CPU{Arch: "x86_64", Count: 2}},
	}}
	if _, err := s.Metal3.Metal3V1alpha1().HardwareData(h.ns).Create(h.ctx, data, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.annotateNot(metal3.PausedAnnotation)
	bmh := h.available()
	h.expectStates(metal3.StateRegistering, metal3.StatePreparing, metal3.StateAvailable)
	if hw := bmh.Status.HardwareDetails; hw == nil || hw.Hostname != "known" {
		t.Errorf("hardware is %+v", hw)
	}
	h.inspected(0)

	h.annotate(metal3.InspectAnnotation, "")
	bmh = h.wait("inspected", func(bmh *metal3.BareMetalHost) bool {
		return bmh.Status.HardwareDetails.Hostname != "known" && bmh.Status.Provisioning.State == metal3.StateAvailable
	})
	if hw := bmh.Status.HardwareDetails; hw.CPU.Count != 32 || len(hw.NIC) == 0 {
		t.Errorf("hardware is %+v", hw)
	}
	h.inspected(1)
}

// An available host is inspected anew by annotation and by kubectl's POST.
func TestInspectedAgain(t *testing.T) {
	t.Parallel()
	needsInspection(t)
	h := newHost(t, notCleaned)
	h.available()
	h.inspected(1)
	again := func(what string) {
		t.Helper()
		h.wait("inspected "+what, func(bmh *metal3.BareMetalHost) bool {
			_, asked := bmh.Annotations[metal3.InspectAnnotation]
			return !asked && !bmh.Status.OperationHistory.Inspect.End.IsZero() && bmh.Status.Provisioning.State == metal3.StateAvailable && bmh.Status.PoweredOn
		})
		h.expectStates(metal3.StateAvailable, metal3.StateInspecting, metal3.StatePreparing, metal3.StateAvailable)
	}
	h.states()
	h.annotate(metal3.InspectAnnotation, "")
	again("by annotation")
	h.inspected(2)
	if _, err := h.api.Inspect(h.ctx, h.name, &metal3.HostInspection{}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.wait("inspecting", func(bmh *metal3.BareMetalHost) bool { return slices.Contains(h.seenSoFar(), metal3.StateInspecting) })
	again("by POST")
	h.inspected(3)
	inspection, err := h.api.GetInspect(h.ctx, h.name, metav1.GetOptions{})
	if err != nil || inspection.Status.FinishedAt == nil || inspection.Status.LastError != "" {
		t.Errorf("GET inspect: %v %+v", err, inspection)
	}
}

// The BMC alone tells of the hardware, with no ramdisk booted for that.
func TestFastInspection(t *testing.T) {
	t.Parallel()
	if s.release == "bookworm" {
		t.Skip("Ironic 21.4 keeps no inventory")
	}
	h := newHost(t, notCleaned, func(h *metal3.BareMetalHost, _ *bmcsim.Machine) { h.Spec.InspectionMode = metal3.InspectionModeFast })
	bmh := h.available()
	h.expectStates(metal3.StateRegistering, metal3.StateInspecting, metal3.StatePreparing, metal3.StateAvailable)
	hw := bmh.Status.HardwareDetails
	if hw == nil || hw.CPU.Count == 0 || hw.RAMMebibytes == 0 || len(hw.Storage) == 0 || hw.SystemVendor.ProductName == "" {
		t.Errorf("hardware is %+v", hw)
	}
	h.inspected(0)
	for _, boot := range h.machine.Boots() {
		if boot.Running == bmcsim.RunningRamdisk {
			t.Errorf("a ramdisk was booted: %+v", boot)
		}
	}
}
