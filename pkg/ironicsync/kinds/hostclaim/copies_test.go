// SPDX-License-Identifier: Apache-2.0

package hostclaim

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// TestDataOf has the Secrets that are copied for a claim. An empty name is none, as in a host.
func TestDataOf(t *testing.T) {
	claim := &metal3.HostClaim{Spec: metal3.HostClaimSpec{
		UserData: &corev1.SecretReference{Name: "user"}, NetworkData: &corev1.SecretReference{}, MetaData: &corev1.SecretReference{Namespace: "n"},
		Image: &metal3.Image{URL: "oci://a/b", OCIAuthSecretName: ptr.To("")},
	}}
	if all := dataOf(claim); len(all) != 1 || all[0].secret != "user" || all[0].use != userData {
		t.Errorf("the Secrets are %+v", all)
	}
	host := &metal3.BareMetalHost{}
	setDeployment(host, claim)
	if host.Spec.UserData == nil || host.Spec.NetworkData != nil || host.Spec.MetaData != nil {
		t.Errorf("the host has %+v", host.Spec)
	}
}
