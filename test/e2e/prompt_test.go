package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

const powerRequests = "PUT /v1/nodes/{node}/states/power"

// TestSpecChangeReachesIronicAtOnce: steps follow from events, so a changed spec is
// with Ironic within 100 ms. The leader's look at Ironic, each second, would take
// half a second on the average, and so is not what brings it there.
func TestSpecChangeReachesIronicAtOnce(t *testing.T) {
	ctx, ns := s.Begin(t)
	ctx, sim := onSimulatorOfItsOwn(t, ctx, ns, ironicsim.Options{}) // one host, and nobody else's requests
	b := startBMC(t, ctx)
	runningHost(t, ctx, ns, "worker-0", b)

	const worst, attempts = 10 * time.Second, 3
	for attempt := 1; ; attempt++ {
		took, patches := reactions(t, ctx, ns, "worker-0", sim, worst)
		slices.Sort(took)
		slices.Sort(patches)
		median := took[len(took)/2]
		// On a busy machine, the PATCH alone takes several times as long as the ten milliseconds of a quiet one.
		want := max(100*time.Millisecond, 4*patches[len(patches)/2])
		t.Logf("attempt %d: from the PATCH of spec.online to Ironic: median %s, all %s; the PATCH itself: median %s", attempt, median, took, patches[len(patches)/2])
		switch {
		case median < want:
			return
		case attempt == attempts:
			t.Fatalf("a changed spec reached Ironic after %s (median of %d, attempt %d), want %s at most", median, len(took), attempt, want)
		}
		t.Logf("that is more than %s: this machine may be busy, measuring again", want)
	}
}

// reactions measures how long after a change of spec.online is sent Ironic is asked to
// switch the power, again and again, each time from a host at rest, and how long each PATCH takes.
func reactions(t *testing.T, ctx context.Context, ns, name string, sim *simulated, worst time.Duration) (took, patches []time.Duration) {
	t.Helper()
	const rounds = 20
	online := true
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range rounds {
		waitState(t, ctx, ns, name, metal3.StateExternallyProvisioned)
		online = !online
		asked := sim.Stats().Count(powerRequests)
		began := time.Now()
		bed(ctx).PatchHost(t, ctx, ns, name, fmt.Sprintf(`{"spec":{"online":%t}}`, online))
		patches = append(patches, time.Since(began).Round(100*time.Microsecond))
		for sim.Stats().Count(powerRequests) == asked {
			if time.Since(began) > worst {
				t.Fatalf("Ironic was not asked to switch the power within %s of the PATCH", worst)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				t.Fatal(ctx.Err())
			}
		}
		took = append(took, time.Since(began).Round(100*time.Microsecond))
	}
	return took, patches
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
	bed(ctx).WaitHost(t, ctx, ns, "worker-0", 10*time.Second, "shows the reservation", func(h *metal3.BareMetalHost) bool {
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
	unlocked := time.Now()
	waitState(t, ctx, ns, "worker-0", metal3.StateExternallyProvisioned)
	isOn(t, b, false)
	t.Logf("switched off %s after the lock was gone", time.Since(unlocked).Round(time.Millisecond))
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
	bed(ctx).WaitHost(t, ctx, ns, "worker-0", 20*time.Second, "is off", func(h *metal3.BareMetalHost) bool {
		return !h.Status.PoweredOn && isAtRest(h)
	})
	isOn(t, b, false)
	// The first one was without effect on this machine, so it was soft.
	if got := sim.Stats().Count(powerRequests) - asked; got != 2 {
		t.Errorf("Ironic was asked %d times to switch the power, want soft and then hard", got)
	}
	testbed.Eventually(t, ctx, 10*time.Second, func() string {
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
	testbed.Eventually(t, ctx, 30*time.Second, func() string {
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
