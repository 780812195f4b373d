// SPDX-License-Identifier: Apache-2.0

package life

import (
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

// The ramdisk is told of which format an image is.
func TestImageFormats(t *testing.T) {
	t.Parallel()
	for _, format := range []metal3.DiskFormat{metal3.Raw, metal3.QCOW2, metal3.VDI, metal3.VMDK} {
		t.Run(string(format), func(t *testing.T) {
			t.Parallel()
			h := newHost(t, notInspected, notCleaned, withImage, func(h *metal3.BareMetalHost, _ *bmcsim.Machine) { h.Spec.Image.DiskFormat = &format })
			h.provisioned()
			h.wrote(1)
			if image := h.machine.Image(); image.DiskFormat != string(format) {
				t.Errorf("image written: %+v", image)
			}
		})
	}
}
