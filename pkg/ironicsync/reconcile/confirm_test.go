// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// TestConfirmedBeforeActing: before a machine is switched or erased, it is made sure that what was decided on is not from a backup of etcd; and
// what is under way then asks Ironic for nothing.
func TestConfirmedBeforeActing(t *testing.T) {
	for name, forbid := range map[string]func(w *world, forbidden *atomic.Bool){
		"etcd may be restored": func(w *world, forbidden *atomic.Bool) {
			w.confirm = func(context.Context) error {
				if forbidden.Load() {
					return errors.New("etcd was restored")
				}
				return nil
			}
		},
		"nothing may be touched": func(w *world, forbidden *atomic.Bool) {
			w.mayAct = func() bool { return !forbidden.Load() }
		},
	} {
		for step, change := range map[string]func(*metal3.BareMetalHost){
			"off":      func(h *metal3.BareMetalHost) { h.Spec.Online = false },
			"provide":  wantImage,
			"undeploy": func(h *metal3.BareMetalHost) { h.Spec.Image = nil },
		} {
			t.Run(name+"/"+step, func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					var forbidden atomic.Bool
					forbid(w, &forbidden)
					w.start(0)
					defer func() { w.stop() }()
					w.available()
					state := metal3.StateAvailable
					if step == "undeploy" {
						w.provision()
					} else if step == "provide" {
						state = metal3.StateProvisioned
					}
					calls := func() int {
						return w.sim.Count("soft power off") + w.sim.Count("power off") + w.sim.Count("provide") + w.sim.Count("deleted") + w.sim.Count("active")
					}
					forbidden.Store(true)
					before := calls()
					w.update(change)
					time.Sleep(10 * time.Minute)
					if n := calls() - before; n > 0 {
						t.Errorf("Ironic was asked %d times", n)
					}
					forbidden.Store(false)
					w.after(10*time.Minute, "as it is to be", func() bool { return w.in(state)() && (step != "off" || w.isOff()) })
				})
			})
		}
	}
}

// inBubble runs a test in a bubble, with a simulated Ironic and a controller that it starts itself.
func inBubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newSimulatedWorld(t, ironicsim.Options{WithoutDefects: true})) })
}
