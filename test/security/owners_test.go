// SPDX-License-Identifier: Apache-2.0

package security

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestOwnerReferencesPermissionEnforcement: with the plugin, owner references need the same
// permissions as those of custom resources do with the plugin of kube-apiserver.
func TestOwnerReferencesPermissionEnforcement(t *testing.T) {
	attack(t, "write hosts", "set owner references without the permission for them")
	t.Parallel()
	ctx, ns := s.Begin(t)
	server, _ := s.NewServer(t, ctx, ns, testbed.ServerOptions{
		IronicEndpoint: s.ironic.server.URL,
		Args: append([]string{
			"--ironic-username-file=" + s.file("username"), "--ironic-password-file=" + s.file("password"),
			"--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
		}, testbed.UnusedRamdiskArgs...),
	})
	t.Cleanup(func() {
		if _, err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	rule := func(resource string, verbs ...string) *rbacv1.PolicyRule {
		return &rbacv1.PolicyRule{APIGroups: []string{"metal3.io"}, Resources: []string{resource}, Verbs: verbs}
	}
	users := map[string]*client{}
	for _, p := range []person{
		{name: "may-update", what: "may update hosts", rule: rule("baremetalhosts", "update", "patch")},
		{name: "may-delete", what: "may update and delete hosts", rule: rule("baremetalhosts", "update", "patch", "delete")},
	} {
		grant(t, ctx, ns, p)
		users[p.name] = newClient(t, server.Direct.Config, user(t, p.name))
	}
	users["master"] = newClient(t, server.Direct.Config, user(t, "master", "system:masters"))

	collection := groupVersion + "/namespaces/" + ns + "/baremetalhosts"
	owner := func(kind string, block bool) string {
		return fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"metal3.io/v1alpha1","kind":%q,"name":"rack","uid":"00000000-0000-4000-8000-000000000000","blockOwnerDeletion":%t}]}}`, kind, block)
	}
	if got := users["master"].mustDo(t, ctx, http.MethodPost, collection, "application/json", `{"apiVersion":"metal3.io/v1alpha1","kind":"BareMetalHost","metadata":{"name":"x"},"spec":{"online":false}}`); got.code != http.StatusCreated {
		t.Fatal(got)
	}
	const allowed = ""
	for _, tt := range []struct{ user, patch, refused string }{
		{"may-update", `{"metadata":{"labels":{"a":"b"}}}`, allowed},
		{"may-update", owner("HostClaim", false), "the owners of an object can be changed only by those who may delete it"},
		{"may-delete", owner("HostClaim", false), allowed},
		{"may-update", `{"metadata":{"labels":{"a":"c"}}}`, allowed}, // the owners stay as they are
		{"may-delete", owner("HostClaim", true), "blockOwnerDeletion for HostClaim rack can be set only by those who may update its finalizers"},
		{"may-delete", owner("NoSuchKind", true), "the resource of the owner is not known"},
		{"master", owner("HostClaim", true), allowed},
		{"may-delete", owner("HostClaim", false), allowed},
	} {
		got := users[tt.user].mustDo(t, ctx, http.MethodPatch, collection+"/x", "application/merge-patch+json", tt.patch)
		if tt.refused == allowed && got.code != http.StatusOK || tt.refused != allowed && (got.code != http.StatusForbidden || !strings.Contains(got.body, tt.refused)) {
			t.Errorf("%s: %s: %d %.500s, want %q", tt.user, tt.patch, got.code, got.body, tt.refused)
		}
	}
}
