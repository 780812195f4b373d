// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// TestDisksAreWrittenForImagesOnly accounts for what a host's life does to its disks:
// nothing until there is an image; then they are cleaned and written to, and cleaned
// once more when it goes. What is clean is not cleaned again.
func TestDisksAreWrittenForImagesOnly(t *testing.T) {
	t.Parallel()
	sim := needsSimulator(t)
	ctx, ns := s.Begin(t)
	createSecret(t, ctx, ns, "creds", "admin", "password")
	createHost(t, ctx, ns, "worker-0", startBMC(t, ctx).Address(), "creds", "", wholeLife)
	host := bed(ctx).WaitHost(t, ctx, ns, "worker-0", "is available", func(h *metal3.BareMetalHost) bool {
		return h.Status.Provisioning.State == metal3.StateAvailable && h.Status.PoweredOn && h.Status.ErrorMessage == ""
	})
	id := host.Status.Provisioning.ID
	var want []string
	expect := func(after string, more ...string) {
		t.Helper()
		want = append(want, more...)
		var got []string
		for _, write := range sim.DiskWrites(id) {
			got = append(got, write.Step)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: steps that wrote to disks (-want +got):\n%s", after, diff)
		}
	}
	provisioned := func() {
		t.Helper()
		bed(ctx).PatchHost(t, ctx, ns, "worker-0", wantImage)
		bed(ctx).WaitHost(t, ctx, ns, "worker-0", "is provisioned", func(h *metal3.BareMetalHost) bool {
			return h.Status.Provisioning.State == metal3.StateProvisioned
		})
	}
	expect("enrolled and inspected")
	if host.Status.Ironic.ProvisionState != "manageable" {
		t.Errorf("the node of a host that is new and available is %s", host.Status.Ironic.ProvisionState)
	}
	provisioned()
	expect("provisioned", "deploy.erase_devices_metadata", "deploy.write_image")
	bed(ctx).PatchHost(t, ctx, ns, "worker-0", `{"spec":{"image":null}}`)
	bed(ctx).WaitHost(t, ctx, ns, "worker-0", "is available again", func(h *metal3.BareMetalHost) bool {
		return h.Status.Provisioning.State == metal3.StateAvailable
	})
	expect("deprovisioned", "deploy.erase_devices_metadata")
	provisioned()
	expect("provisioned again", "deploy.write_image")
	bed(ctx).DeleteHost(t, ctx, ns, "worker-0")
	waitGone(t, ctx, ns, "worker-0")
	expect("deleted", "deploy.erase_devices_metadata")
}
