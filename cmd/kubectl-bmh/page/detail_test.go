// SPDX-License-Identifier: Apache-2.0

package page

import (
	"strings"
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// TestDeletionOf: who is asked whether a host is to be deleted reads what becomes of its machine.
func TestDeletionOf(t *testing.T) {
	const (
		cleaned   = "its disks are cleaned. Then the machine is switched off."
		kept      = "Its disks are not cleaned (automatedCleaningMode). Then the machine is switched off."
		off       = "The machine is switched off at once"
		untouched = "The machine goes on as it is"
	)
	image := func(h *metal3.BareMetalHost) { h.Status.Provisioning.Image.URL = "http://images/x" }
	custom := func(h *metal3.BareMetalHost) {
		h.Status.Provisioning.CustomDeploy = &metal3.CustomDeploy{Method: "install_coreos"}
	}
	noCleaning := func(h *metal3.BareMetalHost) { h.Spec.AutomatedCleaningMode = metal3.CleaningModeDisabled }
	staysOn := func(h *metal3.BareMetalHost) { h.Spec.DisablePowerOff = true }
	detached := func(h *metal3.BareMetalHost) { h.Annotations = map[string]string{metal3.DetachedAnnotation: ""} }
	active := func(h *metal3.BareMetalHost) { h.Status.Ironic = &metal3.IronicStatus{ProvisionState: "active"} }
	type changes = []func(*metal3.BareMetalHost)
	for _, c := range []struct {
		name   string
		state  metal3.ProvisioningState
		change changes
		want   string
	}{
		{"image", metal3.StateProvisioned, changes{image, active}, cleaned},
		{"custom deploy procedure", metal3.StateProvisioned, changes{custom, active}, cleaned},
		{"being provisioned", metal3.StateProvisioning, nil, cleaned},
		{"without cleaning", metal3.StateProvisioned, changes{image, active, noCleaning}, kept},
		{"must not be switched off", metal3.StateProvisioned, changes{image, staysOn}, "its disks are cleaned. To keep"},
		{"somebody else's", metal3.StateProvisioned, changes{active}, untouched},
		{"external", metal3.StateExternallyProvisioned, changes{active}, off},
		{"external, must not be switched off", metal3.StateExternallyProvisioned, changes{active, staysOn}, untouched},
		{"available", metal3.StateAvailable, nil, off},
		{"not registered", metal3.StateRegistering, nil, untouched},
		{"detached", metal3.StateProvisioned, changes{image, detached}, untouched},
		{"detached, external", metal3.StateExternallyProvisioned, changes{detached}, untouched},
	} {
		h := &metal3.BareMetalHost{}
		h.Status.Provisioning.State = c.state
		for _, change := range c.change {
			change(h)
		}
		if got := deletionOf(h); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
