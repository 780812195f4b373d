// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// TestObserveAskedReboot: only an error about the reboot that was asked for, once Ironic is done with it, makes that due again.
func TestObserveAskedReboot(t *testing.T) {
	const (
		softFailed = "Failed to change power state to 'power on' by 'soft rebooting': no"
		hardFailed = "Failed to change power state to 'power on' by 'rebooting': no"
	)
	for name, test := range map[string]struct {
		asked  ironic.PowerTarget
		node   metal3.IronicStatus
		failed bool
	}{
		"failed":                    {ironic.TargetSoftReboot, metal3.IronicStatus{LastError: softFailed}, true},
		"a hard one failed":         {ironic.TargetReboot, metal3.IronicStatus{LastError: hardFailed}, true},
		"under way":                 {ironic.TargetSoftReboot, metal3.IronicStatus{LastError: softFailed, TargetPowerState: "power on"}, false},
		"locked for it":             {ironic.TargetSoftReboot, metal3.IronicStatus{LastError: softFailed, Reservation: "conductor-0"}, false},
		"carried out":               {ironic.TargetSoftReboot, metal3.IronicStatus{}, false},
		"the soft one before it":    {ironic.TargetReboot, metal3.IronicStatus{LastError: softFailed}, false},
		"something else has failed": {ironic.TargetReboot, metal3.IronicStatus{LastError: "Failed to change power state to 'power off': no"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			node := test.node
			node.NodeUUID, node.PowerState = "node", string(ironic.PowerOn)
			status := &metal3.BareMetalHostStatus{Ironic: &node, Provisioning: metal3.ProvisionStatus{ID: "node"}}
			status.Record.AskedPower = &metal3.AskedPower{NodeUUID: "node", Target: string(test.asked), Times: 1}
			status.Record.Rebooted = map[string]string{metal3.RebootAnnotation: ""}
			observeAskedPower(status)
			if failed := status.Record.Rebooted == nil && status.Record.AskedPower == nil; failed != test.failed {
				t.Errorf("failed: %t, the record is %+v", failed, status.Record)
			}
		})
	}
}
