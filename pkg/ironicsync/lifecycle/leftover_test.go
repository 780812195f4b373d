// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// A host was made to go without its node, and was created again: it takes over what
// it finds by its name.
func TestNextOfLeftOverNode(t *testing.T) {
	found := func(state ironic.ProvisionState, options ...hostOption) string {
		host := observe(newHost(options...), nodeIn(state))
		return nextOf(planned(host, nodeIn(state))).String()
	}
	for _, state := range []ironic.ProvisionState{ironic.DeployFail, ironic.Error} { // neither runs anything
		if got := found(state, wantsImage("http://images/a")); got != "=deprovisioning" {
			t.Errorf("%s, image wanted: %s, want =deprovisioning", state, got)
		}
	}
	// What may run is not ours, and what an operator does with a host that is in use
	// is not either.
	for name, options := range map[string][]hostOption{
		"externally provisioned": {externallyProvisioned},
		"available until now":    {prepared},
		"and an image is wanted": {prepared, wantsImage("http://images/a")},
	} {
		if got := found(ironic.DeployFail, options...); got != "Wait" {
			t.Errorf("deploy failed, %s: %s, want Wait", name, got)
		}
	}
	// The condition of a host that had one failed attempt is its own.
	ours := []hostOption{withState(metal3.StateProvisioning), wantsImage("http://images/a"), attempting("http://images/a")}
	if got := found(ironic.DeployFail, ours...); got != "!deprovisioning" {
		t.Errorf("our own attempt: %s, want !deprovisioning", got)
	}
}
