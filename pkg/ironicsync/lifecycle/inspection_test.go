// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// The life of an inspection: it begins, its inventory is fetched once, it may be
// made again, and hardware that was found stays when the next one fails.
func TestObserveInspection(t *testing.T) {
	for _, release := range []string{"trixie", "sid"} {
		waiting, finished, failed := recorded(t, release+"-inspect-wait"), recorded(t, release+"-inspected"), recorded(t, release+"-inspect-failed")
		host := newHost()
		inspect := func() metal3.OperationMetric { return host.Status.OperationHistory.Inspect }

		host = observe(host, waiting)
		if NeedsInventory(host, waiting) {
			t.Errorf("%s: asks for the inventory of an inspection that is going on", release)
		}
		if got := inspect(); got.Start.Unix() != waiting.InspectionStartedAt.Unix() || !got.End.IsZero() {
			t.Errorf("%s: begun: %v", release, got)
		}

		host = observe(host, finished)
		if !NeedsInventory(host, finished) {
			t.Errorf("%s: does not ask for the inventory", release)
		}
		if got := inspect(); got.Start.Unix() != waiting.InspectionStartedAt.Unix() || !got.End.IsZero() {
			t.Errorf("%s: finished, inventory not read yet: %v", release, got)
		}

		hardware := &metal3.HardwareDetails{Hostname: "host-1"}
		seen := Observation{Node: finished, Inspected: &Inspected{Hardware: hardware}}
		host.Status, _ = Observe(host, seen, now)
		if NeedsInventory(host, finished) || NeedsInventory(stored(t, host), finished) {
			t.Errorf("%s: asks for the inventory again", release)
		}
		if got := inspect(); !got.End.Equal(&metav1.Time{Time: WholeSeconds(now).Time}) || host.Status.HardwareDetails.Hostname != "host-1" {
			t.Errorf("%s: inventory read: %v, %v", release, got, host.Status.HardwareDetails)
		}
		quietly(t, release, stored(t, host), seen, now)

		again := *waiting
		later := now.Add(time.Hour)
		again.InspectionStartedAt = &later
		host = observe(host, &again)
		if got := inspect(); got.Start.Unix() != later.Unix() || !got.End.IsZero() {
			t.Errorf("%s: begun again: %v", release, got)
		}
		host = observe(host, failed)
		if host.Status.HardwareDetails == nil || host.Status.ErrorType != metal3.InspectionError {
			t.Errorf("%s: the second one failed: hardware %v, error %q", release, host.Status.HardwareDetails, host.Status.ErrorType)
		}
	}
}

// An inspection without inventory, such as fake-hardware's, ends all the same.
func TestObserveInspectionWithoutInventory(t *testing.T) {
	for _, name := range inEachRelease(t, "fake-inspected") {
		node := recorded(t, name)
		host := newHost(func(h *metal3.BareMetalHost) { h.Status.HardwareDetails = &metal3.HardwareDetails{Hostname: "host-1"} })
		host.Status, _ = Observe(host, Observation{Node: node, Inspected: &Inspected{}}, now)
		if NeedsInventory(host, node) {
			t.Errorf("%s: asks for the inventory for ever", name)
		}
		if host.Status.HardwareDetails == nil {
			t.Errorf("%s: the hardware known earlier is gone", name)
		}
	}
}

func TestNeedsInventory(t *testing.T) {
	for state, want := range map[ironic.ProvisionState]bool{
		ironic.Manageable: true, ironic.Available: true, ironic.Active: true, ironic.InspectFail: true,
		ironic.Inspecting: false, ironic.InspectWait: false, // a new one is under way
	} {
		node := &ironic.Node{Address: ownBMC, ProvisionState: state, InspectionFinishedAt: &now}
		if got := NeedsInventory(newHost(), node); got != want {
			t.Errorf("%s: %v, want %v", state, got, want)
		}
	}
	if NeedsInventory(newHost(), &ironic.Node{Address: ownBMC, ProvisionState: ironic.Manageable}) {
		t.Error("asks for the inventory of a node that was never inspected")
	}
	refused := &ironic.Node{Address: ownBMC, ProvisionState: ironic.Manageable, InspectionFinishedAt: &now, LastError: "No free conductor workers available"}
	if NeedsInventory(newHost(), refused) {
		t.Error("asks for the inventory of an inspection that Ironic has refused")
	}
}

// A host that was moved here keeps what its status says of its inspection, also nothing, though its inventory is read
// for the first time here: this server has not inspected it.
func TestObserveInspectionOfMovedHost(t *testing.T) {
	finished := recorded(t, "trixie-inspected")
	at := func(d time.Duration) metav1.Time { return WholeSeconds(finished.InspectionFinishedAt.Add(d)) }
	for name, history := range map[string]metal3.OperationMetric{
		"known":                     {Start: at(-time.Minute), End: at(2 * time.Second)},
		"by a clock that is behind": {Start: at(-time.Hour), End: at(-time.Minute)},
		"not told":                  {},
	} {
		host := newHost(withState(metal3.StateProvisioned), func(h *metal3.BareMetalHost) { h.Status.OperationHistory.Inspect = history })
		status, _ := Observe(host, Observation{Node: finished, Inspected: &Inspected{Hardware: &metal3.HardwareDetails{}}}, now)
		if got := status.OperationHistory.Inspect; got != history {
			t.Errorf("%s: the inspection is said to have begun at %s and ended at %s, want %s and %s", name, got.Start, got.End, history.Start, history.End)
		}
		if status.HardwareDetails == nil {
			t.Errorf("%s: the inventory was not taken over", name)
		}
		host.Status = status
		MarkDetached(host, now)
		if !WasInspected(host) {
			t.Errorf("%s: without its node, the hardware is taken for given", name)
		}
	}
}

// An inspection whose beginning nobody saw spans no time before it.
func TestObserveInspectionMissed(t *testing.T) {
	finished := recorded(t, "trixie-inspected")
	earlier := metav1.NewMicroTime(finished.InspectionFinishedAt.Add(-time.Hour))
	host := newHost(withState(metal3.StateAvailable), func(h *metal3.BareMetalHost) {
		h.Status.OperationHistory.Inspect = metal3.OperationMetric{Start: WholeSeconds(earlier.Add(-time.Hour)), End: WholeSeconds(earlier.Time)}
		h.Status.Ironic = &metal3.IronicStatus{NodeUUID: finished.UUID, InspectionFinishedAt: &earlier}
	})
	status, _ := Observe(host, Observation{Node: finished, Inspected: &Inspected{}}, now)
	if got, want := status.OperationHistory.Inspect, (metal3.OperationMetric{Start: WholeSeconds(*finished.InspectionFinishedAt), End: WholeSeconds(now)}); got != want {
		t.Errorf("begun at %s and ended at %s, want %s and %s", got.Start, got.End, want.Start, want.End)
	}
}
