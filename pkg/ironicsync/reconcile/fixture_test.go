// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

var now = time.Date(2026, 11, 21, 8, 0, 0, 123456789, time.UTC)

// newHost is a host that has been registered in Ironic.
func newHost(options ...func(*metal3.BareMetalHost)) *metal3.BareMetalHost {
	h := &metal3.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: "host-0", Generation: 2},
		Spec:       metal3.BareMetalHostSpec{Online: true, BMC: metal3.BMCDetails{Address: "ipmi://192.0.2.1", CredentialsName: "host-0-bmc"}},
		Status: metal3.BareMetalHostStatus{
			OperationalStatus: metal3.OperationalStatusOK,
			Provisioning:      metal3.ProvisionStatus{State: metal3.StateRegistering, ID: "00000000-0000-4000-8000-000000000001"},
			LastUpdated:       &metav1.Time{Time: now.Add(-2 * time.Hour)},
		},
	}
	for _, option := range options {
		option(h)
	}
	return h
}

func withError(kind metal3.ErrorType, message string, count int) func(*metal3.BareMetalHost) {
	return func(h *metal3.BareMetalHost) {
		h.Status.OperationalStatus = metal3.OperationalStatusError
		h.Status.ErrorType, h.Status.ErrorMessage, h.Status.ErrorCount = kind, message, count
		lifecycle.SetError(h, kind, message)
	}
}
