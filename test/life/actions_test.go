// SPDX-License-Identifier: Apache-2.0

package life

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// expectCode asserts that an error is a Status with this code, whose message has the words.
func expectCode(t *testing.T, what string, err error, code int, words ...string) {
	t.Helper()
	status, ok := err.(apierrors.APIStatus)
	if !ok || int(status.Status().Code) != code {
		t.Errorf("%s: %v, want %d", what, err, code)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s says %q, want %q in it", what, err, w)
		}
	}
}

// tell logs what was answered.
func tell(t *testing.T, what string, object any) {
	t.Helper()
	content, _ := json.Marshal(object)
	t.Logf("%s: %s", what, content)
}

// What asks the BMC, on a real BMC's protocol.
func TestHardwareActions(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected)
	h.available()
	h.power(bmcsim.On)

	device, err := h.api.BootDevice(h.ctx, h.name, &metal3.HostBootDevice{Spec: metal3.HostBootDeviceSpec{Device: "cdrom"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tell(t, "bootdevice", device)
	if target, how := h.machine.BootOverride(); target != "Cd" || how != "Once" {
		t.Errorf("the BMC was told to boot %s, %s", target, how)
	}
	if device, err = h.api.GetBootDevice(h.ctx, h.name, metav1.GetOptions{}); err != nil || device.Status.Device != "cdrom" || device.Status.Persistent == nil || *device.Status.Persistent || !slices.Contains(device.Status.Supported, "pxe") {
		t.Errorf("the boot device is %+v: %v", device, err)
	}
	tell(t, "bootdevice", device)
	_, err = h.api.BootDevice(h.ctx, h.name, &metal3.HostBootDevice{Spec: metal3.HostBootDeviceSpec{Device: "floppy"}}, metav1.CreateOptions{})
	expectCode(t, "floppy", err, http.StatusUnprocessableEntity, "spec.device", `"pxe"`)
	t.Log(err)
	if target, _ := h.machine.BootOverride(); target != "Cd" {
		t.Errorf("the BMC was told to boot %s", target)
	}

	if _, err := h.api.NMI(h.ctx, h.name, &metal3.HostNMI{}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil || h.machine.NMIs() != 0 {
		t.Errorf("%d interrupts after a dry run: %v", h.machine.NMIs(), err)
	}
	interrupted, err := h.api.NMI(h.ctx, h.name, &metal3.HostNMI{}, metav1.CreateOptions{})
	if err != nil || h.machine.NMIs() != 1 {
		t.Errorf("%d interrupts: %v", h.machine.NMIs(), err)
	}
	tell(t, "nmi", interrupted)

	lights, err := h.api.GetIndicator(h.ctx, h.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tell(t, "indicator", lights)
	for _, state := range []metal3.IndicatorState{metal3.IndicatorBlinking, metal3.IndicatorOff, metal3.IndicatorOn} {
		switched, err := h.api.Indicator(h.ctx, h.name, &metal3.HostIndicator{Spec: metal3.HostIndicatorSpec{State: state}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		tell(t, "indicator", switched)
		want := map[metal3.IndicatorState]string{metal3.IndicatorBlinking: "Blinking", metal3.IndicatorOff: "Off", metal3.IndicatorOn: "Lit"}[state]
		if got := h.machine.SystemLED(); got != want {
			t.Errorf("the light is %s, want %s", got, want)
		}
	}
	if lights, err = h.api.GetIndicator(h.ctx, h.name, metav1.GetOptions{}); err != nil || !slices.ContainsFunc(lights.Status.Indicators, func(i metal3.Indicator) bool { return i.Component == "system" && i.State == metal3.IndicatorOn }) {
		t.Errorf("the lights are %+v: %v", lights, err)
	}

	report, err := h.api.GetValidation(h.ctx, h.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tell(t, "validate", report)
	results := map[string]metal3.InterfaceResult{}
	for _, i := range report.Status.Interfaces {
		results[i.Name] = i.Result
		if i.Result != metal3.InterfaceUsable && i.Reason == "" {
			t.Errorf("%s is %s without a reason", i.Name, i.Result)
		}
	}
	if results["power"] != metal3.InterfaceUsable || results["management"] != metal3.InterfaceUsable || results["deploy"] != metal3.InterfaceUnusable {
		t.Errorf("interfaces: %v", results)
	}
}

// A BMC that does not answer does not keep the one who asks it waiting for ever, and nobody else: reads go on meanwhile.
func TestActionOnSilentBMC(t *testing.T) {
	needsTimeouts(t, bmcsim.HangConnections)
	t.Parallel()
	h := newHost(t, notInspected)
	h.available()
	h.fault(bmcsim.HangConnections)
	done := make(chan error, 1)
	go func() {
		_, err := h.api.GetIndicator(h.ctx, h.name, metav1.GetOptions{})
		done <- err
	}()
	for reads := 0; ; reads++ {
		select {
		case err := <-done:
			t.Logf("after %d reads: %v", reads, err)
			if reads < 3 { // one before the BMC is asked, and one that waits for it
				t.Errorf("%d reads of the host meanwhile: they wait for the BMC", reads)
			}
			if code := int(err.(apierrors.APIStatus).Status().Code); code != http.StatusGatewayTimeout && code != http.StatusServiceUnavailable {
				t.Errorf("answered %d: %v", code, err)
			}
			return
		default:
			h.get()
		}
	}
}

// A maintenance that a person has requested is not ended by the server, also if a step fails
// during it, which leads to a maintenance that the server would end.
func TestMaintenance(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, offline)
	h.available()
	on := &metal3.HostMaintenance{Spec: metal3.HostMaintenanceSpec{Action: metal3.MaintenanceActionOn, Reason: "a disk is being replaced"}}
	answered, err := h.api.Maintenance(h.ctx, h.name, on, metav1.CreateOptions{})
	if err != nil || !answered.Status.Maintenance || !strings.HasSuffix(answered.Status.Reason, ": a disk is being replaced") {
		t.Fatalf("%+v: %v", answered, err)
	}
	tell(t, "maintenance", answered)
	h.patch(`{"spec":{"online":true}}`)
	h.stays(20*time.Second, "is left alone", func(bmh *metal3.BareMetalHost) bool {
		return bmh.Status.Ironic.Maintenance && h.machine.Power() == bmcsim.Off
	})
	off := &metal3.HostMaintenance{Spec: metal3.HostMaintenanceSpec{Action: metal3.MaintenanceActionOff}}
	if answered, err = h.api.Maintenance(h.ctx, h.name, off, metav1.CreateOptions{}); err != nil || answered.Status.Maintenance {
		t.Fatalf("%+v: %v", answered, err)
	}
	tell(t, "maintenance", answered)
	h.power(bmcsim.On)
}

// What went wrong is found in the history after it is over.
func TestHistory(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, withImage, faulty(bmcsim.CleanStepFails))
	h.wait("cleaning has failed", func(bmh *metal3.BareMetalHost) bool { return bmh.Status.ErrorType == metal3.ProvisioningError })
	h.mend(bmcsim.CleanStepFails)
	h.retry()
	h.provisioned()
	history, err := h.api.GetHistory(h.ctx, h.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tell(t, "history", history)
	events := history.Status.Events
	if len(events) == 0 || !slices.ContainsFunc(events, func(e metal3.HistoryEvent) bool {
		return e.Severity == "ERROR" && strings.Contains(e.Message, "erase") && time.Since(e.Time.Time) < testbed.Patience
	}) {
		t.Fatalf("the failure is not in the history: %+v", events)
	}
	if !slices.IsSortedFunc(events, func(a, b metal3.HistoryEvent) int { return b.Time.Compare(a.Time.Time) }) {
		t.Errorf("not the newest first: %+v", events)
	}
}
