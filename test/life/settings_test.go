// SPDX-License-Identifier: Apache-2.0

package life

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

// settings returns the BIOS settings of the host, as a GET does.
func (h *host) settings() *metal3.HostFirmwareSettings {
	h.t.Helper()
	settings, err := s.Metal3.Metal3V1alpha1().HostFirmwareSettings(h.ns).Get(h.ctx, h.name, metav1.GetOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	return settings
}

func (h *host) patchSettings(patch string) {
	h.t.Helper()
	if _, err := s.Metal3.Metal3V1alpha1().HostFirmwareSettings(h.ns).Patch(h.ctx, h.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

// expectSettings fails unless the very next GET has the conditions for the spec of now.
func (h *host) expectSettings(changeDetected, valid metav1.ConditionStatus, values metal3.SettingsMap) {
	h.t.Helper()
	settings := h.settings()
	for condition, want := range map[string]metav1.ConditionStatus{"ChangeDetected": changeDetected, "Valid": valid} {
		c := meta.FindStatusCondition(settings.Status.Conditions, condition)
		if c == nil || c.Status != want || c.ObservedGeneration != settings.Generation {
			h.t.Errorf("generation %d, want %s %s, condition is %+v", settings.Generation, condition, want, c)
		}
	}
	for name, want := range values {
		if got := settings.Status.Settings[name]; got != want {
			h.t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// prepared waits until the host is being prepared, and then until it is available.
func (h *host) prepared() *metal3.BareMetalHost {
	h.t.Helper()
	h.in(metal3.StatePreparing)
	return h.available()
}

// TestSettings applies RAID and BIOS settings to a machine that runs nothing, and none to one that
// is provisioned.
func TestSettings(t *testing.T) {
	t.Parallel()
	h := newHost(t, virtualMedia, notInspected, notCleaned)
	h.available()
	h.expectSettings(metav1.ConditionFalse, metav1.ConditionTrue, metal3.SettingsMap{"ProcVirtualization": "Disabled", "NumCores": "16", "QuietBoot": "true"})
	schema, err := s.Metal3.Metal3V1alpha1().FirmwareSchemas(h.ns).Get(h.ctx, h.settings().Status.FirmwareSchema.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if upper := schema.Spec.Schema["NumCores"].UpperBound; upper == nil || *upper != 64 || schema.Spec.Schema["QuietBoot"].AttributeType != metal3.SettingBoolean {
		t.Errorf("the schema is %+v", schema.Spec.Schema)
	}

	h.patchSettings(`{"spec":{"settings":{"NumCores":100}}}`)
	h.expectSettings(metav1.ConditionTrue, metav1.ConditionFalse, nil)

	h.patchSettings(`{"spec":{"settings":{"NumCores":"8","ProcVirtualization":"Enabled","QuietBoot":"false"}}}`)
	h.prepared()
	h.expectSettings(metav1.ConditionFalse, metav1.ConditionTrue, metal3.SettingsMap{"ProcVirtualization": "Enabled", "NumCores": "8", "QuietBoot": "false"})
	if bios := h.machine.BIOS(); bios["ProcVirtualization"] != "Enabled" || bios["QuietBoot"] != false {
		t.Errorf("the machine has %v", bios)
	}

	h.patch(`{"spec":{"raid":{"hardwareRAIDVolumes":[{"level":"1","name":"system","sizeGibibytes":100,"controller":"RAID","physicalDisks":["Disk.Bay.4","Disk.Bay.5"]}]}}}`)
	bmh := h.prepared()
	if volumes := h.machine.Volumes(); len(volumes) != 1 || volumes[0].RAIDType != "RAID1" || volumes[0].Bytes != 100<<30 {
		t.Errorf("the machine has the volumes %+v", volumes)
	}
	if raid := bmh.Status.Provisioning.RAID; raid == nil || len(raid.HardwareRAIDVolumes) != 1 {
		t.Errorf("status.provisioning.raid is %+v", raid)
	}
	if p := bmh.Status.Record.Preparation; p == nil || p.Phase != metal3.PreparationSucceeded || !slices.Equal(p.Steps, []string{"raid.delete_configuration", "raid.create_configuration"}) {
		t.Errorf("status.record.preparation is %+v", p)
	}
	h.wantImage()
	h.provisioned()
	boots, steps := len(h.machine.Boots()), len(h.machine.Steps())
	h.patchSettings(`{"spec":{"settings":{"NumCores":4}}}`)
	h.patch(`{"spec":{"raid":{"hardwareRAIDVolumes":null,"softwareRAIDVolumes":[{"level":"1","rootVolume":true,"sizeGibibytes":50}]}}}`)
	h.eventually(func() string {
		if c := meta.FindStatusCondition(h.settings().Status.Conditions, "ChangeDetected"); c.Status != metav1.ConditionTrue {
			return "the change is not detected"
		}
		return ""
	})
	h.stays(5*time.Second, "provisioned", isIn(metal3.StateProvisioned))
	if len(h.machine.Boots()) != boots || len(h.machine.Steps()) != steps || h.machine.Power() != bmcsim.On || len(h.machine.Volumes()) != 1 {
		t.Errorf("the provisioned machine was touched: boots %v, steps %v, volumes %v", h.machine.Boots()[boots:], h.machine.Steps()[steps:], h.machine.Volumes())
	}

	// Then the volumes of one kind go, and those of the other are made.
	h.patch(`{"spec":{"image":null}}`)
	bmh = h.wait("available with software RAID", func(bmh *metal3.BareMetalHost) bool {
		raid := bmh.Status.Provisioning.RAID
		return isIn(metal3.StateAvailable)(bmh) && raid != nil && len(raid.SoftwareRAIDVolumes) == 1
	})
	if md := h.machine.SoftwareRAID(); len(h.machine.Volumes()) != 0 || len(md) != 1 || !md[0].Root {
		t.Errorf("the machine has the volumes %+v and %+v", h.machine.Volumes(), md)
	}
	if hints := bmh.Status.Provisioning.RootDeviceHints; hints != nil {
		t.Errorf("the root device hints are %+v", hints)
	}
	h.expectSettings(metav1.ConditionFalse, metav1.ConditionTrue, metal3.SettingsMap{"NumCores": "4"})
}

// TestRAIDNotMade: Ironic takes a clean for a success in which the BMC could not make a volume. The
// host does not.
func TestRAIDNotMade(t *testing.T) {
	t.Parallel()
	h := newHost(t, virtualMedia, notInspected, notCleaned, faulty(bmcsim.VolumeTaskFails), func(h *metal3.BareMetalHost, _ *bmcsim.Machine) {
		h.Spec.RAID = &metal3.RAIDConfig{HardwareRAIDVolumes: []metal3.HardwareRAIDVolume{{Level: "1", SizeGibibytes: ptr.To(100), Controller: "RAID", PhysicalDisks: []string{"Disk.Bay.4", "Disk.Bay.5"}}}}
	})
	bmh := h.wait("not prepared", func(bmh *metal3.BareMetalHost) bool { return bmh.Status.ErrorType == metal3.PreparationError })
	if !strings.Contains(bmh.Status.ErrorMessage, "has made 0 of 1 volumes") || bmh.Status.Provisioning.RAID != nil {
		t.Errorf("the error is %q, and recorded is %+v", bmh.Status.ErrorMessage, bmh.Status.Provisioning.RAID)
	}
	// Corrected, it is tried again at once.
	if err := h.machine.ClearFault(bmcsim.VolumeTaskFails); err != nil {
		t.Fatal(err)
	}
	h.patch(`{"spec":{"raid":{"hardwareRAIDVolumes":[{"level":"1","sizeGibibytes":50,"controller":"RAID","physicalDisks":["Disk.Bay.4","Disk.Bay.5"]}]}}}`)
	h.available()
	if volumes := h.machine.Volumes(); len(volumes) != 1 || volumes[0].Bytes != 50<<30 {
		t.Errorf("the machine has the volumes %+v", volumes)
	}
}
