// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// TestSwitchedOnForReset: a machine that must not be switched off and is off is switched on before what Ironic resets it for by IPMI, if nothing
// is in the way of that.
func TestSwitchedOnForReset(t *testing.T) {
	redfish := func(h *metal3.BareMetalHost) { h.Spec.BMC.Address = "redfish://192.0.2.1/redfish/v1/Systems/1" }
	inspecting := []hostOption{withState(metal3.StateInspecting), inspectionBegan, neverOff}
	deprovisioning := []hostOption{withState(metal3.StateDeprovisioning), neverOff}
	rebuilding := and(provisionedHost, withState(metal3.StateProvisioning), neverOff, func(h *metal3.BareMetalHost) {
		h.Status.OperationHistory.Provision = metal3.OperationMetric{Start: WholeSeconds(now)}
		h.Status.LastAttemptedImage = imageOf(h)
		h.Status.Record.Deployment = &metal3.Deployment{NodeUUID: "u", InstanceUUID: recordedInstance(h), Rebuild: &metal3.Rebuild{}}
	})
	maintained := func(n *ironic.Node) { off(n); n.Maintenance, n.MaintenanceReason = true, "a disk is replaced" }
	for name, test := range map[string]struct {
		host []hostOption
		node *ironic.Node
		held bool // because of another node
		want string
	}{
		"inspected":                  {host: inspecting, node: nodeIn(ironic.Manageable, off), want: "power-on"},
		"inspected while on":         {host: inspecting, node: nodeIn(ironic.Manageable), want: "inspect"},
		"inspected, may be off":      {host: inspecting[:2], node: nodeIn(ironic.Manageable, off), want: "inspect"},
		"inspected by Redfish":       {host: and(inspecting, redfish), node: nodeIn(ironic.Manageable, off), want: "inspect"},
		"undeployed":                 {host: deprovisioning, node: nodeIn(ironic.Active, off), want: "power-on"},
		"undeployed, in maintenance": {host: and(deprovisioning, deleted), node: nodeIn(ironic.Active, maintained), want: "Hold"},
		"rebuilt":                    {host: rebuilding, node: nodeIn(ironic.DeployFail, off), want: "power-on"},
		"BMC of another node's":      {host: inspecting, node: nodeIn(ironic.Manageable, off), held: true, want: "Wait:10s"},
		"refused just now": {host: deprovisioning, node: nodeIn(ironic.DeployFail, off, func(n *ironic.Node) {
			n.LastError = "Failed to change power state to 'power on' by 'power on': IPMI call failed: power on."
		}), want: "Wait:7s"},
		"coming on": {host: deprovisioning, node: nodeIn(ironic.Active, off, func(n *ironic.Node) { n.TargetPowerState = ironic.TargetPowerOn }), want: "Wait"},
	} {
		host := newHost(test.host...)
		s := planned(host, test.node)
		if test.node.LastError != "" {
			s.Hold = 7 * time.Second
		}
		if s.OtherNodes.Exist = test.held; test.held {
			SetHold(host, nextOf(s))
		}
		if got := nextOf(s).String(); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
