package reconcile_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// TestPowerCutOfKilledReplica checks that a hard power-off is carried out, and no soft one, if the replica that served the
// action was killed before it asked Ironic, so that nothing changes in Ironic that the leader could notice.
func TestPowerCutOfKilledReplica(t *testing.T) {
	inLateWorld(t, true, func(t *testing.T, w *world, key types.NamespacedName) {
		soft, hard := w.sim.Count(string(ironic.TargetSoftPowerOff)), w.sim.Count(string(ironic.TargetPowerOff))
		w.edit(key, func(h *metal3.BareMetalHost) {
			h.Spec.Online = false
			lifecycle.CutPower(h, &ironic.Node{UUID: h.Status.Provisioning.ID}, time.Now())
		})
		w.after(30*time.Second, "it is off", func() bool { return !w.hostOf(key).Status.PoweredOn })
		if soft, hard := w.sim.Count(string(ironic.TargetSoftPowerOff))-soft, w.sim.Count(string(ironic.TargetPowerOff))-hard; soft != 0 || hard != 1 {
			t.Errorf("Ironic was asked for %d soft and %d hard power-offs, want one hard one", soft, hard)
		}
		w.after(time.Minute, "the record is gone", func() bool { return w.hostOf(key).Status.Record.PowerCut == nil })
	})
}
