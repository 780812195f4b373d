package life

import (
	"strings"
	"testing"

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
	stages := []struct {
		*host
		kind   metal3.ErrorType
		writes int
		wanted metal3.ProvisioningState
	}{
		{cleaning, metal3.ProvisioningError, 1, metal3.StateProvisioned},
		{deploying, metal3.ProvisioningError, 1, metal3.StateProvisioned},
		{deprovisioning, metal3.ProvisioningError, 1, metal3.StateAvailable},
	}
	if s.inspects() {
		stages = append(stages, stages[0])
		inspecting := &stages[len(stages)-1]
		inspecting.host = o.newHost("inspecting", notCleaned, faulty(bmcsim.RefuseConnections), faulty(bmcsim.SilentRamdisk))
		inspecting.kind, inspecting.writes, inspecting.wanted = metal3.InspectionError, 0, metal3.StateAvailable
		inspecting.changedInIronic()
	}
	cleaning.changedInIronic()
	deploying.available()
	deploying.fault(bmcsim.SilentRamdisk)
	deploying.wantImage()
	deprovisioning.provisioned()
	deprovisioning.fault(bmcsim.SilentRamdisk)
	deprovisioning.patch(`{"spec":{"image":null}}`)

	text := "timeout reached"
	if s.release == "trixie" {
		text = "the ramdisk has not called ironic"
	}
	for _, h := range stages {
		h.wait(patience, "given up, and tells why", func(bmh *metal3.BareMetalHost) bool {
			return bmh.Status.ErrorType == h.kind && strings.Contains(strings.ToLower(bmh.Status.ErrorMessage), text) && !isTried(bmh)
		})
		h.mend(bmcsim.SilentRamdisk) // before it is tried again, which would take its time to fail
		h.retry()
	}
	for _, h := range stages {
		h.in(patience, h.wanted)
		h.wrote(h.writes)
	}
}

// changedInIronic waits for a BMC that is silent, changes the node as an operator
// may, and mends the BMC.
func (h *host) changedInIronic() {
	h.t.Helper()
	h.failed(patience, metal3.RegistrationError, "")
	// A node that is its own parent could not be switched on without this, which we set, too.
	change := testbed.Patch{Op: "add", Path: "/driver_info/has_dedicated_power_supply", Value: true}
	if err := s.ironic.Operator().PatchNode(h.ctx, h.ns+"~"+h.name, change); err != nil {
		h.t.Fatal(err)
	}
	h.mend(bmcsim.RefuseConnections)
	h.retry()
}
