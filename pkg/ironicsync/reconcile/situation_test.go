// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// oneHardwareData has one HardwareData, or none.
type oneHardwareData struct{ data *metal3.HardwareData }

func (o oneHardwareData) Get(_ context.Context, _, name string) (*metal3.HardwareData, error) {
	if o.data == nil {
		return nil, apierrors.NewNotFound(metal3.Resource("hardwaredata"), name)
	}
	return o.data, nil
}

// TestHasHardwareData: a HardwareData stands for an inspection of a host that is new, or that has moved here with what it runs. A
// host that is being inspected waits for what that finds.
func TestHasHardwareData(t *testing.T) {
	details := &metal3.HardwareDetails{Hostname: "known"}
	given := &metal3.HardwareData{ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: "worker-0"}, Spec: metal3.HardwareDataSpec{HardwareDetails: details}}
	tests := map[string]struct {
		state metal3.ProvisioningState
		known *metal3.HardwareDetails
		data  *metal3.HardwareData
		want  bool
	}{
		"registering":                {state: metal3.StateRegistering, data: given, want: true},
		"provisioned":                {state: metal3.StateProvisioned, data: given, want: true},
		"externally provisioned":     {state: metal3.StateExternallyProvisioned, data: given, want: true},
		"inspecting":                 {state: metal3.StateInspecting, data: given},
		"available":                  {state: metal3.StateAvailable, data: given},
		"provisioned, known already": {state: metal3.StateProvisioned, known: details, data: given},
		"provisioned, none":          {state: metal3.StateProvisioned},
		"provisioned, an empty one":  {state: metal3.StateProvisioned, data: &metal3.HardwareData{ObjectMeta: given.ObjectMeta}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			host := &metal3.BareMetalHost{ObjectMeta: given.ObjectMeta, Status: metal3.BareMetalHostStatus{HardwareDetails: test.known}}
			host.Status.Provisioning.State = test.state
			got, err := (&inputs{hardware: oneHardwareData{test.data}}).hasHardwareData(t.Context(), host)
			if err != nil || got != test.want {
				t.Errorf("got %t (%v), want %t", got, err, test.want)
			}
		})
	}
}
