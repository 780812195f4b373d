// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestWatchersWhateverTheClock: with nobody reading, a change in Ironic reaches a watcher, whatever Ironic's clock says and
// though its conductors do not agree. That it takes no sweep is tested by the engine's TestChangesWhateverTheClock.
func TestWatchersWhateverTheClock(t *testing.T) {
	const nodes = 8
	for _, test := range []struct {
		name  string
		clock ironicsim.Clock
		// prepare is for the clocks of conductors.
		prepare func(t *testing.T, sim *simulated, ids []string)
	}{
		{name: "IronicAhead", clock: ironicsim.Clock{Offset: 10 * time.Minute}},
		{name: "IronicBehind", clock: ironicsim.Clock{Offset: -10 * time.Minute}},
		{name: "WholeSeconds", clock: ironicsim.Clock{WholeSeconds: true}},
		{name: "NodeOfTheFuture", prepare: func(t *testing.T, sim *simulated, ids []string) {
			// A conductor's clock was wrong for a moment: nothing else is to happen to this node.
			id, err := sim.CreateNode(map[string]any{"driver": "fake-hardware"})
			if err != nil {
				t.Fatal(err)
			}
			setNodeClock(t, sim, id, time.Hour)
			if err := sim.SetNode(id, nil); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "HostOfTheFuture", prepare: func(t *testing.T, sim *simulated, ids []string) {
			setNodeClock(t, sim, ids[0], time.Hour)
		}},
		{name: "ConductorBehind", prepare: func(t *testing.T, sim *simulated, ids []string) {
			for i := 1; i < nodes; i += 2 {
				setNodeClock(t, sim, ids[i], -time.Second)
			}
		}},
		{name: "ConductorAhead", prepare: func(t *testing.T, sim *simulated, ids []string) {
			for i := 0; i < nodes; i += 2 {
				setNodeClock(t, sim, ids[i], time.Second)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, ns := s.Begin(t)
			ctx, sim := onSimulatorOfItsOwn(t, ctx, ns, ironicsim.Options{})
			sim.SetClock(test.clock)
			var ids []string
			for i := range nodes {
				id := observedHost(t, ctx, ns, fmt.Sprintf("w-%d", i)).Status.Provisioning.ID
				if err := sim.SetNode(id, map[string]any{"maintenance": true, "maintenance_reason": "before"}); err != nil {
					t.Fatal(err)
				}
				ids = append(ids, id)
			}
			if test.prepare != nil {
				test.prepare(t, sim, ids)
			}
			expectArrivals(t, ctx, ns, sim, ids)
		})
	}
}

// expectArrivals changes nodes, one after the other and at all moments between two looks of the leader, and expects each of
// the changes to reach a watcher.
func expectArrivals(t *testing.T, ctx context.Context, ns string, sim *simulated, ids []string) {
	t.Helper()
	const reason = "changed"
	hosts := bed(ctx).Hosts(ns)
	list, err := hosts.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watcher, err := hosts.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	// From here on nobody reads. The leader has looked often enough to know the newest.
	looks := looksAtNodes(sim)
	testbed.EventuallyEvery(t, ctx, 50*time.Millisecond, func() string {
		if n := looksAtNodes(sim) - looks; n < 3 {
			return fmt.Sprintf("the leader has looked at Ironic %d times", n)
		}
		return ""
	})
	missing := sets.New(ids...)
	tick := time.NewTicker(350 * time.Millisecond)
	defer tick.Stop()
	for _, id := range ids {
		if err := sim.SetNode(id, map[string]any{"maintenance_reason": reason}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		}
	}
	for missing.Len() > 0 {
		host := awaitEvent(t, ctx, watcher, func(h *metal3.BareMetalHost) bool {
			return h.Status.Ironic != nil && h.Status.Ironic.MaintenanceReason == reason
		})
		missing.Delete(host.Status.Ironic.NodeUUID)
	}
}

// looksAtNodes counts the requests for lists of nodes.
func looksAtNodes(sim *simulated) int {
	n := 0
	for kind, count := range sim.Stats().Requests {
		if strings.HasPrefix(kind, "GET /v1/nodes?") {
			n += count
		}
	}
	return n
}

// TestInventoryWhateverTheClock: Ironic calls a node manageable a moment before it stores
// what the inspection found, and that is waited for whatever its clock says.
func TestInventoryWhateverTheClock(t *testing.T) {
	for name, offset := range map[string]time.Duration{"IronicAhead": 10 * time.Minute, "IronicBehind": -10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, ns := s.Begin(t)
			ctx, sim := onSimulatorOfItsOwn(t, ctx, ns, ironicsim.Options{InventoryLag: 3 * time.Second})
			sim.SetClock(ironicsim.Clock{Offset: offset})
			b := startBMC(t, ctx)
			createSecretOnce(t, ctx, ns, "bmc")
			createHost(t, ctx, ns, "worker-0", b.Address(), "bmc", "", wholeLife)
			if host := waitAvailable(t, ctx, ns, "worker-0"); host.Status.HardwareDetails == nil {
				t.Error("the inventory of the inspected host was given up before Ironic had stored it")
			}
		})
	}
}
