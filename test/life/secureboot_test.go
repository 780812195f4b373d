// SPDX-License-Identifier: Apache-2.0

package life

import (
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

// What is deployed with UEFISecureBoot boots with signatures verified; the ramdisk
// that cleans after it, and whatever comes then, without.
func TestSecureBoot(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		options []option
	}{
		{"network boot", nil},
		{"virtual media", []option{virtualMedia}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, append(test.options, notInspected, func(h *metal3.BareMetalHost, _ *bmcsim.Machine) {
				h.Spec.BootMode = metal3.UEFISecureBoot
			})...)
			h.available()
			if h.machine.SecureBoot() {
				t.Error("secure boot is on before anything is deployed")
			}
			h.wantImage()
			bmh := h.provisioned()
			if !h.machine.SecureBoot() || h.machine.Running() != bmcsim.RunningDisk {
				t.Errorf("provisioned, running %s, with secure boot %t", h.machine.Running(), h.machine.SecureBoot())
			}
			if mode := bmh.Status.Provisioning.BootMode; mode != metal3.UEFISecureBoot {
				t.Errorf("status.provisioning.bootMode is %q", mode)
			}
			h.patch(`{"spec":{"image":null}}`)
			h.available()
			if h.machine.SecureBoot() {
				t.Error("deprovisioned, and secure boot is still on")
			}
		})
	}
}
