// SPDX-License-Identifier: Apache-2.0

package life

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

func TestImageChangedWhileProvisioned(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, withImage)
	h.provisioned()
	h.states()
	url, checksum := s.machines.AddFile("second.raw", []byte("the second image\n"))
	h.wantImageAt(url, checksum)
	bmh := h.wait("provisioned with the second image", func(bmh *metal3.BareMetalHost) bool {
		return bmh.Status.Provisioning.State == metal3.StateProvisioned && bmh.Status.Provisioning.Image.URL == url
	})
	h.expectStates(metal3.StateProvisioned, metal3.StateDeprovisioning, metal3.StateAvailable, metal3.StateProvisioning, metal3.StateProvisioned)
	h.wrote(2)
	if got := h.machine.Image(); got.URL != url || got.HashValue != checksum {
		t.Errorf("image written: %+v", got)
	}
	if !slices.Contains(h.machine.Steps(), "clean erase_devices_metadata") {
		t.Errorf("nothing was cleaned in between: %q", h.machine.Steps())
	}
	if bmh.Status.ErrorMessage != "" || bmh.Status.ProvisioningFailCount != 0 {
		t.Errorf("error %q, provisioningFailCount %d", bmh.Status.ErrorMessage, bmh.Status.ProvisioningFailCount)
	}
}

// A deployment that is no longer wanted ends at once, and is no failure.
func TestCancelledWhileDeploying(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected)
	h.available()
	h.states()
	h.deploying()
	h.patch(`{"spec":{"image":null}}`)
	bmh := h.available()
	h.expectStates(metal3.StateAvailable, metal3.StateProvisioning, metal3.StateDeprovisioning, metal3.StateAvailable)
	if bmh.Status.ProvisioningFailCount != 0 || bmh.Status.ErrorCount != 0 || bmh.Status.Provisioning.Image.URL != "" {
		t.Errorf("provisioningFailCount %d, errorCount %d, image %+v", bmh.Status.ProvisioningFailCount, bmh.Status.ErrorCount, bmh.Status.Provisioning.Image)
	}
	h.wrote(0)
}

func TestImageChangedWhileDeploying(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned)
	h.available()
	h.deploying()
	h.wantImage()
	bmh := h.provisioned()
	if bmh.Status.ProvisioningFailCount != 0 || bmh.Status.Provisioning.Image.URL != s.machines.FileURL(bmcsim.ImageFile) {
		t.Errorf("provisioningFailCount %d, image %+v", bmh.Status.ProvisioningFailCount, bmh.Status.Provisioning.Image)
	}
	h.wrote(1)
	if got := h.machine.Image().URL; got != s.machines.FileURL(bmcsim.ImageFile) {
		t.Errorf("image %s was written", got)
	}
}

// Only the image's URL makes another image of it, and nothing else installs a
// machine anew.
func TestChangesWithoutEffect(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned, withImage)
	h.provisioned()
	h.states()
	boots := len(h.machine.Boots())
	h.secret("user-data", map[string]string{"userData": "#cloud-config\n"})
	for _, patch := range []string{
		`{"spec":{"image":{"checksum":"0000","checksumType":"md5"}}}`,
		`{"spec":{"image":{"format":"qcow2"}}}`,
		`{"spec":{"userData":{"name":"user-data"}}}`,
		`{"spec":{"rootDeviceHints":{"deviceName":"/dev/sdz"}}}`,
		`{"spec":{"bootMode":"legacy"}}`,
		`{"spec":{"automatedCleaningMode":"metadata","description":"something","hardwareProfile":"dell"}}`,
		`{"metadata":{"labels":{"a":"b"},"annotations":{"c":"d"}}}`,
	} {
		h.patch("%s", patch)
		h.wait("in step with "+patch, func(bmh *metal3.BareMetalHost) bool {
			c := meta.FindStatusCondition(bmh.Status.Conditions, metal3.RegisteredCondition)
			return c != nil && c.ObservedGeneration == bmh.Generation
		})
	}
	h.stays(5*time.Second, "provisioned", func(bmh *metal3.BareMetalHost) bool {
		return bmh.Status.Provisioning.State == metal3.StateProvisioned && bmh.Status.ErrorMessage == ""
	})
	if got := h.states(); !slices.Equal(got, []metal3.ProvisioningState{metal3.StateProvisioned}) {
		t.Errorf("the watcher saw %q", got)
	}
	h.wrote(1)
	if got := len(h.machine.Boots()); got != boots {
		t.Errorf("the machine booted %d times more", got-boots)
	}
}
