// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// TestSoftPowerOff: the power of a machine is cut, once, where its BMC cannot ask it
// to shut down, and where it does not within three minutes.
func TestSoftPowerOff(t *testing.T) {
	for name, tt := range map[string]struct {
		options    ironicsim.Options
		least      time.Duration
		showsError bool
	}{
		"refused": {options: ironicsim.Options{NoSoftPowerOff: []string{"ipmi"}}},
		// What Ironic says of the machine shows in between, for a moment.
		"ignored": {least: 3 * time.Minute, showsError: true},
	} {
		t.Run(name, func(t *testing.T) {
			inSimulatedFleet(t, fleetSettings(), tt.options, func(t *testing.T, w *world) {
				keys := w.enrol(enginetest.Namespace, 1)
				w.edit(keys[0], wantImage)
				w.after(time.Minute, "provisioned", w.all(keys, arrived(metal3.StateProvisioned)))
				w.sim.BMC(0).SetNoSoftPower(true)
				cuts := w.sim.BMC(0).PowerCuts()
				var mu sync.Mutex
				var asked []string
				w.sim.Intercept(func(call string, r *http.Request) error {
					mu.Lock()
					defer mu.Unlock()
					if strings.HasSuffix(r.URL.Path, "/states/power") {
						asked = append(asked, call)
					}
					return nil
				})
				w.onRecord(func(host *metal3.BareMetalHost) {
					if host.Status.ErrorType != "" && !tt.showsError {
						t.Errorf("it shows %s: %s", host.Status.ErrorType, host.Status.ErrorMessage)
					}
				})
				w.edit(keys[0], func(h *metal3.BareMetalHost) { h.Spec.Online = false })
				took := w.after(tt.least+10*time.Second, "off", w.all(keys, arrived(metal3.StateProvisioned)))
				if took < tt.least {
					t.Errorf("off after %s", took)
				}
				time.Sleep(10 * time.Minute)
				w.sim.Intercept(nil)
				if want := []string{string(ironic.TargetSoftPowerOff), string(ironic.TargetPowerOff)}; !slices.Equal(asked, want) {
					t.Errorf("asked for %v, want %v", asked, want)
				}
				if s := w.hostOf(keys[0]).Status; s.ErrorMessage != "" || s.ErrorCount != 0 || s.PoweredOn {
					t.Errorf("in the end: on %v, %d errors, %q", s.PoweredOn, s.ErrorCount, s.ErrorMessage)
				}
				if n := w.sim.BMC(0).PowerCuts() - cuts; n != 1 {
					t.Errorf("the power was cut %d times", n)
				}
			})
		})
	}
}
