// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// oneHardwareData has one HardwareData, or none.
type oneHardwareData struct {
	HardwareStore // what is not used
	data          *metal3.HardwareData
}

func (o oneHardwareData) Get(_ context.Context, _, name string) (*metal3.HardwareData, error) {
	if o.data == nil {
		return nil, apierrors.NewNotFound(metal3.Resource("hardwaredata"), name)
	}
	return o.data, nil
}

// TestGivesHardware: a HardwareData stands for an inspection of a host that has no hardware yet, and where nothing is inspected, it always
// says what the hardware is. A host that is being inspected waits for what that finds, and what an inspection has found stays.
func TestGivesHardware(t *testing.T) {
	known, other := &metal3.HardwareDetails{Hostname: "known"}, &metal3.HardwareDetails{Hostname: "other"}
	data := func(details *metal3.HardwareDetails) *metal3.HardwareData {
		return &metal3.HardwareData{ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: "worker-0"}, Spec: metal3.HardwareDataSpec{HardwareDetails: details}}
	}
	ofFormer := data(known)
	ofFormer.OwnerReferences = []metav1.OwnerReference{{Kind: "BareMetalHost", UID: "former"}}
	ofClaim := data(known)
	ofClaim.OwnerReferences = []metav1.OwnerReference{{Kind: "HostClaim", UID: "claim"}}
	tests := map[string]struct {
		state    metal3.ProvisioningState
		disabled bool
		known    *metal3.HardwareDetails
		data     *metal3.HardwareData
		isLate   bool // the watch does not know of the data yet
		want     bool
	}{
		"registering":                           {state: metal3.StateRegistering, data: data(known), want: true},
		"registering, created just before":      {state: metal3.StateRegistering, data: data(known), isLate: true, want: true},
		"registering, of a former host":         {state: metal3.StateRegistering, data: ofFormer},
		"available, of a former host":           {state: metal3.StateAvailable, data: ofFormer},
		"registering, of a claim":               {state: metal3.StateRegistering, data: ofClaim},
		"available, of a claim":                 {state: metal3.StateAvailable, data: ofClaim},
		"provisioned":                           {state: metal3.StateProvisioned, data: data(known), want: true},
		"provisioned, created just before":      {state: metal3.StateProvisioned, data: data(known), isLate: true, want: true},
		"externally provisioned":                {state: metal3.StateExternallyProvisioned, data: data(known), want: true},
		"inspecting":                            {state: metal3.StateInspecting, data: data(known)},
		"inspecting, disabled":                  {state: metal3.StateInspecting, disabled: true, known: known, data: data(other)},
		"available":                             {state: metal3.StateAvailable, data: data(known), want: true},
		"preparing":                             {state: metal3.StatePreparing, data: data(known), want: true},
		"provisioned, known already":            {state: metal3.StateProvisioned, known: known, data: data(other)},
		"available, known already":              {state: metal3.StateAvailable, known: known, data: data(other)},
		"provisioned, disabled":                 {state: metal3.StateProvisioned, disabled: true, known: known, data: data(other), want: true},
		"available, disabled":                   {state: metal3.StateAvailable, disabled: true, known: known, data: data(other), want: true},
		"available, disabled, the same":         {state: metal3.StateAvailable, disabled: true, known: known, data: data(known)},
		"available, disabled, no data":          {state: metal3.StateAvailable, disabled: true, known: known},
		"available, disabled, data without any": {state: metal3.StateAvailable, disabled: true, known: known, data: data(nil)},
		"provisioned, no data":                  {state: metal3.StateProvisioned},
		"provisioned, data without any":         {state: metal3.StateProvisioned, data: data(nil)},
		"available, data without any":           {state: metal3.StateAvailable, data: data(nil)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			given := newGivenHardware(oneHardwareData{data: test.data}, nil, func(types.NamespacedName) {})
			defer given.left.ShutDown()
			if test.data != nil && !test.isLate {
				light, err := withDigestOnly(test.data)
				if err == nil {
					err = given.informer.GetStore().Add(light)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: "worker-0"}, Status: metal3.BareMetalHostStatus{HardwareDetails: test.known}}
			host.Status.Provisioning.State = test.state
			if test.disabled {
				host.Spec.InspectionMode = metal3.InspectionModeDisabled
			}
			got, err := given.isFor(t.Context(), host)
			if err != nil || got != test.want {
				t.Errorf("got %t (%v), want %t", got, err, test.want)
			}
		})
	}
}

// TestHardwareDataIsAs: a host is planned again for a HardwareData that says something else, or is another host's now, and not for labels.
func TestHardwareDataIsAs(t *testing.T) {
	light := func(change func(*metal3.HardwareData)) *digestedHardware {
		data := &metal3.HardwareData{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Spec: metal3.HardwareDataSpec{HardwareDetails: &metal3.HardwareDetails{Hostname: "a"}}}
		change(data)
		digested, err := withDigestOnly(data)
		if err != nil {
			t.Fatal(err)
		}
		return digested.(*digestedHardware)
	}
	before := light(func(*metal3.HardwareData) {})
	for name, test := range map[string]struct {
		change func(*metal3.HardwareData)
		want   bool
	}{
		"labels":   {func(d *metal3.HardwareData) { d.Labels, d.ResourceVersion = map[string]string{"a": "b"}, "2" }, true},
		"hardware": {func(d *metal3.HardwareData) { d.Spec.HardwareDetails.Hostname = "b" }, false},
		"owner":    {func(d *metal3.HardwareData) { d.OwnerReferences = []metav1.OwnerReference{{UID: "new"}} }, false},
		"replaced": {func(d *metal3.HardwareData) { d.UID = "v" }, false},
	} {
		if got := before.isAs(light(test.change)); got != test.want {
			t.Errorf("%s: the same %t, want %t", name, got, test.want)
		}
	}
}
