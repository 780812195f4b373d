// SPDX-License-Identifier: Apache-2.0

package live_test

import (
	"testing"
	"time"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

// inState puts the node of host 0 into a state, which Ironic has changed at a time.
func (b *bench) inState(state ironic.ProvisionState, changed time.Time) {
	b.nodes.Change(func() {
		node := b.nodes.ByID[enginetest.NodeID(0)]
		node.ProvisionState, node.ProvisionUpdatedAt = state, &changed
		b.nodes.Stamp(&node)
		b.nodes.ByID[node.UUID] = node
	})
}

// TestMembersTakeTurns: of two members of Ironic's database, each of which answers every other time, one lags far behind. What it says is not
// recorded.
func TestMembersTakeTurns(t *testing.T) {
	for _, read := range reads {
		t.Run(read.name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, b *bench) {
				earlier := time.Now()
				time.Sleep(time.Minute)
				active := time.Now()
				for second := range 10 {
					b.inState(ironic.Active, active)
					if second%2 == 1 {
						b.inState(ironic.Available, earlier)
					}
					_ = read.do(t.Context(), b)
					if got := b.hosts.Host(t, enginetest.HostName(0)).Status.Ironic; got.ProvisionState != string(ironic.Active) {
						t.Errorf("after %d s the node is recorded as %s", second, got.ProvisionState)
					}
					time.Sleep(time.Second)
				}
			})
		})
	}
}

// TestLaggingDatabase: what a member of Ironic's database shows that lags behind replaces nothing that was newer. A database
// that was restored is believed after two seconds.
func TestLaggingDatabase(t *testing.T) {
	for name, lasts := range map[string]time.Duration{"a lagging member": time.Second, "a restored database": time.Hour} {
		for _, read := range reads {
			t.Run(read.name+", "+name, func(t *testing.T) {
				inBubble(t, 1, func(t *testing.T, b *bench) {
					earlier := time.Now()
					time.Sleep(time.Minute)
					b.inState(ironic.Active, time.Now())
					if err := read.do(t.Context(), b); err != nil {
						t.Fatal(err)
					}
					active := time.Now()
					time.Sleep(time.Minute)
					b.inState(ironic.Available, earlier)
					began := time.Now()
					for second := range 6 {
						if time.Since(began) >= lasts {
							b.inState(ironic.Active, active)
						}
						_ = read.do(t.Context(), b) // says that the status is not live, while it is not
						want := ironic.Active
						if lasts == time.Hour && second >= 2 {
							want = ironic.Available
						}
						if got := b.hosts.Host(t, enginetest.HostName(0)).Status.Ironic; got.ProvisionState != string(want) {
							t.Errorf("after %d s the node is recorded as %s, want %s", second, got.ProvisionState, want)
						}
						time.Sleep(time.Second)
					}
				})
			})
		}
	}
}
