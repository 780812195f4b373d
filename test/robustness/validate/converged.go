// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"fmt"

	"github.com/metal3-io/metal3-apiserver/test/robustness/history"
)

// Converged finds hosts that have not become what their specs ask for when all faults had ended, and nodes in Ironic that belong to
// no host any more, or of which there are two for one machine.
func Converged(entries []history.Entry) (violations []Violation) {
	finals := each(entries, final)
	if len(finals) == 0 {
		return nil // the run was broken off
	}
	ids := map[string]bool{}
	for _, f := range finals {
		ids[f.Host.ID] = true
		if f.Complaint != "" {
			violations = append(violations, Violation{"Converged", f.Host.Name, history.Never, f.Complaint})
		}
	}
	last := map[string]*history.Node{}
	for _, n := range each(entries, node) {
		last[n.UUID] = n
	}
	of := map[string]string{}
	for uuid, n := range last {
		switch {
		case n.Gone:
			continue
		case !ids[uuid]:
			violations = append(violations, Violation{"Converged", "", n.At, fmt.Sprintf("node %s, with BMC %s, belongs to no host", uuid, n.BMC)})
		}
		if n.BMC != "" && of[n.BMC] != "" {
			violations = append(violations, Violation{"Converged", "", n.At, fmt.Sprintf("nodes %s and %s have the BMC %s", uuid, of[n.BMC], n.BMC)})
		}
		of[n.BMC] = uuid
	}
	return violations
}

// AtRest tells why a host is not as its spec asks, or is not done yet; empty if it is.
func AtRest(h history.Host) string {
	image := h.Write.Image
	if !h.Write.Online && h.Image == "" {
		image = "" // a host that is to be off is not deployed
	}
	want := map[bool]string{true: "available", false: "provisioned"}[image == ""]
	states := map[string][]string{"available": {"manageable", "available"}, "provisioned": {"active"}}[want]
	power := map[bool]string{true: "power on", false: "power off"}[h.Write.Online]
	n := h.Node
	switch {
	case h.Deleting:
		return "it is still being deleted"
	case h.Trouble != "":
		return "it has the error " + h.Trouble
	case h.State != want, h.Image != image:
		return fmt.Sprintf("it is %s with image %q, and its spec asks for %s with %q", h.State, h.Image, want, image)
	case n == nil:
		return "it shows no node"
	case n.ProvisionState != states[0] && n.ProvisionState != states[len(states)-1]:
		return fmt.Sprintf("it is %s, and its node %s", h.State, describe(n))
	case n.PowerState != power, n.TargetPowerState != "", n.Reservation != "", n.Maintenance:
		return fmt.Sprintf("its node is %s, and its spec asks for %s", describe(n), power)
	}
	return ""
}
