// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

func TestRootDevice(t *testing.T) {
	yes, no := true, false
	tests := map[string]struct {
		hints *metal3.RootDeviceHints
		want  map[string]any
	}{
		"none":    {},
		"empty":   {hints: &metal3.RootDeviceHints{}},
		"name":    {hints: &metal3.RootDeviceHints{DeviceName: "/dev/sdb"}, want: map[string]any{"name": "s== /dev/sdb"}},
		"by path": {hints: &metal3.RootDeviceHints{DeviceName: "/dev/disk/by-path/pci-0"}, want: map[string]any{"by_path": "s== /dev/disk/by-path/pci-0"}},
		"SSD":     {hints: &metal3.RootDeviceHints{Rotational: &no}, want: map[string]any{"rotational": "false"}},
		"all": {
			hints: &metal3.RootDeviceHints{
				DeviceName: "/dev/sda", HCTL: "1:2:3:4", Model: "Model X", Vendor: "Vendor Y", SerialNumber: "S-1", MinSizeGigabytes: 40,
				WWN: "0x1", WWNWithExtension: "0x12", WWNVendorExtension: "0x2", Rotational: &yes,
			},
			want: map[string]any{
				"name": "s== /dev/sda", "hctl": "s== 1:2:3:4", "model": "<in> Model X", "vendor": "<in> Vendor Y", "serial": "s== S-1", "size": ">= 40",
				"wwn": "s== 0x1", "wwn_with_extension": "s== 0x12", "wwn_vendor_extension": "s== 0x2", "rotational": "true",
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, RootDevice(test.hints)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func withProfile(saved, chosen, address string) hostOption {
	return func(h *metal3.BareMetalHost) {
		h.Spec.RootDeviceHints = nil
		h.Status.HardwareProfile, h.Spec.BMC.Address = saved, address
		//lint:ignore SA1019 deprecated for users, who may have it in their manifests
		h.Spec.HardwareProfile = chosen
	}
}

func TestHardwareProfile(t *testing.T) {
	tests := map[string]struct {
		saved, chosen, address string
		want                   string
		wantHints              *metal3.RootDeviceHints
	}{
		"default":         {want: "unknown", wantHints: &metal3.RootDeviceHints{DeviceName: "/dev/sda"}},
		"ipmi":            {address: "ipmi://192.0.2.1", want: "unknown", wantHints: &metal3.RootDeviceHints{DeviceName: "/dev/sda"}},
		"libvirt":         {address: "libvirt://192.0.2.1:6233", want: "libvirt", wantHints: &metal3.RootDeviceHints{DeviceName: "/dev/vda"}},
		"libvirt, upper":  {address: "LIBVIRT://192.0.2.1:6233", want: "libvirt", wantHints: &metal3.RootDeviceHints{DeviceName: "/dev/vda"}},
		"chosen":          {chosen: "openstack", address: "libvirt://192.0.2.1", want: "openstack", wantHints: &metal3.RootDeviceHints{DeviceName: "/dev/vdb"}},
		"settled":         {saved: "dell", chosen: "openstack", want: "dell", wantHints: &metal3.RootDeviceHints{HCTL: "0:0:0:0"}},
		"dell-raid":       {chosen: "dell-raid", want: "dell-raid", wantHints: &metal3.RootDeviceHints{HCTL: "0:2:0:0"}},
		"empty":           {chosen: "empty", want: "empty", wantHints: &metal3.RootDeviceHints{}},
		"one that is not": {chosen: "dellraid", want: "dellraid"},
		"case matters":    {chosen: "Dell", want: "Dell"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			host := newHost(withProfile(test.saved, test.chosen, test.address))
			if got := HardwareProfile(host); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if diff := cmp.Diff(test.wantHints, RootDeviceHints(host)); diff != "" {
				t.Errorf("hints, -want +got:\n%s", diff)
			}
		})
	}
}

func TestDefaultRootDeviceHintsOfUnknownName(t *testing.T) {
	hints, err := defaultRootDeviceHints("dellraid")
	if diff := cmp.Diff(&metal3.RootDeviceHints{DeviceName: "/dev/sda"}, hints); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{`"dellraid"`, "dell, dell-raid, empty, libvirt, openstack, unknown", "spec.rootDeviceHints", "/dev/sda"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not tell %q", err, part)
		}
	}
}

// The hints that are handed out are the caller's own.
// TestRootDeviceOfRAID: a volume of software RAID is made of disks, one of which the hardware profile would name.
func TestRootDeviceOfRAID(t *testing.T) {
	own := &metal3.RootDeviceHints{SerialNumber: "S"}
	software := func(root bool) *metal3.RAIDConfig {
		return &metal3.RAIDConfig{SoftwareRAIDVolumes: []metal3.SoftwareRAIDVolume{{Level: "1", RootVolume: root}, {Level: "0"}}}
	}
	for name, tt := range map[string]struct {
		raid        *metal3.RAIDConfig
		hints, want *metal3.RootDeviceHints
	}{
		"none":                               {want: &metal3.RootDeviceHints{DeviceName: "/dev/sda"}},
		"software":                           {raid: software(false)},
		"software, with a root volume":       {raid: software(true)},
		"software, with hints":               {raid: software(false), hints: own, want: own},
		"software, to be removed":            {raid: &metal3.RAIDConfig{SoftwareRAIDVolumes: []metal3.SoftwareRAIDVolume{}}, want: &metal3.RootDeviceHints{DeviceName: "/dev/sda"}},
		"hardware, whose volumes are a disk": {raid: &metal3.RAIDConfig{HardwareRAIDVolumes: []metal3.HardwareRAIDVolume{{Level: "1"}}}, want: &metal3.RootDeviceHints{DeviceName: "/dev/sda"}},
	} {
		host := &metal3.BareMetalHost{Spec: metal3.BareMetalHostSpec{RAID: tt.raid, RootDeviceHints: tt.hints}}
		if diff := cmp.Diff(tt.want, RootDeviceHints(host)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestRootDeviceHintsAreCopies(t *testing.T) {
	for name, host := range map[string]*metal3.BareMetalHost{
		"of the host":    newHost(func(h *metal3.BareMetalHost) { h.Spec.RootDeviceHints.DeviceName = "/dev/sda" }),
		"of the profile": newHost(withProfile("", "", "")),
	} {
		RootDeviceHints(host).DeviceName = "/dev/changed"
		if got := RootDeviceHints(host).DeviceName; got != "/dev/sda" {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
