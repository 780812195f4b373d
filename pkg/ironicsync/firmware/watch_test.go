// SPDX-License-Identifier: Apache-2.0

package firmware

import (
	"testing"

	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// TestRefreshWhenNothingElseIsToBeDone: the leader reads the list of a node that stays in its state, and no other: what is
// read on the way is read again at its end.
func TestRefreshWhenNothingElseIsToBeDone(t *testing.T) {
	for name, tt := range map[string]struct {
		state  metal3.ProvisioningState
		change func(*metal3.IronicStatus)
		reads  int
	}{
		"at rest":                  {metal3.StateAvailable, func(*metal3.IronicStatus) {}, 1},
		"locked":                   {metal3.StateAvailable, func(node *metal3.IronicStatus) { node.Reservation = "c-1" }, 0},
		"cleaning":                 {metal3.StatePreparing, func(node *metal3.IronicStatus) { node.ProvisionState = string(ironic.Cleaning) }, 0},
		"its inventory is to come": {metal3.StateInspecting, func(node *metal3.IronicStatus) { node.InventoryPending = true }, 0},
		"its inspection has failed": {metal3.StateInspecting, func(node *metal3.IronicStatus) {
			node.ProvisionState = string(ironic.InspectFail)
		}, 1},
		"it goes on without its inventory": {metal3.StateAvailable, func(node *metal3.IronicStatus) { node.InventoryPending = true }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet("a")
			w := NewWatch(Deps{Settings: f.Settings, Components: NewComponentKeeper(&objects[*metal3.HostFirmwareComponents]{}, nil, clock.RealClock{}), Policies: f.policies}, nil, nil)
			if err := w.bios.informer.GetStore().Add(f.ensure(t, "a")); err != nil {
				t.Fatal(err)
			}
			f.moved("a")
			host := f.hosts["a"]
			host.Status.Provisioning.State = tt.state
			tt.change(host.Status.Ironic)
			f.ironic.asked = nil
			w.Refresh(t.Context(), host)
			if reads := f.ironic.asked["node-a"]; reads != tt.reads {
				t.Errorf("the list was read %d times, want %d", reads, tt.reads)
			}
		})
	}
}
