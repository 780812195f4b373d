// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// TestSwitchesOn: what is said of the leader is what it does, once it has recorded what it holds the host for.
func TestSwitchesOn(t *testing.T) {
	for name, test := range map[string]struct {
		host      hostOption
		node      func(*ironic.Node)
		situation func(*Situation)
		hold      string
		want      bool
	}{
		"off":                     {want: true},
		"paused":                  {host: annotated(metal3.PausedAnnotation, "")},
		"in a maintenance":        {node: func(n *ironic.Node) { n.Maintenance, n.MaintenanceReason = true, "a disk" }},
		"rescued":                 {node: func(n *ironic.Node) { n.ProvisionState = ironic.Rescue }},
		"a service of another":    {node: func(n *ironic.Node) { n.ProvisionState = ironic.ServiceFail }},
		"etcd restored":           {situation: func(s *Situation) { s.Restored = "a backup" }, hold: metal3.RestoredReason},
		"the operator is running": {situation: func(s *Situation) { s.OperatorRunning = "it is" }, hold: metal3.OperatorRunningReason},
		"its deployment is gone": {host: func(h *metal3.BareMetalHost) {
			h.Status.Record.Deployment.Gone = &metal3.GoneDeployment{Since: created, ProvisionState: "deleting"}
		}, hold: metal3.DeploymentGoneReason},
		"another deployment":      {node: func(n *ironic.Node) { n.InstanceUUID = "b" }, hold: metal3.AnotherDeploymentReason, want: true},
		"another node of its BMC": {situation: func(s *Situation) { s.OtherNodes.Exist = true }, hold: metal3.BMCInUseReason, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			host, node := provisionedBy()
			off(node)
			if test.host != nil {
				test.host(host)
			}
			if test.node != nil {
				test.node(node)
			}
			s := planned(host, node)
			if test.situation != nil {
				test.situation(&s.Situation)
			}
			step := nextOf(s)
			if test.hold != "" {
				if step.Do != Hold || step.Reason != test.hold {
					t.Fatalf("the next step is %s %s", step, step.Reason)
				}
				SetHold(host, step)
				step = nextOf(s)
			}
			if does := step.Do == SwitchPower && step.Power == ironic.TargetPowerOn; does != test.want || SwitchesOn(host, node) != test.want {
				t.Errorf("the next step is %s, and SwitchesOn is %t, want %t", step, SwitchesOn(host, node), test.want)
			}
		})
	}
}
