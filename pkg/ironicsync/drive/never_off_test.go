package drive

import (
	"context"
	"slices"
	"testing"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// oldIronic knows nothing of what came later.
type oldIronic struct{ Ironic }

func (oldIronic) Supports(context.Context, int) (bool, error) { return false, nil }

// An Ironic that knows no disable_power_off would switch off a host that must never be
// off. It is asked for it all the same, and the host is told its refusal.
func TestDisablePowerOffIsNotIgnored(t *testing.T) {
	c := &Controller{ironic: oldIronic{}}
	for never, want := range map[bool]int{false: -1, true: 0} {
		host := newHost()
		host.Spec.DisablePowerOff = never
		wanted, err := c.wantedOf(t.Context(), host, bmc.Access{})
		if err != nil {
			t.Fatal(err)
		}
		clean := true
		patches := wanted.patches(host, &ironic.Node{Name: lifecycle.NodeName(host), UUID: newHost().Status.Provisioning.ID, ProvisionState: ironic.Active}, &ironic.Registration{AutomatedClean: &clean})
		if got := slices.IndexFunc(patches, func(p ironic.Patch) bool { return p.Path == "/disable_power_off" }); got != want || (wanted.disablePowerOff != nil) != never {
			t.Errorf("disablePowerOff %v: patches are %v", never, patches)
		}
	}
}
