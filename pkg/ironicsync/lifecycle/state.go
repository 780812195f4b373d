// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// stateOf returns the provisioning state of the host after an observation. Normally it is the
// recorded one, which only Next changes. An observation changes it only if the state of the
// node contradicts it, because an operator has acted on the node or Ironic has lost its data.
// A host that is provisioned remains so in any case, because the steps that follow from other
// states would destroy the contents of its disks.
func stateOf(host *metal3.BareMetalHost, node *Node) metal3.ProvisioningState {
	stored := host.Status.Provisioning.State
	switch stored {
	case metal3.StateNone, metal3.StateUnmanaged:
		stored = metal3.StateRegistering
	case metal3.StateRegistering, metal3.StateInspecting, metal3.StateMatchProfile, metal3.StatePreparing, metal3.StateAvailable, metal3.StateReady:
	default:
		return stored
	}
	switch node.ProvisionState {
	case ironic.Enroll, ironic.Verifying:
		return metal3.StateRegistering

	case ironic.Inspecting, ironic.InspectWait, ironic.InspectFail:
		return metal3.StateInspecting

	case ironic.Cleaning, ironic.CleanWait, ironic.CleanFail, ironic.CleanHold:
		return metal3.StatePreparing

	case ironic.Deploying, ironic.DeployWait, ironic.DeployFail, ironic.DeployHold:
		return metal3.StateProvisioning

	case ironic.Deleting, ironic.Error:
		return metal3.StateDeprovisioning
	}
	return stored
}

func isServicing(s ironic.ProvisionState) bool {
	switch s {
	case ironic.Servicing, ironic.ServiceWait, ironic.ServiceHold:
		return true
	}
	return false
}
