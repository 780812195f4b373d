// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

func condition(name string) metav1.Condition {
	return metav1.Condition{Type: name, Status: metav1.ConditionTrue, Reason: name, LastTransitionTime: metav1.Unix(1, 0)}
}

func TestValidateBareMetalHostStatusUpdate(t *testing.T) {
	hardware := func(details v1alpha1.HardwareDetails) mutation {
		return func(h *v1alpha1.BareMetalHost) { h.Status.HardwareDetails = &details }
	}
	tests := map[string]struct {
		old, new []mutation
		want     []string
	}{
		"empty":                {},
		"operational statuses": {new: []mutation{status("anything", v1alpha1.OperationalStatusServicing)}},
		"unknown operational status": {
			new:  []mutation{status("", "fine")},
			want: []string{`status.operationalStatus: "OK", "discovered", "error", "delayed", "detached", "servicing"`},
		},
		"unknown operational status from before": {old: []mutation{status("", "fine")}, new: []mutation{status("available", "fine")}},
		"detach error":                           {new: []mutation{func(h *v1alpha1.BareMetalHost) { h.Status.ErrorType = v1alpha1.DetachError }}},
		"unknown error type": {
			new:  []mutation{func(h *v1alpha1.BareMetalHost) { h.Status.ErrorType = "oops" }},
			want: []string{"status.errorType: supported values"},
		},
		"conditions": {new: []mutation{func(h *v1alpha1.BareMetalHost) {
			h.Status.Conditions = []metav1.Condition{condition("Ready"), condition("Healthy")}
		}}},
		"condition twice": {
			new: []mutation{func(h *v1alpha1.BareMetalHost) {
				h.Status.Conditions = []metav1.Condition{condition("Ready"), condition("Ready")}
			}},
			want: []string{"status.conditions[1]: Duplicate"},
		},
		"too many conditions": {
			new: []mutation{func(h *v1alpha1.BareMetalHost) {
				for i := range 33 {
					h.Status.Conditions = append(h.Status.Conditions, condition(fmt.Sprintf("C%d", i)))
				}
			}},
			want: []string{"status.conditions: must have at most 32 items"},
		},
		"settings": {
			new: []mutation{func(h *v1alpha1.BareMetalHost) {
				h.Status.Provisioning = v1alpha1.ProvisionStatus{
					BootMode:        "bios",
					Image:           v1alpha1.Image{ChecksumType: "sha1"},
					RAID:            &v1alpha1.RAIDConfig{HardwareRAIDVolumes: []v1alpha1.HardwareRAIDVolume{{Level: "9"}}},
					RootDeviceHints: &v1alpha1.RootDeviceHints{MinSizeGigabytes: -1},
				}
				h.Status.LastAttemptedImage = &v1alpha1.Image{DiskFormat: ptr.To(v1alpha1.DiskFormat("img"))}
			}},
			want: []string{
				"status.provisioning.bootMode: supported values",
				"status.provisioning.image.checksumType: supported values",
				"status.lastAttemptedImage.format: supported values",
				"status.provisioning.raid.hardwareRAIDVolumes[0].level: supported values",
				"status.provisioning.rootDeviceHints.minSizeGigabytes: must be 0 or more",
			},
		},
		"hardware": {new: []mutation{hardware(v1alpha1.HardwareDetails{
			NIC: []v1alpha1.NIC{
				{Name: "eno1", MAC: "00:ab:4f:d8:9e:fa", VLANID: 4094, VLANs: []v1alpha1.VLAN{{ID: 0}}},
				{Name: "ib0", MAC: "80:00:02:08:fe:80:00:00:00:00:00:00:f4:52:14:03:00:7b:cb:a1"},
				{Name: "lo"},
			},
			Storage: []v1alpha1.Storage{{Type: v1alpha1.NVME}, {}},
		})}},
		"bad hardware": {
			new: []mutation{hardware(v1alpha1.HardwareDetails{
				NIC:     []v1alpha1.NIC{{MAC: "nonsense", VLANID: 4095, VLANs: []v1alpha1.VLAN{{ID: -1}}}},
				Storage: []v1alpha1.Storage{{Type: "tape"}},
			})},
			want: []string{
				"status.hardware.nics[0].mac: must be a MAC address",
				"status.hardware.nics[0].vlanId: 0 to 4094",
				"status.hardware.nics[0].vlans[0].id: 0 to 4094",
				`status.hardware.storage[0].type: "HDD", "SSD", "NVME"`,
			},
		},
		"the spec is not validated": {new: []mutation{address("nonsense://")}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			expect(t, ValidateBareMetalHostStatusUpdate(newHost(test.new...), newHost(test.old...)), test.want...)
		})
	}
}

func TestValidateHostPower(t *testing.T) {
	tests := []struct {
		spec v1alpha1.HostPowerSpec
		want []string
	}{
		{spec: v1alpha1.HostPowerSpec{Action: "on"}},
		{spec: v1alpha1.HostPowerSpec{Action: "off", Mode: "hard"}},
		{spec: v1alpha1.HostPowerSpec{Action: "reboot", Mode: "soft"}},
		{spec: v1alpha1.HostPowerSpec{}, want: []string{`spec.action: Required value: must be one of ["on" "off" "reboot"]`}},
		{spec: v1alpha1.HostPowerSpec{Action: "cycle"}, want: []string{`spec.action: supported values: "on", "off", "reboot"`}},
		{spec: v1alpha1.HostPowerSpec{Action: "off", Mode: "gentle"}, want: []string{`spec.mode: supported values: "soft", "hard"`}},
	}
	for _, test := range tests {
		t.Run(fmt.Sprintf("%s %s", test.spec.Action, test.spec.Mode), func(t *testing.T) {
			expect(t, ValidateHostPower(&v1alpha1.HostPower{Spec: test.spec}), test.want...)
		})
	}
}

func TestValidateHostInspection(t *testing.T) {
	expect(t, ValidateHostInspection(&v1alpha1.HostInspection{}))
}
