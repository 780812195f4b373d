// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

func TestValidateRAID(t *testing.T) {
	const (
		hardware = "spec.raid.hardwareRAIDVolumes[0]"
		software = "spec.raid.softwareRAIDVolumes"
	)
	root := v1alpha1.SoftwareRAIDVolume{Level: "1", RootVolume: true}
	data := v1alpha1.SoftwareRAIDVolume{Level: "1+0"}
	tests := map[string]struct {
		mutations []mutation
		want      []string
	}{
		"all of hardware RAID": {mutations: []mutation{hardwareRAID(v1alpha1.HardwareRAIDVolume{
			Level: "6+0", SizeGibibytes: ptr.To(1), Name: strings.Repeat("a", 64), NumberOfPhysicalDisks: ptr.To(2),
			Controller: "c", PhysicalDisks: []string{"a", "b"},
		})}},
		"a size of Dell's BOSS": {mutations: []mutation{hardwareRAID(v1alpha1.HardwareRAIDVolume{
			Level: "1", SizeGibibytes: ptr.To(0), Controller: "BOSS.SL.12-1", PhysicalDisks: []string{"a", "b"},
		})}},
		"no size":           {mutations: []mutation{softwareRAID(v1alpha1.SoftwareRAIDVolume{Level: "1", SizeGibibytes: ptr.To(0)})}, want: []string{software + "[0].sizeGibibytes: must be 1 or more"}},
		"disks are counted": {mutations: []mutation{hardwareRAID(v1alpha1.HardwareRAIDVolume{Level: "1", NumberOfPhysicalDisks: ptr.To(1)})}},
		"nothing right": {
			mutations: []mutation{hardwareRAID(v1alpha1.HardwareRAIDVolume{
				Level: "7", SizeGibibytes: ptr.To(-1), Name: strings.Repeat("a", 65), NumberOfPhysicalDisks: ptr.To(0),
			})},
			want: []string{
				hardware + `.level: "0", "1", "2", "5", "6", "1+0", "5+0", "6+0"`,
				hardware + ".sizeGibibytes: must be 0 or more",
				hardware + ".numberOfPhysicalDisks: must be 1 or more",
				hardware + ".name: 64",
			},
		},
		"no level": {mutations: []mutation{hardwareRAID(v1alpha1.HardwareRAIDVolume{})}, want: []string{hardware + ".level: Required"}},
		"disks without controller": {
			mutations: []mutation{hardwareRAID(v1alpha1.HardwareRAIDVolume{Level: "1", PhysicalDisks: []string{"a", "b"}})},
			want:      []string{hardware + ".controller: Required"},
		},
		"another number of disks": {
			mutations: []mutation{hardwareRAID(v1alpha1.HardwareRAIDVolume{
				Level: "1", NumberOfPhysicalDisks: ptr.To(3), Controller: "c", PhysicalDisks: []string{"a", "b"},
			})},
			want: []string{hardware + ".numberOfPhysicalDisks: must be 2, the number of physicalDisks"},
		},
		"software RAID": {mutations: []mutation{softwareRAID(root, data)}},
		"both": {
			mutations: []mutation{softwareRAID(root), func(h *v1alpha1.BareMetalHost) {
				h.Spec.RAID.HardwareRAIDVolumes = []v1alpha1.HardwareRAIDVolume{{Level: "1"}}
			}},
			want: []string{software + ": cannot be combined with hardwareRAIDVolumes"},
		},
		"both, one of them empty": {mutations: []mutation{softwareRAID(root), func(h *v1alpha1.BareMetalHost) {
			h.Spec.RAID.HardwareRAIDVolumes = []v1alpha1.HardwareRAIDVolume{}
		}}},
		"three": {mutations: []mutation{softwareRAID(root, data, data)}, want: []string{software + ": must have at most 2 items"}},
		"bad software RAID": {
			mutations: []mutation{softwareRAID(v1alpha1.SoftwareRAIDVolume{
				Level: "5", SizeGibibytes: ptr.To(-1), PhysicalDisks: []v1alpha1.RootDeviceHints{{MinSizeGigabytes: -1}},
			})},
			want: []string{
				software + `[0].level: "0", "1", "1+0"`,
				software + "[0].sizeGibibytes: must be 0 or more",
				software + "[0].physicalDisks: at least 2 disks",
				software + "[0].physicalDisks[0].minSizeGigabytes: must be 0 or more",
			},
		},
		"two roots":         {mutations: []mutation{softwareRAID(root, root)}, want: []string{software + "[1].rootVolume: only one volume"}},
		"root of level 0":   {mutations: []mutation{softwareRAID(v1alpha1.SoftwareRAIDVolume{Level: "0", RootVolume: true})}, want: []string{software + "[0].rootVolume: must have level 1"}},
		"root and hints":    {mutations: []mutation{softwareRAID(root), hints(v1alpha1.RootDeviceHints{DeviceName: "/dev/sda"})}, want: []string{software + "[0].rootVolume: cannot be combined with spec.rootDeviceHints"}},
		"no root and hints": {mutations: []mutation{softwareRAID(data), hints(v1alpha1.RootDeviceHints{DeviceName: "/dev/sda"})}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			expect(t, ValidateBareMetalHost(newHost(test.mutations...)), test.want...)
		})
	}
}

func TestWarnings(t *testing.T) {
	for _, test := range []struct {
		image v1alpha1.Image
		want  int
	}{
		{v1alpha1.Image{URL: "http://a/b", Checksum: "http://a/c@d"}, 0},
		{v1alpha1.Image{URL: "http://user:secret@a/b", Checksum: "c"}, 1},
		{v1alpha1.Image{URL: "http://user:secret@a/b", Checksum: "http://user:secret@a/c"}, 2},
	} {
		warnings := Warnings(newHost(image(test.image)))
		if len(warnings) != test.want || strings.Contains(strings.Join(warnings, " "), "secret@") {
			t.Errorf("%+v: %q, want %d warnings without the password", test.image, warnings, test.want)
		}
	}
	if warnings := Warnings(newHost()); warnings != nil {
		t.Errorf("without an image: %q", warnings)
	}
	for mac, want := range map[string]int{"": 0, "00:00:5E:00:53:01": 0, "00:00:00:00:00:00": 1, "ff:ff:ff:ff:ff:ff": 1, "01:00:5e:00:00:01": 1} {
		if warnings := Warnings(newHost(func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddress = mac })); len(warnings) != want {
			t.Errorf("MAC address %s: %q", mac, warnings)
		}
	}
	for address, want := range map[string]int{"": 0, "redfish://192.0.2.1/redfish/v1/Systems/1": 0, "idrac-virtualmedia://192.0.2.1/System.Embedded.1/": 1} {
		if warnings := Warnings(newHost(func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address = address })); len(warnings) != want {
			t.Errorf("address %s: %q", address, warnings)
		}
	}
}
