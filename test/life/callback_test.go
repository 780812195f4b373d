// SPDX-License-Identifier: Apache-2.0

package life

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// A ramdisk that never calls back is given up, at each stage that boots it, and the
// next try brings the host to where it was to go.
//
// Ironic gives up by itself after a minute, here. 29.0.5 does so only as long as
// nobody has changed the node, as an operator does here, and we do to deploy: then it
// is up to --callback-timeout.
func TestSilentRamdisk(t *testing.T) {
	t.Parallel()
	o := startOwnServer(t, "--callback-timeout=90s")
	// All of them at once: each waits for a minute and a half.
	deprovisioning := o.newHost("deprovisioning", notInspected, withImage)
	deploying := o.newHost("deploying", notInspected, notCleaned)
	cleaning := o.newHost("cleaning", notInspected, withImage, faulty(bmcsim.RefuseConnections), faulty(bmcsim.SilentRamdisk))
	type stage struct {
		*host
		kind   metal3.ErrorType
		writes int
		wanted metal3.ProvisioningState
	}
	stages := []stage{
		{cleaning, metal3.ProvisioningError, 1, metal3.StateProvisioned},
		{deploying, metal3.ProvisioningError, 1, metal3.StateProvisioned},
		{deprovisioning, metal3.ProvisioningError, 1, metal3.StateAvailable},
	}
	var inspecting *host
	if s.inspects() {
		inspecting = o.newHost("inspecting", notCleaned, faulty(bmcsim.RefuseConnections), faulty(bmcsim.SilentRamdisk))
		stages = append(stages, stage{inspecting, metal3.InspectionError, 0, metal3.StateAvailable})
	}
	deploying.available()
	deprovisioning.provisioned()
	deploying.fault(bmcsim.SilentRamdisk)
	deploying.wantImage()
	deprovisioning.fault(bmcsim.SilentRamdisk)
	deprovisioning.patch(`{"spec":{"image":null}}`)
	cleaning.changedInIronic()
	if inspecting != nil {
		inspecting.changedInIronic()
	}

	text := "timeout reached"
	if s.release == "trixie" {
		text = "the ramdisk has not called ironic"
	}
	// They are given up in any order. Each is mended at once, because another try would take its time to
	// fail.
	silent := slices.Clone(stages)
	deploying.eventually(func() string {
		var complaints []string
		silent = slices.DeleteFunc(silent, func(h stage) bool {
			bmh, err := h.api.Get(h.ctx, h.name, metav1.GetOptions{})
			switch {
			case err != nil:
				complaints = append(complaints, err.Error())
				return false
			case bmh.Status.ErrorType != h.kind, !strings.Contains(strings.ToLower(bmh.Status.ErrorMessage), text), isTried(bmh):
				complaints = append(complaints, "not given up, or without telling why: "+describe(bmh))
				return false
			}
			h.mend(bmcsim.SilentRamdisk)
			h.retry()
			return true
		})
		return strings.Join(complaints, "; ")
	})
	for _, h := range stages {
		h.in(h.wanted)
		h.wrote(h.writes)
	}
}

// changedInIronic waits for a BMC that is silent, changes the node as an operator
// may, and mends the BMC.
func (h *host) changedInIronic() {
	h.t.Helper()
	h.failed(metal3.RegistrationError, "")
	// A node that is its own parent could not be switched on without this, which we set, too.
	change := testbed.Patch{Op: "add", Path: "/driver_info/has_dedicated_power_supply", Value: true}
	if err := s.ironic.Operator().PatchNode(h.ctx, h.ns+"~"+h.name, change); err != nil {
		h.t.Fatal(err)
	}
	h.mend(bmcsim.RefuseConnections)
	h.retry()
}
