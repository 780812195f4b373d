// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// FuzzObserve: whatever Ironic says of whatever is stored, nothing panics, a
// second look changes nothing, and no host is taken down that nobody deleted.
func FuzzObserve(f *testing.F) {
	states := sets.List(sets.KeySet(storedStates))
	for i, name := range recordings(f, "*") {
		state := string(storedStates[states[i%len(states)]])
		f.Add(readTestdata(f, name+".json"), state, "error", "power management error", "no", "SecretNotFound", uint8(i))
	}
	f.Fuzz(func(t *testing.T, nodeJSON []byte, state, operational, errorType, errorMessage, registered string, flags uint8) {
		var node *ironic.Node
		if json.Unmarshal(nodeJSON, &node) != nil {
			return
		}
		host := newHost(withState(metal3.ProvisioningState(state)), withError(metal3.ErrorType(errorType), errorMessage, 1))
		host.Status.OperationalStatus = metal3.OperationalStatus(operational)
		for i, change := range []hostOption{
			externallyProvisioned, deleted, annotated(metal3.InspectAnnotation, ""), withPower(true),
			withRegistration(registered, errorMessage),
			func(h *metal3.BareMetalHost) { h.Status.Conditions = nil },
			func(h *metal3.BareMetalHost) { h.Status.Ironic = &metal3.IronicStatus{NodeUUID: state} },
			func(h *metal3.BareMetalHost) { h.Status.OperationHistory.Inspect.Start = created },
		} {
			if flags&(1<<i) != 0 {
				change(host)
			}
		}
		seen := Observation{Node: node}
		if seen.NeedsInventory(host) {
			seen.Inspected = &Inspected{}
		}
		status, changed := Observe(host, seen, now)
		written := host.Status.LastUpdated
		if changed {
			written = &metav1.Time{Time: now.Truncate(time.Second)}
		}
		if !written.Equal(status.LastUpdated) {
			t.Errorf("changed is %v, lastUpdated is %v, want %v", changed, status.LastUpdated, written)
		}
		host.Status = status
		host = stored(t, host)
		if again, changed := Observe(host, seen, now.Add(time.Hour)); changed {
			t.Errorf("changed by nothing (-before +after):\n%s", cmp.Diff(status, again))
		}
		switch concealed := seen.IsConcealed(host); {
		case node == nil:
		case !concealed && status.Provisioning.ID != node.UUID:
			t.Errorf("provisioning.ID is %q, the node is %q", status.Provisioning.ID, node.UUID)
		case concealed && *status.Ironic != metal3.IronicStatus{NodeUUID: host.Status.Provisioning.ID, Unproven: status.Ironic.Unproven}:
			t.Errorf("of a node that is not proven to be the host's, %+v is shown", status.Ironic)
		}
		step := Next(planned(host, nil).Situation)
		if host.DeletionTimestamp.IsZero() && (step.Do == DeleteNode || step.Target == ironic.TargetDeleted) {
			t.Errorf("%s for a host that nobody deleted", step)
		}
		if host.Spec.ExternallyProvisioned && step.Target == ironic.TargetDeleted {
			t.Errorf("%s for an externally provisioned host", step)
		}
	})
}

// FuzzHardwareFrom: an inventory comes from a machine that may be anybody's.
func FuzzHardwareFrom(f *testing.F) {
	for _, release := range releases {
		f.Add(readTestdata(f, release+"-inventory.json"))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		raw := &ironic.Inventory{}
		if json.Unmarshal(answer, raw) != nil {
			return
		}
		hardware, _, err := HardwareFrom(raw, nil)
		if err != nil {
			return
		}
		if _, err := json.Marshal(hardware); err != nil {
			t.Errorf("hardware that cannot be stored: %v", err)
		}
		data := &metal3.HardwareData{Spec: metal3.HardwareDataSpec{HardwareDetails: hardware}}
		if errs := validation.ValidateHardwareData(data, nil); len(errs) > 0 {
			t.Errorf("hardware of which there can be no HardwareData: %v", errs)
		}
		again, unread, err := HardwareFrom(raw, hardware)
		if err != nil {
			t.Errorf("the inventory cannot be read any more: %v", err)
		}
		if diff := cmp.Diff(hardware, again); diff != "" && unread == "" {
			t.Errorf("the same inventory is read in another way (-before +after):\n%s", diff)
		}
	})
}
