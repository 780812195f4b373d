// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

const ownersPlugin = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement"

// startEnforcing starts a server for some namespaces, with the rights of the manifests. kube-apiserver has the plugin
// OwnerReferencesPermissionEnforcement, as OpenShift's.
func startEnforcing(t *testing.T, ctx context.Context, home, namespaces string, args ...string) versioned.Interface {
	t.Helper()
	kube, stop, err := s.Kube.StartSecondAPIServer(ctx, ownersPlugin)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	_, api := startServer(t, ctx, home, testbed.ServerOptions{
		KubeURL: kube.Config.Host, IronicEndpoint: s.ironic.server.URL, EtcdServers: s.Kube.EtcdEndpoint,
		Args: serverArgs(append(args, "--etcd-prefix=/registry/"+home, "--namespaces="+namespaces)...),
	})
	return api
}

// TestClaimsWhereOwnersAreEnforced: with the plugin in kube-apiserver and in this server, a claim gets a host, runs what it
// asks for with a Secret of its own, and gives the host back, with no more rights than those of the manifests.
func TestClaimsWhereOwnersAreEnforced(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	tenant := makeNamespace(t, ctx, "enforced-tenant-")
	api := startEnforcing(t, ctx, ns, ns+","+tenant, ownersPlugin)
	hosts, claims := api.Metal3V1alpha1().BareMetalHosts(ns), api.Metal3V1alpha1().HostClaims(tenant)
	m := offerHost(t, ctx, api, ns, tenant)
	s.CreateSecret(t, ctx, tenant, "first-boot", map[string]string{"userData": "#cloud-config"})
	if _, err := claims.Create(ctx, &metal3.HostClaim{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Spec: metal3.HostClaimSpec{
		PoweredOn: true, HostSelector: metal3.HostSelector{InNamespace: ns}, Image: m.image(), UserData: &corev1.SecretReference{Name: "first-boot"},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, ctx, func() string {
		claim, err := claims.Get(ctx, "mine", metav1.GetOptions{})
		if err == nil && meta.IsStatusConditionTrue(claim.Status.Conditions, "Ready") {
			return ""
		}
		return fmt.Sprintf("the claim is not ready: %v %+v", err, claim.Status)
	})
	waitCopy(t, ctx, ns, "#cloud-config")
	if _, err := s.Core.CoreV1().Secrets(tenant).Patch(ctx, "first-boot", types.MergePatchType, []byte(`{"stringData":{"userData":"#changed"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	waitCopy(t, ctx, ns, "#changed")
	if host, err := hosts.Get(ctx, "x", metav1.GetOptions{}); err != nil || host.Status.Provisioning.State != metal3.StateProvisioned || host.Spec.ConsumerRef == nil || host.Spec.ConsumerRef.Name != "mine" {
		t.Errorf("%v, the host is %+v", err, host)
	}
	// Where the server may delete Secrets, that of the BMC belongs to the host, as it does without the plugin.
	if secret, err := s.Core.CoreV1().Secrets(ns).Get(ctx, "bmc", metav1.GetOptions{}); err != nil || len(secret.OwnerReferences) != 1 {
		t.Errorf("%v, the Secret of the BMC is %+v", err, secret.ObjectMeta)
	}

	if err := claims.Delete(ctx, "mine", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, ctx, func() string {
		claim, err := claims.Get(ctx, "mine", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("the claim is not gone: %v %+v", err, claim.Status)
	})
	waitCopy(t, ctx, ns, "")
	if host, err := hosts.Get(ctx, "x", metav1.GetOptions{}); err != nil || host.Status.Provisioning.State != metal3.StateAvailable || host.Spec.ConsumerRef != nil {
		t.Errorf("%v, the host was given back as %+v", err, host)
	}
	removeHost(t, ctx, api, ns)
}

// offerHost creates a host x that the claims of a tenant may get, and permits the server to copy their Secrets.
func offerHost(t *testing.T, ctx context.Context, api versioned.Interface, ns, tenant string) machine {
	t.Helper()
	if _, err := s.Core.RbacV1().RoleBindings(ns).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "metal3-apiserver-secret-copies"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "metal3-apiserver-secret-copies"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: testbed.ServiceName, Namespace: testbed.Namespace}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.CreateSecret(t, ctx, ns, "bmc", map[string]string{"username": "admin", "password": machinePassword})
	m := newMachine(t, machinePassword)
	if _, err := api.Metal3V1alpha1().BareMetalHosts(ns).Create(ctx, &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: metal3.BareMetalHostSpec{
		BMC: metal3.BMCDetails{Address: m.address, CredentialsName: "bmc"}, BootMACAddress: m.mac, AutomatedCleaningMode: metal3.CleaningModeDisabled, Online: true,
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := api.Metal3V1alpha1().HostDeployPolicies(ns).Create(ctx, &metal3.HostDeployPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "tenants"},
		Spec:       metal3.HostDeployPolicySpec{HostClaimNamespaces: &metal3.HostClaimNamespaces{Names: []string{tenant}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return m
}

// waitCopy waits until the only copy of a claim's Secret in a namespace has these user data and its owner; empty ones mean
// that there is no copy.
func waitCopy(t *testing.T, ctx context.Context, ns, userData string) {
	t.Helper()
	eventually(t, ctx, func() string {
		list, err := s.Core.CoreV1().Secrets(ns).List(ctx, metav1.ListOptions{LabelSelector: "metal3.io/hostclaim"})
		switch {
		case err != nil:
			return err.Error()
		case userData == "" && len(list.Items) == 0:
			return ""
		case len(list.Items) == 1 && string(list.Items[0].Data["userData"]) == userData && len(list.Items[0].OwnerReferences) == 1:
			return ""
		}
		return fmt.Sprintf("%d copies, and not the one with %q and its owner", len(list.Items), userData)
	})
}
