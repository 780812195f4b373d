// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

var created = metav1.NewTime(time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC))

// secretsHost is a host that has been registered in Ironic with the Secret host-0-bmc.
func newHost(options ...func(*metal3.BareMetalHost)) *metal3.BareMetalHost {
	h := &metal3.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: "host-0", UID: "0a5ea4e9-7c8a-4a5b-8f1a-4d4d2b6e7a10"},
		Spec:       metal3.BareMetalHostSpec{BMC: metal3.BMCDetails{Address: "ipmi://192.0.2.1", CredentialsName: "host-0-bmc"}},
	}
	lifecycle.SetTriedCredentials(h, "7", time.Time{})
	for _, option := range options {
		option(h)
	}
	return h
}

func deleted(h *metal3.BareMetalHost) { h.DeletionTimestamp = &created }
