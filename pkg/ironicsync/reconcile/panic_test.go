// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/reconcile"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// panicking panics when a transition of one node is requested.
type panicking struct {
	ironicClient
	node   func() string
	mended atomic.Bool
}

func (p *panicking) SetProvisionState(ctx context.Context, fence ironic.Fence, id string, target ironic.ProvisionTarget, options ironic.ProvisionOptions) error {
	if id == p.node() && !p.mended.Load() {
		panic("a bug")
	}
	return p.ironicClient.SetProvisionState(ctx, fence, id, target, options)
}

// TestBugOfOneHost: one host that the server cannot cope with says so, and all others go on.
func TestBugOfOneHost(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.stop()
		client := &panicking{ironicClient: w.sim, node: func() string { return w.host().Status.Provisioning.ID }}
		ctx, cancel := context.WithCancel(t.Context())
		w.run(ctx, cancel, w.hosts, client, reconcile.Settings{BMCs: anywhere, Images: anywhere, MaxProvisioningRetries: 3, Workers: 1, PollInterval: time.Second})
		w.secret("secret")
		w.hosts.Add(enrolled(0))
		w.hosts.Add(enrolled(1))
		is := func(i int) func() bool {
			return func() bool {
				return w.hosts.Host(t, enginetest.HostName(i)).Status.Provisioning.State == metal3.StateAvailable
			}
		}
		w.after(time.Minute, "the other one is available", is(1))
		w.after(5*time.Minute, "the host says why it is not", func() bool { return w.host().Status.ErrorMessage != "" })
		client.mended.Store(true)
		w.after(10*time.Minute, "available", is(0))
	})
}

// TestBugOfAnEvent: what cannot be said of a host that has changed ends nothing, and the host is planned all the same.
func TestBugOfAnEvent(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		met := 0
		w.events.mu.Lock()
		w.events.before = func(host *metal3.BareMetalHost) {
			if host.Name == enginetest.HostName(0) {
				met++
				panic("a bug")
			}
		}
		w.events.mu.Unlock()
		w.secret("secret")
		w.hosts.Add(enrolled(0))
		w.hosts.Add(enrolled(1))
		for i := range 2 {
			w.after(time.Minute, "available", func() bool {
				return w.hosts.Host(t, enginetest.HostName(i)).Status.Provisioning.State == metal3.StateAvailable
			})
		}
		w.stop()
		if met == 0 {
			t.Error("no event was to be recorded, so the test tells nothing")
		}
	})
}
