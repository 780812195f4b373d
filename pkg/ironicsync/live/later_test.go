// SPDX-License-Identifier: Apache-2.0

package live_test

import (
	"errors"
	"testing"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

// TestLaterRecord: a host that a later version has recorded is neither asked about nor written. Who reads it is told that it is not
// live, however often, and the other hosts are.
func TestLaterRecord(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, b *bench) {
		b.hosts.EditStatus(t, enginetest.HostName(1), func(h *metal3.BareMetalHost) { h.Status.Record.Epoch = metal3.RecordEpoch + 1 })
		version := b.hosts.Host(t, enginetest.HostName(1)).ResourceVersion
		for round := range 3 {
			b.nodes.Say(enginetest.NodeID(0), "of now")
			b.nodes.Say(enginetest.NodeID(1), "not told")
			for _, pause := range []time.Duration{0, 40 * time.Second} { // the next one is a sweep again
				time.Sleep(pause)
				var partial *live.PartialError
				if err := b.RefreshAll(t.Context()); !errors.As(err, &partial) || len(partial.Hosts) != 1 {
					t.Fatalf("round %d: a list: %v", round, err)
				}
				for host, err := range partial.Hosts {
					if later := new(live.LaterError); host.Name != enginetest.HostName(1) || !errors.As(err, &later) {
						t.Errorf("round %d: host %s: %v", round, host, err)
					}
				}
				if got := b.shown(t, 0); got != "of now" {
					t.Errorf("round %d: the other host shows %q", round, got)
				}
			}
			_, err := b.ReadHost(t.Context(), enginetest.Namespace, enginetest.HostName(1))
			if stale, later := new(live.StaleError), new(live.LaterError); !errors.As(err, &stale) || !errors.As(err, &later) {
				t.Errorf("round %d: a read: %v", round, err)
			}
			if _, _, err := b.FreshNode(t.Context(), enginetest.Namespace, enginetest.HostName(1), true); err == nil {
				t.Errorf("round %d: the leader reads it", round)
			}
		}
		why, err := live.NewProver(b.hosts, enginetest.UnknownCluster).WhyUnproven(t.Context(), b.hosts.Host(t, enginetest.HostName(1)), &ironic.Node{UUID: enginetest.NodeID(1)})
		if err != nil || why == "" {
			t.Errorf("its node is proven to be its own (%v)", err)
		}
		if gets, _ := b.nodes.Asked(); gets != 0 {
			t.Errorf("asked for single nodes %d times", gets)
		}
		if got := b.hosts.Host(t, enginetest.HostName(1)); got.ResourceVersion != version {
			t.Errorf("it was written: %+v", got.Status)
		}
	})
}
