package drive_test

import (
	"context"
	"slices"
	"testing"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/drive"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/enginetest"
)

// hungIronic has machines that do not shut down when they are asked to, or BMCs that
// cannot ask them, so that their power is cut; and notes what it was asked.
type hungIronic struct {
	*fakeIronic
	refuses bool
	asked   []ironic.PowerTarget
}

func (h *hungIronic) SwitchPower(ctx context.Context, id string, target ironic.PowerTarget) (ironic.PowerTarget, string, error) {
	h.Change(func() { h.asked = append(h.asked, target) })
	if target != ironic.TargetSoftPowerOff {
		return h.fakeIronic.SwitchPower(ctx, id, target)
	}
	if h.refuses {
		used, _, err := h.fakeIronic.SwitchPower(ctx, id, ironic.TargetPowerOff)
		return used, "The driver 'redfish' does not support '" + string(target) + "'.", err
	}
	return target, "", h.do(ctx, string(target), func() error {
		h.edit(id, func(n *ironic.Node) { n.TargetPowerState, n.Reservation, n.LastError = target, "conductor-0", "" })
		h.later(id, 3*time.Minute, func(n *ironic.Node) {
			n.TargetPowerState, n.Reservation = "", ""
			n.LastError = "Failed to change power state to '" + string(target) + "' by '" + string(target) + "'. Error: Timed out waiting for the power state."
		})
		return nil
	})
}

// TestSoftPowerOff: the power of a machine is cut, once, where its BMC cannot ask it
// to shut down, and where it does not within three minutes.
func TestSoftPowerOff(t *testing.T) {
	for name, tt := range map[string]struct {
		refuses    bool
		least      time.Duration
		want       []ironic.PowerTarget
		showsError bool
	}{
		"refused": {refuses: true, want: []ironic.PowerTarget{ironic.TargetSoftPowerOff}},
		// What Ironic says of the machine shows in between, for a moment.
		"ignored": {least: 3 * time.Minute, want: []ironic.PowerTarget{ironic.TargetSoftPowerOff, ironic.TargetPowerOff}, showsError: true},
	} {
		t.Run(name, func(t *testing.T) {
			var h *hungIronic
			inFleet(t, fleetSettings(), func(f *fakeIronic) drive.Ironic {
				h = &hungIronic{fakeIronic: f, refuses: tt.refuses}
				return h
			}, func(t *testing.T, w *world) {
				keys := w.enrol(enginetest.Namespace, 1)
				w.edit(keys[0], wantImage)
				w.after(time.Minute, "provisioned", w.all(keys, arrived(metal3.StateProvisioned)))
				w.ironic.Change(func() { h.asked = nil })
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
				w.ironic.Change(func() {
					if !slices.Equal(h.asked, tt.want) {
						t.Errorf("asked for %v, want %v", h.asked, tt.want)
					}
				})
				if s := w.hostOf(keys[0]).Status; s.ErrorMessage != "" || s.ErrorCount != 0 || s.PoweredOn {
					t.Errorf("in the end: on %v, %d errors, %q", s.PoweredOn, s.ErrorCount, s.ErrorMessage)
				}
			})
		})
	}
}
