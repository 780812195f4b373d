// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

const machinePassword = "of-a-machine"

// serverArgs are the flags of an additional server with the Ironic of the suite.
func serverArgs(more ...string) []string {
	args := append(more, "--ironic-username-file="+s.file("username"), "--ironic-password-file="+s.file("password"))
	return append(args, s.ramdisk...)
}

// startServer starts an additional server that stops with the test.
func startServer(t *testing.T, ctx context.Context, home string, options testbed.ServerOptions) (*testbed.Server, versioned.Interface) {
	t.Helper()
	server, hosts := s.NewServer(t, ctx, home, options)
	if err := server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := server.Stop(); err != nil {
			t.Error(err)
		}
		if log, err := server.Logs(); err == nil && t.Failed() {
			t.Logf("log of the server:\n%s", log)
		}
	})
	return server, hosts
}

// provisionHost creates a host with an image, and waits until it runs that.
func provisionHost(t *testing.T, ctx context.Context, api versioned.Interface, ns string) {
	t.Helper()
	s.CreateSecret(t, ctx, ns, "bmc", map[string]string{"username": "admin", "password": machinePassword})
	m := newMachine(t, machinePassword)
	hosts := api.Metal3V1alpha1().BareMetalHosts(ns)
	if _, err := hosts.Create(ctx, &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: metal3.BareMetalHostSpec{
		BMC: metal3.BMCDetails{Address: m.address, CredentialsName: "bmc"}, BootMACAddress: m.mac,
		AutomatedCleaningMode: metal3.CleaningModeDisabled, Image: m.image(), Online: true,
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, ctx, func() string {
		host, err := hosts.Get(ctx, "x", metav1.GetOptions{})
		if err != nil || host.Status.Provisioning.State != metal3.StateProvisioned {
			return fmt.Sprintf("the host in %s is not provisioned: %v %+v", ns, err, host)
		}
		return ""
	})
}

// removeHost deletes the host and waits until it is gone.
func removeHost(t *testing.T, ctx context.Context, api versioned.Interface, ns string) {
	t.Helper()
	hosts := api.Metal3V1alpha1().BareMetalHosts(ns)
	if err := hosts.Delete(ctx, "x", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, ctx, func() string {
		host, err := hosts.Get(ctx, "x", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("the host in %s is not gone: %v %s %q", ns, err, host.Status.Provisioning.State, host.Status.ErrorMessage)
	})
}

// TestRightsGoWithNamespace: the namespace controller deletes the RoleBinding by which the server has its rights before anything
// else. The host and its Secret go all the same; if the server was not there in time, the Secret goes when somebody gives it the
// right.
func TestRightsGoWithNamespace(t *testing.T) {
	ctx, home := s.Begin(t)
	inTime, late := makeNamespace(t, ctx, "goes-in-time-"), makeNamespace(t, ctx, "goes-late-")
	account := applyRestrictedAccount(t, ctx, inTime, late)
	server, api := startServer(t, ctx, home, testbed.ServerOptions{
		IronicEndpoint: s.ironic.server.URL, EtcdServers: s.Kube.EtcdEndpoint, ServiceAccount: account,
		Args: serverArgs("--etcd-prefix=/registry/"+home, "--namespaces="+inTime+","+late),
	})
	provisionHost(t, ctx, api, inTime)
	provisionHost(t, ctx, api, late)

	// The hosts of this server are not served by the kube-apiserver, whose controller deletes the rest.
	deleteNamespace := func(ns string) {
		t.Helper()
		if err := s.Core.CoreV1().Namespaces().Delete(ctx, ns, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, ctx, func() string {
			bindings, err := s.Core.RbacV1().RoleBindings(ns).List(ctx, metav1.ListOptions{})
			if err != nil || len(bindings.Items) > 0 {
				return fmt.Sprintf("%v, %d RoleBindings", err, len(bindings.Items))
			}
			return ""
		})
	}
	isGone := func(ns string) {
		t.Helper()
		eventually(t, ctx, func() string {
			namespace, err := s.Core.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return ""
			}
			return fmt.Sprintf("the namespace is not gone: %v %+v", err, namespace.Status.Conditions)
		})
	}
	deleteNamespace(inTime)
	removeHost(t, ctx, api, inTime)
	isGone(inTime)

	if _, err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	deleteNamespace(late)
	if err := server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	removeHost(t, ctx, api, late)
	secret, err := s.Core.CoreV1().Secrets(late).Get(ctx, "bmc", metav1.GetOptions{})
	if err != nil || !slices.Contains(secret.Finalizers, metal3.SecretFinalizer) {
		t.Fatalf("the Secret that nobody could release: %v %v", err, secret.Finalizers)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: home},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "metal3-apiserver-secrets-restricted"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: testbed.Namespace, Name: account}},
	}
	if _, err := s.Core.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Core.RbacV1().ClusterRoleBindings().Delete(context.WithoutCancel(ctx), home, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	isGone(late)
}

// TestKubeEnforcesOwnersPermission: with the plugin in kube-apiserver, hosts live and go with the rights of the manifests.
func TestKubeEnforcesOwnersPermission(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	api := startEnforcing(t, ctx, ns, ns)
	provisionHost(t, ctx, api, ns)
	secretHas := func(finalizer bool) {
		t.Helper()
		secret, err := s.Core.CoreV1().Secrets(ns).Get(ctx, "bmc", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(secret.OwnerReferences) > 0 || slices.Contains(secret.Finalizers, metal3.SecretFinalizer) != finalizer || secret.Labels[metal3.EnvironmentLabel] == "" {
			t.Errorf("the Secret is %+v", secret.ObjectMeta)
		}
	}
	secretHas(true)
	removeHost(t, ctx, api, ns)
	secretHas(false)
}

// TestSecretsUnderPolicy: what a policy of the cluster refuses is told by the host that it is about, and goes on with the policy.
func TestSecretsUnderPolicy(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	const message = "who changes a Secret has to be somebody else"
	end := validateUpdates(t, ctx, ns, admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
		admissionregistrationv1.Validation{Expression: `request.userInfo.username != "` + serviceAccount + `"`, Message: message})
	s.CreateSecret(t, ctx, ns, "probe", map[string]string{"a": "b"})
	c := throughKube(t, user(t, serviceAccount, ownGroups...))
	eventually(t, ctx, func() string { // until kube-apiserver goes by the policy
		got := c.mustDo(t, ctx, "PATCH", "/api/v1/namespaces/"+ns+"/secrets/probe", "application/merge-patch+json", `{"metadata":{"labels":{"a":"b"}}}`)
		if !strings.Contains(got.body, message) {
			return fmt.Sprint(got.code)
		}
		return ""
	})
	s.CreateSecret(t, ctx, ns, "bmc", map[string]string{"username": "admin", "password": machinePassword})
	createHost(t, ctx, ns, "x", newMachine(t, machinePassword).address, "bmc")
	host := waitHost(t, ctx, ns, "x", "an error", func(h *metal3.BareMetalHost) bool { return strings.Contains(h.Status.ErrorMessage, message) })
	if words := `the admission of the cluster does not let metal3-apiserver change Secret "bmc".`; !strings.Contains(host.Status.ErrorMessage, words) {
		t.Errorf("the host says %q", host.Status.ErrorMessage)
	}
	end()
	waitHost(t, ctx, ns, "x", "available", isAvailable)
}
