// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestCertainNamespaces: a server with --namespaces, as a service account that has only what the
// manifests with the component namespaces give it, manages the hosts there. It can read no Secret of
// another namespace. It refuses hosts there, and does nothing for those that are there already, which
// say why. They can still be read and changed.
func TestCertainNamespaces(t *testing.T) {
	attack(t, "the server's token with --namespaces; write hosts elsewhere", "read Secrets elsewhere, have hosts managed there")
	t.Parallel()
	ctx, first := s.Begin(t)
	second, other := makeNamespace(t, ctx, "managed-too-"), makeNamespace(t, ctx, "not-managed-")
	const password = "read-by-the-thief-below"
	for _, ns := range []string{first, second, other} {
		s.CreateSecret(t, ctx, ns, "bmc", map[string]string{"username": "admin", "password": password})
	}
	newHost := func(name string) *metal3.BareMetalHost {
		m := newMachine(t, password)
		return &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: metal3.BareMetalHostSpec{
			BMC: metal3.BMCDetails{Address: m.address, CredentialsName: "bmc"}, BootMACAddress: m.mac,
			AutomatedCleaningMode: metal3.CleaningModeDisabled, Image: m.image(), Online: true,
		}}
	}
	// No Ironic: the host of the other namespace is created before the flag is set.
	options := testbed.ServerOptions{IronicEndpoint: "http://127.0.0.1:1", EtcdServers: s.Kube.EtcdEndpoint, Args: []string{"--etcd-prefix=/registry/" + first}}
	before, hosts := s.NewServer(t, ctx, first, options)
	if err := before.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := hosts.Metal3V1alpha1().BareMetalHosts(other).Create(ctx, newHost("old"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := before.Stop(); err != nil {
		t.Fatal(err)
	}

	account := applyRestrictedAccount(t, ctx, first, second)
	options.ServiceAccount = account
	options.IronicEndpoint = s.ironic.server.URL
	options.Args = append(options.Args, "--namespaces="+first+","+second,
		"--ironic-username-file="+s.file("username"), "--ironic-password-file="+s.file("password"))
	options.Args = append(options.Args, s.ramdisk...)
	server, hosts := s.NewServer(t, ctx, first, options)
	if err := server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	_, err := hosts.Metal3V1alpha1().BareMetalHosts(other).Create(ctx, newHost("new"), metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "metadata.namespace") || strings.Contains(err.Error(), first) {
		t.Errorf("a host in another namespace: %v, want a 422 about metadata.namespace that does not name the others", err)
	}
	for _, ns := range []string{first, second} {
		if _, err := hosts.Metal3V1alpha1().BareMetalHosts(ns).Create(ctx, newHost("new"), metav1.CreateOptions{}); err != nil {
			t.Errorf("a host in a managed namespace: %v", err)
		}
	}
	for _, ns := range []string{first, second} {
		eventually(t, ctx, func() string {
			host, err := hosts.Metal3V1alpha1().BareMetalHosts(ns).Get(ctx, "new", metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			if host.Status.Provisioning.State != metal3.StateProvisioned {
				return fmt.Sprintf("the host in %s is not provisioned yet: %+v", ns, host.Status)
			}
			return ""
		})
	}
	eventually(t, ctx, func() string {
		host, err := hosts.Metal3V1alpha1().BareMetalHosts(other).Get(ctx, "old", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		registered := meta.FindStatusCondition(host.Status.Conditions, metal3.RegisteredCondition)
		if registered == nil || registered.Reason != metal3.NamespaceNotManagedReason || !strings.Contains(host.Status.ErrorMessage, "--namespaces") {
			return fmt.Sprintf("the host does not say that it is not managed: %+v", host.Status)
		}
		return ""
	})
	if _, err := hosts.Metal3V1alpha1().BareMetalHosts(other).Patch(ctx, "old", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null},"spec":{"description":"changed"}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("the host of another namespace cannot be changed: %v", err)
	}
	if err := hosts.Metal3V1alpha1().BareMetalHosts(other).Delete(ctx, "old", metav1.DeleteOptions{}); err != nil {
		t.Errorf("the host of another namespace cannot be deleted: %v", err)
	}

	// What somebody who has stolen the token can do.
	thief := throughKube(t, user(t, "system:serviceaccount:"+testbed.Namespace+":"+account, ownGroups...))
	for path, want := range map[string]int{
		"/api/v1/namespaces/" + first + "/secrets/bmc":        http.StatusOK,
		"/api/v1/namespaces/" + second + "/secrets":           http.StatusOK,
		"/api/v1/namespaces/" + other + "/secrets/bmc":        http.StatusForbidden,
		"/api/v1/namespaces/" + other + "/secrets":            http.StatusForbidden,
		"/api/v1/namespaces/" + other + "/secrets?watch=true": http.StatusForbidden,
		"/api/v1/secrets":                                                            http.StatusForbidden,
		"/api/v1/secrets?watch=true":                                                 http.StatusForbidden,
		"/api/v1/namespaces/" + testbed.Namespace + "/secrets":                       http.StatusForbidden,
		groupVersion + "/namespaces/" + first + "/baremetalhosts":                    http.StatusForbidden,
		"/apis/rbac.authorization.k8s.io/v1/namespaces/" + first + "/rolebindings":   http.StatusForbidden,
		"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/" + account + "-any": http.StatusForbidden,
	} {
		if got := thief.get(t, ctx, path); got.code != want {
			t.Errorf("the service account: GET %s: %d %.300s, want %d", path, got.code, got.body, want)
		}
	}
	patch := `{"metadata":{"labels":{"stolen":"yes"}}}`
	if got := thief.mustDo(t, ctx, http.MethodPatch, "/api/v1/namespaces/"+other+"/secrets/bmc", "application/merge-patch+json", patch); got.code != http.StatusForbidden {
		t.Errorf("the service account changes a Secret of another namespace: %d %.300s", got.code, got.body)
	}
}

// applyRestrictedAccount applies the service account, roles and bindings of the manifests with the
// component namespaces, and what each of the namespaces needs, under another name than that of the
// server of the suite. It returns the name of the service account.
func applyRestrictedAccount(t *testing.T, ctx context.Context, namespaces ...string) (account string) {
	t.Helper()
	repo, err := testbed.RepoRoot()
	if err != nil {
		t.Fatal(err)
	}
	render := func(kustomization string) (objects []map[string]any) {
		// kustomize refuses absolute paths, and bases outside of the folder of a kustomization are
		// relative to it.
		dir := t.TempDir()
		relative, err := filepath.Rel(dir, filepath.Join(repo, "artifacts", "apiservice"))
		if err != nil {
			t.Fatal(err)
		}
		content := strings.ReplaceAll(kustomization, "MANIFESTS", relative)
		if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		rendered, _, err := s.Kube.Kubectl(ctx, "", "kustomize", dir)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(rendered, "\n---\n") {
			var object map[string]any
			if err := yaml.Unmarshal([]byte(document), &object); err != nil {
				t.Fatal(err)
			}
			objects = append(objects, object)
		}
		return objects
	}
	objects := render("resources: [MANIFESTS/base]\ncomponents: [MANIFESTS/components/namespaces]\n")
	for _, ns := range namespaces {
		objects = append(objects, render("namespace: "+ns+"\nresources: [MANIFESTS/managed-namespace]\n")...)
	}
	const suffix = "-restricted"
	bound := map[any]bool{} // the names of roles, of which those for users are left out
	for _, object := range objects {
		if ref, ok := object["roleRef"].(map[string]any); ok {
			bound[ref["name"]] = true
		}
	}
	var roles []any
	objects = slices.DeleteFunc(objects, func(object map[string]any) bool {
		name := object["metadata"].(map[string]any)["name"]
		switch object["kind"] {
		case "Role", "ClusterRole":
			roles = append(roles, name)
			return !bound[name]
		}
		return !slices.Contains([]any{"ServiceAccount", "RoleBinding", "ClusterRoleBinding"}, object["kind"])
	})
	for _, object := range objects {
		metadata := object["metadata"].(map[string]any)
		metadata["name"] = metadata["name"].(string) + suffix
		delete(metadata, "labels")
	}
	var list strings.Builder
	for _, object := range objects {
		if ref, ok := object["roleRef"].(map[string]any); ok && slices.Contains(roles, ref["name"]) {
			ref["name"] = ref["name"].(string) + suffix
		}
		subjects, _ := object["subjects"].([]any)
		for _, subject := range subjects {
			if subject := subject.(map[string]any); subject["kind"] == rbacv1.ServiceAccountKind {
				subject["name"] = subject["name"].(string) + suffix
			}
		}
		text, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		list.WriteString("---\n" + string(text))
	}
	if _, _, err := s.Kube.Kubectl(ctx, list.String(), "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	return testbed.ServiceName + suffix
}
