// SPDX-License-Identifier: Apache-2.0

package registrar

import (
	"context"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// oldIronic knows nothing of what came later.
type oldIronic struct{ Ironic }

func (oldIronic) Features(context.Context) (ironic.Features, error) { return ironic.Features{}, nil }

// An Ironic that knows no disable_power_off would switch off a host that must never be
// off. It is asked for it all the same, and the host is told its refusal.
func TestDisablePowerOffIsNotIgnored(t *testing.T) {
	r := requirements{ironic: oldIronic{}}
	for never, want := range map[bool]int{false: -1, true: 0} {
		host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: "host-0"}, Spec: metal3.BareMetalHostSpec{DisablePowerOff: never}}
		wanted, err := r.wantedOf(t.Context(), host, bmc.Access{})
		if err != nil {
			t.Fatal(err)
		}
		clean := true
		patches := wanted.patches(host, &ironic.Node{Name: lifecycle.NodeName(host), ProvisionState: ironic.Active}, &ironic.Registration{AutomatedClean: &clean})
		if got := slices.IndexFunc(patches, func(p ironic.Patch) bool { return p.Path == "/disable_power_off" }); got != want || (wanted.disablePowerOff != nil) != never {
			t.Errorf("disablePowerOff %v: patches are %v", never, patches)
		}
	}
}
