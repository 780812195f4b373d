// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/reconcile"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// queuedIronic is an Ironic to which a request that switches a machine on waits for a connection.
type queuedIronic struct {
	ironicClient
	waits func() // until one is free
}

func (q queuedIronic) SwitchPower(ctx context.Context, fence ironic.Fence, id string, target ironic.PowerTarget) (ironic.PowerTarget, string, error) {
	if target == ironic.TargetPowerOn {
		q.waits()
	}
	return q.ironicClient.SwitchPower(ctx, fence, id, target)
}

// meanwhileDrive is a virtual drive that is looked at while something happens.
type meanwhileDrive func()

func (d meanwhileDrive) BeforePowerOn(context.Context, *metal3.BareMetalHost) (bool, string, error) {
	d()
	return true, "", nil
}

// TestFencedWhileToBeSwitchedOn: a machine that is off because of a reboot, and is to be fenced or off from then on, is not switched on,
// however long the request for that has been on its way to Ironic. Who has asked for it has seen that it is off.
func TestFencedWhileToBeSwitchedOn(t *testing.T) {
	fence := func(h *metal3.BareMetalHost) {
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, metal3.RebootAnnotationPrefix+"fence", "")
	}
	for name, test := range map[string]struct {
		asks   func(h *metal3.BareMetalHost)
		queued time.Duration // for how long the request waits for a connection since; before that if it is 0
		lag    time.Duration // of watches
	}{
		"before it is sent":           {asks: fence},
		"to be off before it is sent": {asks: func(h *metal3.BareMetalHost) { h.Spec.Online = false }},
		"paused before it is sent": {asks: func(h *metal3.BareMetalHost) {
			metav1.SetMetaDataAnnotation(&h.ObjectMeta, metal3.PausedAnnotation, "")
		}},
		"while it waits":                  {asks: fence, queued: time.Second},
		"to be off while it waits":        {asks: func(h *metal3.BareMetalHost) { h.Spec.Online = false }, queued: time.Second},
		"while it waits, unknown for now": {asks: fence, queued: 25 * time.Second, lag: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSimulatedWorld(t, ironicsim.Options{})
				ctx, cancel := context.WithCancel(t.Context())
				w.fuse = &fuse{kill: cancel}
				w.secrets.fuse = w.fuse
				var armed atomic.Bool
				asks := func() {
					if armed.CompareAndSwap(true, false) {
						w.hosts.Mu.Lock()
						w.hosts.WatchLag = test.lag
						w.hosts.Mu.Unlock()
						w.update(test.asks)
						time.Sleep(test.queued)
					}
				}
				client := queuedIronic{w.sim, func() {}}
				if test.queued > 0 {
					client.waits = asks
				} else {
					w.images = meanwhileDrive(asks)
				}
				w.run(ctx, cancel, w.hosts, client, reconcile.Settings{BMCs: anywhere, Images: anywhere, MaxProvisioningRetries: 3, Workers: 4, PollInterval: time.Second})
				defer func() { w.stop() }()
				w.provisionedHost()
				before := w.sim.Count("power on")
				armed.Store(true)
				w.reboot()
				w.after(time.Minute, "asked for", func() bool { return !armed.Load() })
				time.Sleep(10 * time.Minute)
				if n := w.sim.Count("power on") - before; n > 0 || w.host().Status.PoweredOn {
					t.Errorf("it was switched on %d times, and is on: %t", n, w.host().Status.PoweredOn)
				}
			})
		})
	}
}

// lateIronic is an Ironic that carries out a request which switches a machine on two minutes late, after the client has waited half a minute
// for the answer.
type lateIronic struct {
	ironicClient
	// arrived is called when the request has arrived; nil from then on.
	arrived *func()
	done    *atomic.Bool
}

func (l lateIronic) SwitchPower(ctx context.Context, fence ironic.Fence, id string, target ironic.PowerTarget) (ironic.PowerTarget, string, error) {
	if target != ironic.TargetPowerOn || *l.arrived == nil {
		return l.ironicClient.SwitchPower(ctx, fence, id, target)
	}
	arrived := *l.arrived
	*l.arrived = nil
	time.AfterFunc(2*time.Minute, func() {
		_, _, _ = l.ironicClient.SwitchPower(context.WithoutCancel(ctx), ironic.NoFence, id, target)
		l.done.Store(true)
	})
	arrived()
	select {
	case <-time.After(30 * time.Second):
	case <-ctx.Done():
	}
	return "", "", &ironic.UnavailableError{Op: "switch the power", Class: ironic.ClassTimeout, Reason: "no answer"}
}

// TestPowerOnThatComesAfterFence: a machine is not shown as off as long as a request to switch it on may be carried out that was sent before
// it was fenced, also if the leader was killed meanwhile. When the request has come, or counts as lost, it is off, and shown so.
func TestPowerOnThatComesAfterFence(t *testing.T) {
	for name, killed := range map[string]bool{"no answer": false, "killed before it": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSimulatedWorld(t, ironicsim.Options{})
				var arrived func()
				var fenced, done atomic.Bool
				client := lateIronic{w.sim, &arrived, &done}
				settings := reconcile.Settings{BMCs: anywhere, Images: anywhere, MaxProvisioningRetries: 3, Workers: 4, PollInterval: time.Second}
				begin := func() {
					ctx, cancel := context.WithCancel(t.Context())
					w.fuse = &fuse{kill: cancel}
					w.secrets.fuse = w.fuse
					w.run(ctx, cancel, w.hosts, client, settings)
				}
				begin()
				defer func() { w.stop() }()
				w.provisionedHost()
				arrived = func() {
					w.update(func(h *metal3.BareMetalHost) {
						metav1.SetMetaDataAnnotation(&h.ObjectMeta, metal3.RebootAnnotationPrefix+"fence", "")
						lifecycle.ShowPower(h, &h.Status, time.Now()) // as the storage does
					})
					fenced.Store(true)
				}
				w.reboot()
				w.after(time.Minute, "fenced", fenced.Load)
				if killed {
					w.stop()
					begin()
				}
				for !done.Load() {
					if !w.host().Status.PoweredOn {
						t.Fatal("it was shown as off, and comes on later")
					}
					time.Sleep(time.Second)
				}
				w.after(10*time.Minute, "off", func() bool { return !w.host().Status.PoweredOn })
				time.Sleep(10 * time.Minute)
				if host := w.host(); host.Status.PoweredOn || host.Status.Ironic.PowerState != string(ironic.PowerOff) || host.Status.Record.PowerOns != nil {
					t.Errorf("shown as on: %t, and is %s; requests %v", host.Status.PoweredOn, host.Status.Ironic.PowerState, host.Status.Record.PowerOns)
				}
			})
		})
	}
}

// TestPowerOnOfAReplicaCountsAsLost: a request that another replica has recorded, and that gets no answer, is forgotten after some minutes, also
// if nothing else happens to the host. Who fences the machine later does not wait for it.
func TestPowerOnOfAReplicaCountsAsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSimulatedWorld(t, ironicsim.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		w.fuse = &fuse{kill: cancel}
		w.secrets.fuse = w.fuse
		w.run(ctx, cancel, w.hosts, w.sim, reconcile.Settings{BMCs: anywhere, Images: anywhere, MaxProvisioningRetries: 3, Workers: 4, PollInterval: time.Second})
		defer func() { w.stop() }()
		w.provisionedHost()
		time.Sleep(time.Hour)
		w.hosts.EditStatus(t, enginetest.HostName(0), func(h *metal3.BareMetalHost) {
			lifecycle.BeginPowerOn(h, "1", h.Status.Ironic.NodeUUID, time.Now())
		})
		w.after(metal3.AskedLimit+time.Minute, "forgotten", func() bool { return w.host().Status.Record.PowerOns == nil })
	})
}
