// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
)

func TestDriverInfo(t *testing.T) {
	type m = map[string]any
	pair := Images{KernelURL: "http://i/kernel", RamdiskURL: "http://i/ramdisk"}
	both := Images{KernelURL: "http://i/kernel", RamdiskURL: "http://i/ramdisk", ISOURL: "http://i/iso"}
	arm := Images{KernelURL: "http://i/arm-kernel", RamdiskURL: "http://i/arm-ramdisk"}
	byArch := Ramdisk{Images: pair, ByArch: map[string]Images{"aarch64": arm}}
	live := wantsImage(imageURL, withFormat(metal3.LiveISO))
	detected := func(arch string) hostOption {
		return func(h *metal3.BareMetalHost) {
			h.Status.HardwareDetails = &metal3.HardwareDetails{CPU: metal3.CPU{Arch: arch}}
		}
	}
	chosen := func(arch string) hostOption {
		return func(h *metal3.BareMetalHost) { h.Spec.Architecture = arch }
	}
	pairInfo := m{"deploy_kernel": "http://i/kernel", "deploy_ramdisk": "http://i/ramdisk", "force_persistent_boot_device": "Default"}
	armInfo := m{"deploy_kernel": "http://i/arm-kernel", "deploy_ramdisk": "http://i/arm-ramdisk", "force_persistent_boot_device": "Default"}
	isoInfo := m{"deploy_iso": "http://i/iso", "force_persistent_boot_device": "Default"}

	tests := map[string]struct {
		options []hostOption
		address string // default ipmi://192.0.2.1
		ramdisk Ramdisk
		want    m
	}{
		"nothing configured":             {want: m{"force_persistent_boot_device": "Default"}},
		"PXE":                            {ramdisk: Ramdisk{Images: both}, want: pairInfo},
		"Redfish PXE":                    {address: "redfish://192.0.2.1", ramdisk: Ramdisk{Images: both}, want: pairInfo},
		"virtual media":                  {address: "redfish-virtualmedia://192.0.2.1", ramdisk: Ramdisk{Images: both}, want: isoInfo},
		"iDRAC virtual media":            {address: "idrac-virtualmedia://192.0.2.1", ramdisk: Ramdisk{Images: both}, want: isoInfo},
		"UEFI HTTP":                      {address: "redfish-uefihttp://192.0.2.1", ramdisk: Ramdisk{Images: both}, want: isoInfo},
		"virtual media, no ISO":          {address: "redfish-virtualmedia://192.0.2.1", ramdisk: Ramdisk{Images: pair}, want: pairInfo},
		"PXE, ISO only":                  {ramdisk: Ramdisk{Images: Images{ISOURL: "http://i/iso"}}, want: m{"force_persistent_boot_device": "Default"}},
		"half of a pair":                 {ramdisk: Ramdisk{Images: Images{KernelURL: "http://i/kernel"}}, want: m{"force_persistent_boot_device": "Default"}},
		"that of the server by default":  {ramdisk: Ramdisk{Images: arm, ByArch: map[string]Images{ArchitectureName(runtime.GOARCH): pair}}, want: pairInfo},
		"architecture of the spec":       {ramdisk: byArch, options: []hostOption{chosen("aarch64"), detected("x86_64")}, want: armInfo},
		"architecture by its other name": {ramdisk: byArch, options: []hostOption{chosen("arm64")}, want: armInfo},
		"architecture of the hardware":   {ramdisk: byArch, options: []hostOption{detected("aarch64")}, want: armInfo},
		"architecture without images":    {ramdisk: byArch, options: []hostOption{chosen("riscv64")}, want: pairInfo},
		"architecture with empty entry":  {ramdisk: Ramdisk{Images: pair, ByArch: map[string]Images{"aarch64": {}}}, options: []hostOption{chosen("aarch64")}, want: pairInfo},
		"kernel parameters": {
			ramdisk: Ramdisk{KernelParams: "console=ttyS0"},
			want:    m{"kernel_append_params": "%default% console=ttyS0", "force_persistent_boot_device": "Default"},
		},

		"persistent, image":        {options: []hostOption{wantsImage(imageURL)}, ramdisk: Ramdisk{ForcePersistentDirect: "Never", ForcePersistentLiveISO: "Always"}, want: m{"force_persistent_boot_device": "Never"}},
		"persistent, custom":       {options: []hostOption{wantsMethod("a")}, ramdisk: Ramdisk{ForcePersistentDirect: "Never", ForcePersistentLiveISO: "Always"}, want: m{"force_persistent_boot_device": "Never"}},
		"persistent, live ISO":     {options: []hostOption{live}, ramdisk: Ramdisk{ForcePersistentDirect: "Never", ForcePersistentLiveISO: "Always"}, want: m{"force_persistent_boot_device": "Always"}},
		"persistent, only direct":  {options: []hostOption{live}, ramdisk: Ramdisk{ForcePersistentDirect: "Never"}, want: m{"force_persistent_boot_device": "Default"}},
		"persistent, runs an ISO":  {options: []hostOption{inState(metal3.StateProvisioned), hasImage(imageURL, withFormat(metal3.LiveISO))}, ramdisk: Ramdisk{ForcePersistentLiveISO: "Always"}, want: m{"force_persistent_boot_device": "Always"}},
		"persistent, nothing runs": {ramdisk: Ramdisk{ForcePersistentLiveISO: "Always"}, want: m{"force_persistent_boot_device": "Default"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			address := test.address
			if address == "" {
				address = "ipmi://192.0.2.1"
			}
			access, err := bmc.Parse(address, false)
			if err != nil {
				t.Fatal(err)
			}
			got := DriverInfo(newHost(test.options...), access, test.ramdisk)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestCapabilities(t *testing.T) {
	tests := []struct {
		existing string
		mode     metal3.BootMode
		want     string
	}{
		{"", "", "boot_mode:uefi"},
		{"", metal3.UEFI, "boot_mode:uefi"},
		{"", metal3.UEFISecureBoot, "boot_mode:uefi,secure_boot:true"},
		{"", metal3.Legacy, "boot_mode:bios"},
		{"boot_mode:uefi", metal3.UEFI, "boot_mode:uefi"},
		{"boot_mode:bios", metal3.UEFI, "boot_mode:uefi"},
		{"cpu_vt:true,boot_mode:bios,cpu_aes:true", metal3.UEFI, "cpu_vt:true,cpu_aes:true,boot_mode:uefi"},
		{"cpu_vt:true,boot_mode:uefi,secure_boot:true", metal3.UEFI, "cpu_vt:true,boot_mode:uefi"},
		{"boot_mode:uefi,secure_boot:true,cpu_vt:true", metal3.Legacy, "cpu_vt:true,boot_mode:bios"},
		{"cpu_vt:true", metal3.UEFISecureBoot, "cpu_vt:true,boot_mode:uefi,secure_boot:true"},
		// As it should be already, whatever the order: nothing to change.
		{"secure_boot:true,cpu_vt:true,boot_mode:uefi", metal3.UEFISecureBoot, "secure_boot:true,cpu_vt:true,boot_mode:uefi"},
		{" boot_mode:uefi , cpu_vt:true ", metal3.UEFI, " boot_mode:uefi , cpu_vt:true "},
		{"boot_mode:uefi,boot_mode:uefi", metal3.UEFI, "boot_mode:uefi"},
		{"boot_mode:uefi,boot_mode:bios", metal3.UEFI, "boot_mode:uefi"},
		{"my_boot_mode:bios,supported_boot_modes:bios", metal3.UEFI, "my_boot_mode:bios,supported_boot_modes:bios,boot_mode:uefi"},
		{",,", metal3.UEFI, "boot_mode:uefi"},
	}
	for _, test := range tests {
		got := Capabilities(test.existing, test.mode)
		if got != test.want {
			t.Errorf("%q, %q: got %q, want %q", test.existing, test.mode, got, test.want)
		}
		if again := Capabilities(got, test.mode); again != got {
			t.Errorf("%q, %q: changes again, to %q", test.existing, test.mode, again)
		}
	}
}
