// SPDX-License-Identifier: Apache-2.0

package security

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestTenant: somebody who may only write the HostClaims and read the HardwareData of a namespace gets a
// machine of another one, uses it and gives it back. Meanwhile he can read neither hosts, nor BMC
// addresses, nor Secrets. Who is not admitted by a policy gets nothing.
func TestTenant(t *testing.T) {
	attack(t, "write HostClaims, read HardwareData in one namespace", "read hosts, BMC addresses or Secrets; get a host that no policy offers")
	t.Parallel()
	ctx, infra := s.Begin(t)
	home, elsewhere := makeNamespace(t, ctx, "tenant-"), makeNamespace(t, ctx, "stranger-")
	password := newCanary("the password of a claimed host")
	s.CreateSecret(t, ctx, infra, "bmc", map[string]string{"username": "admin", "password": password.text})
	address := simulator(t).NewBMC("admin", password.text)
	createHost(t, ctx, infra, "worker-0", address, "bmc")
	waitHost(t, ctx, infra, "worker-0", "available", func(h *metal3.BareMetalHost) bool {
		return h.Status.Provisioning.State == metal3.StateAvailable
	})
	//DOC
	const script = "#cloud-config\n# of the tenant"
	s.CreateSecret(t, ctx, home, "first-boot", map[string]string{"userData": script})

	grant(t, ctx, home, person{name: "tenant", what: "tenant", probe: "create hostclaims", rule: &rbacv1.PolicyRule{
		APIGroups: []string{"metal3.io"}, Resources: []string{"hostclaims", "hardwaredata"}, Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"},
	}})
	tenant := throughKube(t, user(t, "tenant"))
	claimPath := groupVersion + "/namespaces/" + home + "/hostclaims"
	claim := func() *metal3.HostClaim {
		t.Helper()
		got := tenant.get(t, ctx, claimPath+"/mine")
		if strings.Contains(got.body, address) || strings.Contains(got.body, password.core) {
			t.Errorf("the claim shows the BMC: %s", got.body)
		}
		claim := &metal3.HostClaim{}
		if err := json.Unmarshal([]byte(got.body), claim); err != nil || got.code != http.StatusOK {
			t.Fatalf("%v %+v", err, got)
		}
		return claim
	}
	patch := func(body string) {
		t.Helper()
		if got := tenant.mustDo(t, ctx, http.MethodPatch, claimPath+"/mine", "application/merge-patch+json", body); got.code != http.StatusOK {
			t.Fatalf("%s: %+v", body, got)
		}
	}
	claims := s.Metal3.Metal3V1alpha1().HostClaims
	is := func(what string, wanted func(*metal3.HostClaim) bool) {
		t.Helper()
		eventually(t, ctx, func() string {
			if got := claim(); !wanted(got) {
				return fmt.Sprintf("the claim is not %s: %+v", what, got.Status)
			}
			return ""
		})
		canReadNothingElse(t, infra, home, tenant)
	}
	has := func(kind string, status metav1.ConditionStatus, reason string) func(*metal3.HostClaim) bool {
		return func(claim *metal3.HostClaim) bool {
			c := meta.FindStatusCondition(claim.Status.Conditions, kind)
			return c != nil && c.Status == status && c.Reason == reason && c.ObservedGeneration == claim.Generation
		}
	}

	// Nobody is admitted by default.
	wanted := &metal3.HostClaim{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Spec: metal3.HostClaimSpec{HostSelector: metal3.HostSelector{InNamespace: infra}}}
	if _, err := claims(elsewhere).Create(ctx, wanted, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(`{"apiVersion":"metal3.io/v1alpha1","kind":"HostClaim","metadata":{"name":"mine"},"spec":{"poweredOn":true,"userData":{"name":"first-boot"},"hostSelector":{"inNamespace":%q}}}`, infra)
	if got := tenant.mustDo(t, ctx, http.MethodPost, claimPath, "application/json", body); got.code != http.StatusCreated {
		t.Fatal(got)
	}
	is("refused", has("Associated", metav1.ConditionFalse, "NoBareMetalHost"))
	policy := &metal3.HostDeployPolicy{ObjectMeta: metav1.ObjectMeta{Name: "tenants"}, Spec: metal3.HostDeployPolicySpec{
		HostClaimNamespaces: &metal3.HostClaimNamespaces{Names: []string{home}},
	}}
	if _, err := s.Metal3.Metal3V1alpha1().HostDeployPolicies(infra).Create(ctx, policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	// Its Secrets are not copied before somebody has allowed that.
	is("bound", has("Associated", metav1.ConditionTrue, "BareMetalHostAssociated"))
	is("without its Secret", has("Synchronized", metav1.ConditionFalse, "UserDataSecretSyncFailure"))
	if _, err := s.Core.RbacV1().RoleBindings(infra).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "metal3-apiserver-secret-copies"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "metal3-apiserver-secret-copies"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: testbed.ServiceName, Namespace: testbed.Namespace}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	patch(fmt.Sprintf(`{"spec":{"image":{"url":%q,"checksum":%q}}}`, testImage.URL, testImage.Checksum))
	is("provisioned", has("Ready", metav1.ConditionTrue, "InfoReported"))
	waitHost(t, ctx, infra, "worker-0", "provisioned for the tenant", func(h *metal3.BareMetalHost) bool {
		return h.Status.Provisioning.State == metal3.StateProvisioned && h.Status.Provisioning.Image.URL == testImage.URL && h.Spec.ConsumerRef.Name == "mine"
	})
	copies, err := s.Core.CoreV1().Secrets(infra).List(ctx, metav1.ListOptions{LabelSelector: "metal3.io/hostclaim=" + string(claim().UID)})
	if err != nil || len(copies.Items) != 1 || string(copies.Items[0].Data["userData"]) != script {
		t.Errorf("the copies are %+v, %v", copies.Items, err)
	}

	hardware := tenant.get(t, ctx, groupVersion+"/namespaces/"+home+"/hardwaredata/mine")
	if place := claim().Status.HardwareData; hardware.code != http.StatusOK || !strings.Contains(hardware.body, `"ramMebibytes"`) || place == nil || place.Namespace != home {
		t.Errorf("the hardware is at %+v: %d %.300s", place, hardware.code, hardware.body)
	}

	on := func(want bool) func(*metal3.HostClaim) bool {
		return func(claim *metal3.HostClaim) bool { return claim.Status.PoweredOn == want }
	}
	is("on", on(true))
	patch(`{"metadata":{"annotations":{"reboot.metal3.io/maintenance":""}}}`)
	is("off", on(false))
	patch(`{"metadata":{"annotations":{"reboot.metal3.io/maintenance":null}}}`)
	is("on", on(true))
	patch(`{"metadata":{"annotations":{"reboot.metal3.io":""}}}`)
	waitHost(t, ctx, infra, "worker-0", "rebooted", func(h *metal3.BareMetalHost) bool {
		_, toReboot := h.Annotations[metal3.RebootAnnotation]
		_, toPassOn := claim().Annotations[metal3.RebootAnnotation]
		return !toReboot && !toPassOn && h.Status.PoweredOn
	})

	if got := tenant.mustDo(t, ctx, http.MethodDelete, claimPath+"/mine", "", ""); got.code != http.StatusOK {
		t.Fatal(got)
	}
	eventually(t, ctx, func() string {
		if left, err := claims(home).Get(ctx, "mine", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("the claim is still there: %+v, %v", left, err)
		}
		return ""
	})
	host := waitHost(t, ctx, infra, "worker-0", "given back", func(h *metal3.BareMetalHost) bool { return h.Spec.ConsumerRef == nil })
	if spec := host.Spec; host.Status.Provisioning.State != metal3.StateAvailable || spec.Image != nil || spec.UserData != nil || spec.Online {
		t.Errorf("the host was given back with %+v, %s", spec, host.Status.Provisioning.State)
	}
	if copies, err = s.Core.CoreV1().Secrets(infra).List(ctx, metav1.ListOptions{LabelSelector: "metal3.io/hostclaim"}); err != nil || len(copies.Items) > 0 {
		t.Errorf("copies are left: %+v, %v", copies.Items, err)
	}
	if theirs, err := claims(elsewhere).Get(ctx, "theirs", metav1.GetOptions{}); err != nil || theirs.Status.BareMetalHost != nil || !has("Associated", metav1.ConditionFalse, "NoBareMetalHost")(theirs) {
		t.Errorf("the claim of a stranger has the status %+v, %v", theirs.Status, err)
	}
}

// canReadNothingElse tries what a tenant may not read, whatever the state of his claim.
func canReadNothingElse(t *testing.T, infra, home string, tenant *client) {
	t.Helper()
	for _, path := range []string{
		groupVersion + "/baremetalhosts",
		groupVersion + "/namespaces/" + infra + "/baremetalhosts",
		groupVersion + "/namespaces/" + infra + "/baremetalhosts/worker-0",
		groupVersion + "/namespaces/" + infra + "/baremetalhosts/worker-0/status",
		groupVersion + "/namespaces/" + infra + "/baremetalhosts/worker-0/power",
		groupVersion + "/namespaces/" + infra + "/hardwaredata/worker-0",
		groupVersion + "/namespaces/" + infra + "/hostclaims",
		groupVersion + "/namespaces/" + infra + "/hostdeploypolicies",
		groupVersion + "/namespaces/" + home + "/baremetalhosts",
		"/apis/ironic.metal3-apiserver.io/v1alpha1/candidates",
		"/api/v1/namespaces/" + infra + "/secrets",
		"/api/v1/namespaces/" + infra + "/secrets/bmc",
		"/api/v1/namespaces/" + home + "/secrets/first-boot",
	} {
		if got := tenant.get(t, t.Context(), path); got.code != http.StatusForbidden {
			t.Errorf("GET %s: %d %.300s", path, got.code, got.body)
		}
	}
}
