// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// A forced reboot aborts what is under way, once. The plain annotation is done with
// then; one with a key keeps it from beginning again until its owner removes it.
func TestForcedRebootAbortsOnce(t *testing.T) {
	const key = metal3.RebootAnnotationPrefix + "fencing"
	states := map[string][]hostOption{
		"inspecting":   {withState(metal3.StateInspecting), inspectionBegan},
		"preparing":    {withState(metal3.StatePreparing)},
		"applying":     {withState(metal3.StatePreparing), wantsRAID(hardwareRAID), withPower(true)},
		"available":    {withState(metal3.StateAvailable), prepared, wantsImage("http://images/a"), withPower(true)},
		"provisioning": {withState(metal3.StateProvisioning), wantsImage("http://images/a"), attempting("http://images/a")},
	}
	for _, tt := range []struct {
		state                    string
		node                     ironic.ProvisionState
		plain, held, heldUnforce string
	}{
		{"inspecting", ironic.InspectWait, "abort", "abort", "Wait"},
		{"inspecting", ironic.InspectFail, "ClearRebootRequest", "Wait", "inspect"},
		{"inspecting", ironic.Manageable, "inspect", "Wait", "inspect"},
		{"preparing", ironic.CleanWait, "abort", "abort", "Wait"},
		{"preparing", ironic.CleanFail, "ClearRebootRequest", "manage", "manage"},
		{"preparing", ironic.Manageable, "=available", "=available", "=available"},
		{"applying", ironic.Manageable, "Prepare", "soft-power-off", "Prepare"},
		{"applying", ironic.Available, "manage", "soft-power-off", "manage"},
		{"applying", ironic.CleanWait, "abort", "abort", "Wait"},
		{"provisioning", ironic.Manageable, "provide", "Wait", "provide"},
		{"provisioning", ironic.CleanWait, "abort", "abort", "Wait"},
		{"provisioning", ironic.CleanFail, "ClearRebootRequest", "manage", "manage"},
		{"provisioning", ironic.DeployWait, "=deprovisioning", "=deprovisioning", "Wait"},
		{"provisioning", ironic.Available, "Deploy", "Wait", "Deploy"},
		{"available", ironic.Available, "=provisioning", "soft-power-off", "=provisioning"},
		{"available", ironic.Manageable, "=provisioning", "soft-power-off", "=provisioning"},
	} {
		for annotation, want := range map[[2]string]string{
			{metal3.RebootAnnotation, `{"force":true}`}: tt.plain, {key, `{"force":true}`}: tt.held, {key, ""}: tt.heldUnforce,
		} {
			host := newHost(and(states[tt.state], annotated(annotation[0], annotation[1]))...)
			if got := nextOf(planned(host, nodeIn(tt.node))).String(); got != want {
				t.Errorf("%s, %s, %s=%s: %s, want %s", tt.state, tt.node, annotation[0], annotation[1], got, want)
			}
		}
	}

	// A reboot that is not forced is not dropped for one that is.
	both := func(h *metal3.BareMetalHost) { h.Annotations[metal3.RebootAnnotation] = "" }
	host := newHost(and(states["inspecting"], annotated(key, `{"force":true}`), both)...)
	if got := nextOf(planned(host, nodeIn(ironic.InspectFail))).String(); got != "Wait" {
		t.Errorf("inspection aborted by the owner of %s: %s, want Wait", key, got)
	}
}
