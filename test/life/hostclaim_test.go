// SPDX-License-Identifier: Apache-2.0

package life

import (
	"fmt"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	corev1 "k8s.io/api/core/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// A claim gets a machine, runs its image with its user data there, reboots it, and gives it back
// cleaned.
func TestHostClaim(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected)
	h.available()
	h.states()
	policy := &metal3.HostDeployPolicy{ObjectMeta: metav1.ObjectMeta{Name: "own"}, Spec: metal3.HostDeployPolicySpec{
		HostClaimNamespaces: &metal3.HostClaimNamespaces{Names: []string{h.ns}},
	}}
	if _, err := s.Metal3.Metal3V1alpha1().HostDeployPolicies(h.ns).Create(h.ctx, policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Core.RbacV1().RoleBindings(h.ns).Create(h.ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "metal3-apiserver-secret-copies"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "metal3-apiserver-secret-copies"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: testbed.ServiceName, Namespace: testbed.Namespace}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.secret("first-boot", map[string]string{"userData": "#cloud-config\n"})
	claims := s.Metal3.Metal3V1alpha1().HostClaims(h.ns)
	if _, err := claims.Create(h.ctx, &metal3.HostClaim{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Spec: metal3.HostClaimSpec{
		PoweredOn: true, HostSelector: metal3.HostSelector{InNamespace: h.ns}, UserData: &corev1.SecretReference{Name: "first-boot"},
		Image: &metal3.Image{URL: s.machines.FileURL(bmcsim.ImageFile), Checksum: s.machines.FileChecksum(bmcsim.ImageFile), ChecksumType: metal3.SHA256},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.eventually(func() string {
		claim, err := claims.Get(h.ctx, "mine", metav1.GetOptions{})
		if err == nil && meta.IsStatusConditionTrue(claim.Status.Conditions, "Ready") && claim.Status.PoweredOn {
			return ""
		}
		return fmt.Sprintf("the claim is not ready: %+v, %v", claim.Status, err)
	})
	h.wrote(1)
	booted := len(h.machine.Boots())
	if _, err := claims.Patch(h.ctx, "mine", types.MergePatchType, []byte(`{"metadata":{"annotations":{"reboot.metal3.io":"{\"mode\":\"hard\"}"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	h.eventually(func() string {
		if boots := len(h.machine.Boots()); boots <= booted {
			return fmt.Sprintf("the machine has booted %d times, as before the reboot", boots)
		}
		return ""
	})
	h.power(bmcsim.On)
	if err := claims.Delete(h.ctx, "mine", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.eventually(func() string {
		claim, err := claims.Get(h.ctx, "mine", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("the claim is still there: %+v, %v", claim.Status, err)
	})
	bmh := h.available()
	h.expectStates(metal3.StateAvailable, metal3.StateProvisioning, metal3.StateProvisioned, metal3.StateDeprovisioning, metal3.StateAvailable)
	if bmh.Spec.ConsumerRef != nil || !slices.Contains(h.machine.Steps(), "clean erase_devices_metadata") {
		t.Errorf("consumer %+v, steps %q", bmh.Spec.ConsumerRef, h.machine.Steps())
	}
	secrets, err := s.Core.CoreV1().Secrets(h.ns).List(h.ctx, metav1.ListOptions{LabelSelector: "metal3.io/hostclaim"})
	if err != nil || len(secrets.Items) > 0 {
		t.Errorf("copies are left: %+v, %v", secrets.Items, err)
	}
}
