// SPDX-License-Identifier: Apache-2.0

package life

import (
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

// Our server is killed on a host's way back, too: while it is deployed,
// deprovisioned and deleted. TestKilled in test/safety is about any moment.
func TestServerKilledOnTheWayBack(t *testing.T) {
	h := newHost(t, notInspected)
	again := func() {
		t.Helper()
		if err := s.Server.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := s.Server.Start(h.ctx); err != nil {
			t.Fatal(err)
		}
	}
	h.available()
	image := h.deploying()
	again()
	image.release()
	h.provisioned()
	h.wrote(1)
	h.patch(`{"spec":{"image":null}}`)
	again()
	h.wait("deprovisioning", func(bmh *metal3.BareMetalHost) bool {
		return bmh.Status.Provisioning.State == metal3.StateDeprovisioning || bmh.Status.Provisioning.State == metal3.StateAvailable
	})
	h.available()
	h.delete()
	again()
	h.gone()
	if h.machine.Power() != bmcsim.Off {
		t.Error("the machine of a deleted host is on")
	}
}
