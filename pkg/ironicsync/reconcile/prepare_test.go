// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

func mirrored(h *metal3.BareMetalHost) {
	h.Spec.RAID = &metal3.RAIDConfig{SoftwareRAIDVolumes: []metal3.SoftwareRAIDVolume{{Level: "1", RootVolume: true}}}
}

func (w *world) expectMirror(cleans int) {
	w.t.Helper()
	host := w.host()
	if w.cleans() != cleans {
		w.t.Errorf("%d manual cleans, want %d: %v", w.cleans(), cleans, w.sim.Steps("clean"))
	}
	r, err := w.sim.GetRegistration(w.t.Context(), host.Status.Provisioning.ID)
	if volumes := w.sim.BMC(0).SoftwareRAID(); err != nil || r.RAIDInterface != "agent" || len(volumes) != 1 || volumes[0].Level != "1" {
		w.t.Errorf("the RAID interface is %q, %v, and the machine has %+v", r.RAIDInterface, err, volumes)
	}
	if saved := host.Status.Provisioning.RAID; saved == nil || len(saved.SoftwareRAIDVolumes) != 1 {
		w.t.Errorf("recorded is %+v", saved)
	}
	if p := host.Status.Record.Preparation; p == nil || p.Phase != metal3.PreparationSucceeded || p.EndedAt == nil {
		w.t.Errorf("the preparation is %+v", p)
	}
}

// slowToStore is an Ironic that takes longer to store the RAID configuration than a look at the node counts.
type slowToStore struct{ *enginetest.Ironic }

func (s slowToStore) SetTargetRAID(ctx context.Context, fence ironic.Fence, idOrName string, disks []ironic.LogicalDisk) error {
	err := s.Ironic.SetTargetRAID(ctx, fence, idOrName, disks)
	time.Sleep(25 * time.Second)
	return err
}

// TestRAIDOfSlowIronic: a clean is requested although what it depends on takes half a minute, because the node is looked at after that.
func TestRAIDOfSlowIronic(t *testing.T) {
	inFleet(t, fleetSettings(), ironicsim.Options{}, func(sim *enginetest.Ironic) ironicClient { return slowToStore{sim} }, func(t *testing.T, w *world) {
		host := enrolled(0)
		mirrored(host)
		w.addWithSecret(host)
		w.after(5*time.Minute, "available", w.in(metal3.StateAvailable))
		w.expectMirror(1)
	})
}

// TestRAID builds software RAID before a host is available, builds it anew after a
// deprovisioning, and does not touch it while the host is provisioned.
func TestRAID(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.secret("secret")
		host := enrolled(0)
		mirrored(host)
		w.hosts.Add(host)
		w.after(30*time.Second, "available", w.in(metal3.StateAvailable))
		w.expectMirror(1)
		if n := w.sim.Count("provide"); n != 0 {
			t.Errorf("the host was cleaned %d times, and nobody has asked for an image", n)
		}
		w.provision()
		w.expectMirror(1)
		w.update(func(h *metal3.BareMetalHost) { h.Spec.RAID.SoftwareRAIDVolumes[0].Level = "1+0" })
		time.Sleep(time.Hour)
		w.expectMirror(1)
		if s := w.host().Status; s.Provisioning.State != metal3.StateProvisioned || !s.PoweredOn {
			t.Errorf("the host is %s, powered on: %v", s.Provisioning.State, s.PoweredOn)
		}
		w.update(mirrored)
		w.update(func(h *metal3.BareMetalHost) { h.Spec.Image = nil })
		w.after(30*time.Second, "built anew", func() bool {
			s := w.host().Status
			return s.Provisioning.State == metal3.StateAvailable && s.Provisioning.RAID.SoftwareRAIDVolumes != nil
		})
		w.expectMirror(2)
		w.stop()
		if reasons := w.events.reasons; !slices.Contains(reasons, "PreparationStarted") || !slices.Contains(reasons, "PreparationComplete") {
			t.Errorf("events: %v", reasons)
		}
	})
}

// TestPreparationRefused: what cannot be made is said before Ironic is asked for anything, and
// what Ironic refuses is said in its words.
func TestPreparationRefused(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.available()
		says := func(message string) func() bool {
			return func() bool {
				s := w.host().Status
				return s.ErrorType == metal3.PreparationError && ownWords(w.host()) == message
			}
		}
		w.update(func(h *metal3.BareMetalHost) { mirrored(h); h.Spec.RAID.SoftwareRAIDVolumes[0].Level = "0" })
		w.after(10*time.Second, "refused", says("the level in first volume of software raid must be RAID1"))
		w.sim.Refuse("UpdateNode", 400, "Could not find the following interface in the 'ironic.hardware.interfaces.raid' entrypoint: agent.")
		w.update(mirrored)
		w.after(10*time.Second, "refused by Ironic", says("Could not find the following interface in the 'ironic.hardware.interfaces.raid' entrypoint: agent."))
		if p := w.host().Status.Record.Preparation; p != nil {
			t.Errorf("recorded is %+v", p)
		}
		if w.cleans() != 0 {
			t.Errorf("cleans: %v", w.sim.Steps("clean"))
		}
		w.sim.Accept("UpdateNode")
		w.after(10*time.Minute, "available", w.in(metal3.StateAvailable))
		w.expectMirror(1)
	})
}

// TestPreparationKilledAnywhere kills the controller at each of its steps, before it has had its effect and after, and
// starts the next one at once, or when Ironic has ended what it does. What was asked for is done once: the next process
// finds out whether it has begun.
func TestPreparationKilledAnywhere(t *testing.T) {
	for name, tt := range map[string]struct {
		ask    func(t *testing.T, w *world)
		later  time.Duration
		isDone func(w *world) bool
		expect func(t *testing.T, w *world)
	}{
		"RAID": {
			ask:    func(_ *testing.T, w *world) { w.update(mirrored) },
			isDone: func(w *world) bool { return w.host().Status.Provisioning.RAID != nil },
			expect: func(_ *testing.T, w *world) { w.expectMirror(1) },
		},
		"firmware": {
			ask:    func(_ *testing.T, w *world) { w.wantFirmware("bmc", "http://images/bmc", "bios", "http://images/bios") },
			later:  30 * time.Second,
			isDone: func(w *world) bool { return w.firmwareSays(false, true) },
			expect: func(t *testing.T, w *world) {
				if w.flashed() != "bmc bios" {
					t.Errorf("updated: %s", w.flashed())
				}
			},
		},
		"requested clean": {
			ask: func(t *testing.T, w *world) {
				if err := w.requestClean(erase); err != nil {
					t.Fatal(err)
				}
			},
			later: 30 * time.Second,
			isDone: func(w *world) bool {
				return w.cleaned(metal3.PreparationSucceeded)() || w.cleaned(metal3.PreparationFailed)()
			},
			expect: func(t *testing.T, w *world) {
				p := w.host().Status.Record.Preparation
				if p.Phase == metal3.PreparationFailed && !strings.Contains(p.Message, "it is not known whether it was carried out") {
					t.Errorf("the preparation is %+v", p)
				}
				if w.cleans() != 1 {
					t.Errorf("%d cleans", w.cleans())
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			killedAnywhere(t, func(t *testing.T, killedAt int) *world {
				w := newSimulatedWorld(t, ironicsim.Options{})
				w.start(0)
				w.available(redfishHost())
				w.stop()
				tt.ask(t, w)
				w.start(killedAt)
				w.after(2*time.Minute+askedLimit, "done", func() bool {
					w.goOn(tt.later)
					return w.host().Status.Provisioning.State == metal3.StateAvailable && tt.isDone(w)
				})
				tt.expect(t, w)
				w.stop()
				return w
			})
		})
	}
}
