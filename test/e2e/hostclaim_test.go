// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestHostClaim: who may not write hosts gets one by a claim, runs an image on it, and gives it back.
func TestHostClaim(t *testing.T) {
	t.Parallel()
	testbed.OnSimulator(t, "needs a machine that boots a ramdisk; test/life has one")
	ctx, ns := s.Begin(t)
	b := startBMC(t, ctx)
	createSecretOnce(t, ctx, ns, "bmc")
	createHost(t, ctx, ns, "worker-0", b.Address(), "bmc", "")
	waitAvailable(t, ctx, ns, "worker-0")

	tenant := s.NewNamespace(t, ctx)
	policy := &metal3.HostDeployPolicy{ObjectMeta: metav1.ObjectMeta{Name: "tenants"}, Spec: metal3.HostDeployPolicySpec{
		HostClaimNamespaces: &metal3.HostClaimNamespaces{Names: []string{tenant}},
	}}
	if _, err := s.Metal3.Metal3V1alpha1().HostDeployPolicies(ns).Create(ctx, policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, namespace := range []string{ns, tenant} {
		if _, err := s.Core.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "metal3-apiserver-secret-copies"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "metal3-apiserver-secret-copies"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: testbed.ServiceName, Namespace: testbed.Namespace}},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	claims := s.Metal3.Metal3V1alpha1().HostClaims(tenant)
	if _, err := claims.Create(ctx, &metal3.HostClaim{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Spec: metal3.HostClaimSpec{
		PoweredOn: true, HostSelector: metal3.HostSelector{InNamespace: ns},
		Image: &metal3.Image{URL: "http://images.example.org/image.qcow2", Checksum: "d41d8cd98f00b204e9800998ecf8427e", ChecksumType: metal3.MD5},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	testbed.Eventually(t, ctx, func() string {
		claim, err := claims.Get(ctx, "mine", metav1.GetOptions{})
		if err == nil && meta.IsStatusConditionTrue(claim.Status.Conditions, "Ready") && claim.Status.PoweredOn {
			return ""
		}
		return fmt.Sprintf("the claim is not ready: %+v, %v", claim.Status, err)
	})
	host := waitState(t, ctx, ns, "worker-0", metal3.StateProvisioned)
	if host.Spec.ConsumerRef == nil || host.Spec.ConsumerRef.Kind != "HostClaim" || host.Spec.ConsumerRef.Namespace != tenant {
		t.Errorf("the consumer of the host is %+v", host.Spec.ConsumerRef)
	}
	isOn(t, b, true)
	if err := claims.Delete(ctx, "mine", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	testbed.Eventually(t, ctx, func() string {
		claim, err := claims.Get(ctx, "mine", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("the claim is still there: %+v, %v", claim.Status, err)
	})
	if host := waitAvailable(t, ctx, ns, "worker-0"); host.Spec.ConsumerRef != nil || host.Spec.Image != nil {
		t.Errorf("the host was not given back: %+v", host.Spec)
	}
}
