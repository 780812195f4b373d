// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

const powerRequests = "PUT /v1/nodes/{node}/states/power"

// TestSpecChangeReachesIronic: what the spec says of the power is asked of Ironic, again and again, each time from a host
// at rest. That this takes no look of the leader's is tested by the engine's TestSpecChangesAreTakenAtOnce.
func TestSpecChangeReachesIronic(t *testing.T) {
	ctx, ns := s.Begin(t)
	ctx, sim := onSimulatorOfItsOwn(t, ctx, ns, ironicsim.Options{}) // one host, and nobody else's requests
	b := startBMC(t, ctx)
	runningHost(t, ctx, ns, "worker-0", b)
	online := true
	for range 6 {
		waitState(t, ctx, ns, "worker-0", metal3.StateExternallyProvisioned)
		online = !online
		asked := sim.Stats().Count(powerRequests)
		bed(ctx).PatchHost(t, ctx, ns, "worker-0", fmt.Sprintf(`{"spec":{"online":%t}}`, online))
		testbed.EventuallyEvery(t, ctx, 10*time.Millisecond, func() string {
			if sim.Stats().Count(powerRequests) == asked {
				return "Ironic was not asked to switch the power"
			}
			return ""
		})
	}
	waitState(t, ctx, ns, "worker-0", metal3.StateExternallyProvisioned)
	isOn(t, b, online)
}

// TestLockedNode: who has the node locked is shown, it is nobody's error, and what
// the spec wants is done when the lock is gone.
func TestLockedNode(t *testing.T) {
	t.Parallel()
	sim := needsSimulator(t)
	ctx, ns := s.Begin(t)
	b := startBMC(t, ctx)
	id := runningHost(t, ctx, ns, "worker-0", b).Status.Provisioning.ID
	if err := sim.LockNode(id, "conductor-7"); err != nil {
		t.Fatal(err)
	}
	bed(ctx).PatchHost(t, ctx, ns, "worker-0", `{"spec":{"online":false}}`)
	bed(ctx).WaitHost(t, ctx, ns, "worker-0", "shows the reservation", func(h *metal3.BareMetalHost) bool {
		return h.Status.Ironic != nil && h.Status.Ironic.Reservation == "conductor-7"
	})
	out := kubectl(t, ctx, "", "get", "bmh", "worker-0", "-n", ns, "-o", "jsonpath={.status.ironic.reservation}")
	if out != "conductor-7" {
		t.Errorf("kubectl shows the reservation %q", out)
	}
	if h := settled(t, ctx, ns, "worker-0"); h.Status.ErrorMessage != "" || h.Status.ErrorCount != 0 || h.Status.OperationalStatus != metal3.OperationalStatusOK ||
		h.Status.Ironic.Reservation != "conductor-7" || !h.Status.PoweredOn {
		t.Errorf("while it is locked: %+v", h.Status)
	}
	isOn(t, b, true)
	if err := sim.UnlockNode(id); err != nil {
		t.Fatal(err)
	}
	waitState(t, ctx, ns, "worker-0", metal3.StateExternallyProvisioned)
	isOn(t, b, false)
}

// TestSoftPowerOffIgnored: a system that does not shut down is asked to first, and
// its power is cut when Ironic has waited long enough for it.
func TestSoftPowerOffIgnored(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	// We ask Ironic to wait three minutes.
	ctx, sim := onSimulatorOfItsOwn(t, ctx, ns, ironicsim.Options{MaxPowerTimeout: time.Second})
	b := startBMC(t, ctx)
	runningHost(t, ctx, ns, "worker-0", b)
	b.(simulatedBMC).SetNoSoftPower(true)
	w := watchHosts(t, ctx, ns)
	asked := sim.Stats().Count(powerRequests)
	bed(ctx).PatchHost(t, ctx, ns, "worker-0", `{"spec":{"online":false}}`)
	bed(ctx).WaitHost(t, ctx, ns, "worker-0", "is off", func(h *metal3.BareMetalHost) bool {
		return !h.Status.PoweredOn && isAtRest(h)
	})
	isOn(t, b, false)
	// The first one was without effect on this machine, so it was soft.
	if got := sim.Stats().Count(powerRequests) - asked; got != 2 {
		t.Errorf("Ironic was asked %d times to switch the power, want soft and then hard", got)
	}
	testbed.Eventually(t, ctx, func() string {
		if got := powers(w); !slices.Equal(got, []bool{true, false}) {
			return fmt.Sprintf("a watcher saw its power %v, want on, off", got)
		}
		return ""
	})
}

// TestPowerDriftWhenProvisioned: a host that we deployed comes back on like any other.
// Ironic 29.0.5 does not notice its power button any more, so this is another Ironic.
func TestPowerDriftWhenProvisioned(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	ctx, sim := onSimulatorOfItsOwn(t, ctx, ns, ironicsim.Options{WithoutDefects: true, PowerSyncInterval: time.Second})
	b := startBMC(t, ctx)
	createSecretOnce(t, ctx, ns, "bmc")
	createHost(t, ctx, ns, "worker-0", b.Address(), "bmc", "")
	id := waitAvailable(t, ctx, ns, "worker-0").Status.Provisioning.ID
	bed(ctx).PatchHost(t, ctx, ns, "worker-0", wantImage)
	waitState(t, ctx, ns, "worker-0", metal3.StateProvisioned)
	w := watchHosts(t, ctx, ns)
	if err := b.SetPower(false); err != nil {
		t.Fatal(err)
	}
	testbed.Eventually(t, ctx, func() string {
		if got := powers(w); !slices.Equal(got, []bool{true, false, true}) {
			return fmt.Sprintf("a watcher saw its power %v, want on, off, on", got)
		}
		return ""
	})
	waitState(t, ctx, ns, "worker-0", metal3.StateProvisioned)
	isOn(t, b, true)
	sawStates(t, ctx, w, metal3.StateProvisioned)
	if got := sim.ProvisionTargets(id); !slices.Equal(got, []string{"manage", "provide", "active"}) {
		t.Errorf("Ironic was asked for %q", got)
	}
}
