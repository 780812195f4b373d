// SPDX-License-Identifier: Apache-2.0

package live_test

import (
	"testing"
	"testing/synctest"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

// TestJustObserved: an observation of the last two seconds serves those who plan a step, unless
// the host was written or something was done to its node since.
func TestJustObserved(t *testing.T) {
	for name, tt := range map[string]struct {
		since func(t *testing.T, b *bench, host *metal3.BareMetalHost)
		found bool
	}{
		"at once":             {func(*testing.T, *bench, *metal3.BareMetalHost) {}, true},
		"a second later":      {func(*testing.T, *bench, *metal3.BareMetalHost) { time.Sleep(time.Second) }, true},
		"three seconds later": {func(*testing.T, *bench, *metal3.BareMetalHost) { time.Sleep(3 * time.Second) }, false},
		"its spec has changed": {func(t *testing.T, b *bench, host *metal3.BareMetalHost) {
			b.hosts.Edit(t, host.Name, func(h *metal3.BareMetalHost) { h.Spec.Online = !h.Spec.Online })
		}, false},
		"something was done to the node": {func(_ *testing.T, b *bench, host *metal3.BareMetalHost) {
			time.Sleep(time.Millisecond)
			b.DiscardObservations(host.UID)
		}, false},
		"something was done and it was observed again": {func(t *testing.T, b *bench, host *metal3.BareMetalHost) {
			time.Sleep(time.Millisecond)
			b.DiscardObservations(host.UID)
			time.Sleep(time.Millisecond)
			if err := b.ObserveHost(t.Context(), host.Namespace, host.Name); err != nil {
				t.Error(err)
			}
		}, true},
		"an observation that began before something was done ends after it": {func(t *testing.T, b *bench, host *metal3.BareMetalHost) {
			held := b.nodes.Hold()
			observed := make(chan error, 1)
			go func() { observed <- b.ObserveHost(t.Context(), host.Namespace, host.Name) }()
			synctest.Wait()
			time.Sleep(time.Millisecond)
			b.DiscardObservations(host.UID)
			b.nodes.Resume()
			close(held)
			if err := <-observed; err != nil {
				t.Error(err)
			}
		}, false},
	} {
		for _, read := range reads {
			t.Run(read.name+", "+name, func(t *testing.T) {
				inBubble(t, 2, func(t *testing.T, b *bench) {
					if err := read.do(t.Context(), b); err != nil {
						t.Fatal(err)
					}
					b.nodes.Say(enginetest.NodeID(0), "changed")
					time.Sleep(5 * time.Second) // so that the first observation does not count
					if err := read.do(t.Context(), b); err != nil {
						t.Fatal(err)
					}
					host := b.hosts.Host(t, enginetest.HostName(0))
					tt.since(t, b, host)
					gets, lists := b.nodes.Asked()
					feeds := b.nodes.Feeds()

					got, node, err := b.JustObserved(t.Context(), host.Namespace, host.Name)
					if err != nil || (got != nil) != tt.found {
						t.Fatalf("host %v, error %v, want one: %t", got, err, tt.found)
					}
					if got != nil && (node.UUID != enginetest.NodeID(0) || node.LastError != "changed" || got.ResourceVersion != host.ResourceVersion) {
						t.Errorf("got node %+v and resourceVersion %s, want %s", node, got.ResourceVersion, host.ResourceVersion)
					}
					if g, l := b.nodes.Asked(); g != gets || l != lists || b.nodes.Feeds() != feeds {
						t.Error("Ironic was asked")
					}
				})
			})
		}
	}
}
