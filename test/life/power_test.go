// SPDX-License-Identifier: Apache-2.0

package life

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

// spec.online switches an available host and a provisioned one.
func TestOnline(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned)
	h.available()
	for range 2 {
		h.patch(`{"spec":{"online":false}}`)
		h.power(bmcsim.Off)
		h.patch(`{"spec":{"online":true}}`)
		h.power(bmcsim.On)
		h.wantImage()
		h.provisioned()
	}
	h.wrote(1)
	if h.machine.Running() != bmcsim.RunningDisk {
		t.Errorf("the machine runs %v", h.machine.Running())
	}
}

// A host that is to be off is not provisioned before it may be on.
func TestOfflineHostIsNotProvisioned(t *testing.T) {
	t.Parallel()
	h := newHost(t, offline, notInspected, notCleaned, withImage)
	h.available()
	h.stays(3*time.Second, "available and off", func(bmh *metal3.BareMetalHost) bool {
		return bmh.Status.Provisioning.State == metal3.StateAvailable && !bmh.Status.PoweredOn
	})
	h.patch(`{"spec":{"online":true}}`)
	h.provisioned()
	h.wrote(1)
}

// Somebody presses the power button. Of a paused host that is seen, and no more.
func TestSwitchedBehindOurBack(t *testing.T) {
	t.Parallel()
	h := newHost(t, external, runsAlready)
	h.in(metal3.StateExternallyProvisioned)
	boots := len(h.machine.Boots())
	h.machine.SetPower(bmcsim.Off)
	h.eventually(func() string {
		if len(h.machine.Boots()) == boots {
			return "the machine was not switched on again"
		}
		return ""
	})
	h.power(bmcsim.On)
	h.annotate(metal3.PausedAnnotation, "")
	h.machine.SetPower(bmcsim.Off)
	h.power(bmcsim.Off)
	h.stays(4*time.Second, "off while it is paused", func(*metal3.BareMetalHost) bool { return h.machine.Power() == bmcsim.Off })
	h.annotateNot(metal3.PausedAnnotation)
	h.power(bmcsim.On)
	h.patch(`{"spec":{"online":false}}`)
	h.power(bmcsim.Off)
	h.machine.SetPower(bmcsim.On)
	h.wait("is seen on", func(bmh *metal3.BareMetalHost) bool { return bmh.Status.PoweredOn || h.machine.Power() == bmcsim.Off })
	h.power(bmcsim.Off)
}

// The annotation reboots once and goes; one with a key holds the host off.
func TestRebootAnnotation(t *testing.T) {
	t.Parallel()
	h := newHost(t, external, runsAlready)
	h.in(metal3.StateExternallyProvisioned)
	for _, test := range []struct{ value, by string }{
		{"", "GracefulShutdown"},
		{`{"mode":"soft"}`, "GracefulShutdown"},
		{`{"mode":"hard"}`, "ForceOff"},
	} {
		boots, changes := len(h.machine.Boots()), len(h.machine.PowerHistory())
		h.annotate(metal3.RebootAnnotation, test.value)
		h.wait("rebooted", func(bmh *metal3.BareMetalHost) bool {
			_, asked := bmh.Annotations[metal3.RebootAnnotation]
			return !asked && len(h.machine.Boots()) == boots+1 && bmh.Status.PoweredOn
		})
		if off := h.machine.PowerHistory()[changes]; off.Power != bmcsim.Off || off.By != test.by {
			t.Errorf("reboot %q began with %s by %s, want %s", test.value, off.Power, off.By, test.by)
		}
	}

	boots := len(h.machine.Boots())
	h.annotate(metal3.RebootAnnotationPrefix+"fence", `{"mode":"hard"}`)
	h.annotate(metal3.RebootAnnotationPrefix+"other", "")
	h.power(bmcsim.Off)
	h.annotateNot(metal3.RebootAnnotationPrefix + "other")
	h.stays(7*time.Second, "held off", func(bmh *metal3.BareMetalHost) bool {
		_, held := bmh.Annotations[metal3.RebootAnnotationPrefix+"fence"]
		return held && h.machine.Power() == bmcsim.Off
	})
	h.annotateNot(metal3.RebootAnnotationPrefix + "fence")
	h.power(bmcsim.On)
	if got := len(h.machine.Boots()); got != boots+1 {
		t.Errorf("the machine booted %d times, want once", got-boots)
	}
	h.in(metal3.StateExternallyProvisioned)
}

// An operating system that does not shut down when it is asked to: hard does it.
func TestHardRebootOfHungSystem(t *testing.T) {
	t.Parallel()
	h := newHost(t, external, runsAlready)
	h.in(metal3.StateExternallyProvisioned)
	h.fault(bmcsim.IgnoreSoftPower)
	boots := len(h.machine.Boots())
	h.annotate(metal3.RebootAnnotation, `{"mode":"hard"}`)
	h.wait("rebooted", func(bmh *metal3.BareMetalHost) bool {
		_, asked := bmh.Annotations[metal3.RebootAnnotation]
		return !asked && len(h.machine.Boots()) == boots+1 && bmh.Status.PoweredOn
	})
}

// A host that must never be off is restarted without being switched off.
func TestRebootWithoutPowerOff(t *testing.T) {
	t.Parallel()
	if s.release == "bookworm" {
		t.Skip("Ironic 21.4 knows no disable_power_off")
	}
	h := newHost(t, external, runsAlready, func(h *metal3.BareMetalHost, _ *bmcsim.Machine) { h.Spec.DisablePowerOff = true })
	h.in(metal3.StateExternallyProvisioned)
	for _, value := range []string{"", `{"mode":"hard"}`} {
		boots := len(h.machine.Boots())
		h.annotate(metal3.RebootAnnotation, value)
		h.wait("rebooted", func(bmh *metal3.BareMetalHost) bool {
			_, asked := bmh.Annotations[metal3.RebootAnnotation]
			return !asked && len(h.machine.Boots()) == boots+1 && bmh.Status.Ironic.TargetPowerState == ""
		})
	}
	for _, event := range h.machine.PowerHistory() {
		if event.Power == bmcsim.Off {
			t.Errorf("the machine was switched off: %+v", event)
		}
	}
}

// What kubectl does by POST stays: the spec follows, and nobody switches back.
func TestPowerActions(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned, withImage)
	h.provisioned()
	act := func(spec metal3.HostPowerSpec) {
		t.Helper()
		if _, err := h.api.Power(h.ctx, h.name, &metal3.HostPower{Spec: spec}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	settled := func(want bmcsim.Power, changes int) {
		t.Helper()
		h.power(want)
		if online := h.get().Spec.Online; online != (want == bmcsim.On) {
			t.Errorf("spec.online is %t with the power %s", online, want)
		}
		h.stays(7*time.Second, "power "+string(want), func(*metal3.BareMetalHost) bool { return len(h.machine.PowerHistory()) == changes })
	}
	changes := len(h.machine.PowerHistory())
	act(metal3.HostPowerSpec{Action: metal3.PowerActionOff, Mode: metal3.PowerModeHard})
	settled(bmcsim.Off, changes+1)
	act(metal3.HostPowerSpec{Action: metal3.PowerActionOn})
	settled(bmcsim.On, changes+2)

	boots := len(h.machine.Boots())
	act(metal3.HostPowerSpec{Action: metal3.PowerActionReboot, Mode: metal3.PowerModeHard})
	h.wait("rebooted", func(bmh *metal3.BareMetalHost) bool {
		return len(h.machine.Boots()) == boots+1 && bmh.Status.PoweredOn && bmh.Status.Ironic.TargetPowerState == ""
	})
	h.provisioned()
	h.wrote(1)
}

// An available host is rebooted only when that is forced.
func TestRebootOfAvailableHost(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned)
	h.available()
	boots := len(h.machine.Boots())
	h.annotate(metal3.RebootAnnotation, "")
	h.stays(3*time.Second, "not rebooted", func(*metal3.BareMetalHost) bool { return len(h.machine.Boots()) == boots })
	h.annotate(metal3.RebootAnnotation, `{"force":true,"mode":"hard"}`)
	h.wait("rebooted", func(bmh *metal3.BareMetalHost) bool {
		_, asked := bmh.Annotations[metal3.RebootAnnotation]
		return !asked && len(h.machine.Boots()) == boots+1 && bmh.Status.PoweredOn
	})
	h.available()
}
