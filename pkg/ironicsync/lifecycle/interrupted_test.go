// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// TestInterruptedDeployment: the restart of a conductor uses up none of the attempts to provision a host, and is not
// shown as its error once the node is undeployed.
func TestInterruptedDeployment(t *testing.T) {
	for message, want := range map[string]int{
		"Image could not be written: no space left on device":                                  1,
		"The deploying state can't be resumed by conductor conductor-0. Moving to fail state.": 0,
	} {
		host := newHost(wantsImage("http://a"), withState(metal3.StateAvailable))
		enter(host, nodeIn(ironic.Available), Step{Do: SetState, State: metal3.StateProvisioning}, now)
		node := nodeIn(ironic.DeployFail, func(n *ironic.Node) {
			n.UUID, n.InstanceUUID, n.LastError = host.Status.Provisioning.ID, recordedInstance(host), message
		})
		step := nextOf(planned(host, node))
		if step.State != metal3.StateDeprovisioning || !step.Failed {
			t.Fatalf("the next step is %s", step)
		}
		enter(host, node, step, now)
		enter(host, nodeIn(ironic.Available), Step{Do: SetState, State: metal3.StateAvailable}, now)
		if got := host.Status.ProvisioningFailCount; got != want || (host.Status.Record.Failure != nil) != (want > 0) {
			t.Errorf("%s: %d failed attempts, want %d; the failure is %+v", message, got, want, host.Status.Record.Failure)
		}
	}
}
