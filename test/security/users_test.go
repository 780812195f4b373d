// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"crypto/tls"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ironic "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// person is somebody of the matrix.
type person struct {
	name, what   string
	certificates []tls.Certificate
	// token is that of a service account, who has no certificate.
	token string
	// role is a cluster role, rule a rule, that he has in his namespace. With everywhere, he has the role in the whole cluster, and it
	// is about the kinds of Ironics, which are in no namespace.
	role       string
	rule       *rbacv1.PolicyRule
	everywhere bool
	// probe is a permission that the role grants, as in "get baremetalhosts". That is the default.
	probe string
}

// on returns the client of somebody, for one of the two ways to our server.
func (p person) on(t *testing.T, way func(*testing.T, ...tls.Certificate) *client) *client {
	t.Helper()
	c := way(t, p.certificates...)
	if p.token != "" {
		c = c.with("Authorization", "Bearer "+p.token)
	}
	return c
}

const serviceAccount = "system:serviceaccount:" + testbed.Namespace + ":" + testbed.ServiceName

// ownGroups are those of our service account's token.
var ownGroups = []string{"system:serviceaccounts", "system:serviceaccounts:" + testbed.Namespace}

func people() []person {
	rule := func(resource string, verbs ...string) *rbacv1.PolicyRule {
		return &rbacv1.PolicyRule{APIGroups: []string{"metal3.io"}, Resources: []string{resource}, Verbs: verbs}
	}
	return []person{
		{name: "", what: "nobody: without credentials"},
		{name: "stranger", what: "stranger: a user without roles"},
		{name: "viewer", what: "viewer: view in his namespace", role: "view"},
		{name: "editor", what: "editor: edit in his namespace", role: "edit"},
		{name: "owner", what: "owner: admin in his namespace", role: "admin"},
		{name: "switcher", what: "switcher: create on baremetalhosts/power alone", rule: rule("baremetalhosts/power", "create")},
		{name: "keeper", what: "keeper: all on baremetalhosts, nothing on subresources", rule: rule("baremetalhosts", "*")},
		{name: "reporter", what: "reporter: all on baremetalhosts/status alone", rule: rule("baremetalhosts/status", "*")},
		{name: serviceAccount, what: "the service account of the server itself"},
		{name: "master", what: "master: group system:masters"},
	}
}

// roleHolders are people who have one of the roles of the manifests alone, or permissions on
// single objects.
func roleHolders() []person {
	holder := func(role, probe string) person {
		return person{name: role, what: role + " in his namespace", role: role, probe: probe}
	}
	everywhere := func(role, probe string) person {
		return person{name: role, what: role + " in the whole cluster", role: role, probe: probe, everywhere: true}
	}
	named := func(name string) *rbacv1.PolicyRule {
		return &rbacv1.PolicyRule{APIGroups: []string{"metal3.io"}, Resources: []string{"baremetalhosts", "baremetalhosts/power"}, Verbs: []string{"*"}, ResourceNames: []string{name}}
	}
	return []person{
		holder("metal3-baremetalhosts-reader", ""),
		holder("metal3-baremetalhosts-editor", "create baremetalhosts"),
		holder("metal3-baremetalhosts-operator", "create baremetalhosts/power"),
		holder("metal3-baremetalhosts-takeover", "create baremetalhosts/takeover"),
		holder("metal3-baremetalhosts-transfer", "create baremetalhosts/transfer"),
		holder("metal3-baremetalhosts-console", "create baremetalhosts/console"),
		holder("metal3-baremetalhosts-rebuild", "create baremetalhosts/rebuild"),
		holder("metal3-baremetalhosts-clean", "create baremetalhosts/clean"),
		holder("metal3-policies-editor", "create hostdeploypolicies"),
		holder("metal3-kinds-controller", "patch preprovisioningimages"),
		everywhere("metal3-candidates-reader", "list candidates"),
		everywhere("metal3-ironics-editor", "create ironicinstances"),
		{name: "named", what: "named: all on the host x and its power, by resourceNames", rule: named("x")},
		{name: "misnamed", what: "misnamed: all on the host y and its power, by resourceNames", rule: named("y")},
		{name: "robot", what: "robot: a service account of his namespace, with edit there", role: "edit", token: "to be made"},
		{name: "idle-robot", what: "idle-robot: a service account of his namespace, without roles", token: "to be made"},
	}
}

// makeUsers gives everybody a certificate, or a token, and his rights in ns.
func makeUsers(t *testing.T, ctx context.Context, ns string, more ...person) []person {
	t.Helper()
	users := append(people(), more...)
	for i := range users {
		p := &users[i]
		switch {
		case p.name == "":
			continue
		case p.token != "":
			p.token = makeServiceAccount(t, ctx, ns, p.name)
			p.name = "system:serviceaccount:" + ns + ":" + p.name
		case p.name == "master":
			p.certificates = []tls.Certificate{user(t, p.name, "system:masters")}
		case p.name == serviceAccount:
			p.certificates = []tls.Certificate{user(t, p.name, ownGroups...)}
		default:
			p.certificates = []tls.Certificate{user(t, p.name)}
		}
		if p.role != "" || p.rule != nil {
			grant(t, ctx, ns, *p)
		}
	}
	return users
}

// usersOfHost creates host x, and returns clients of those whom makeUsers makes, by name.
func usersOfHost(t *testing.T, ctx context.Context, ns string) map[string]*client {
	t.Helper()
	users := map[string]*client{}
	for _, p := range makeUsers(t, ctx, ns) {
		users[p.name] = throughKube(t, p.certificates...)
	}
	const password = "password"
	s.CreateSecret(t, ctx, ns, "bmc", map[string]string{"username": "admin", "password": password})
	createHost(t, ctx, ns, "x", simulator(t).NewBMC("admin", password), "bmc")
	return users
}

// makeServiceAccount returns a token of a new service account.
func makeServiceAccount(t *testing.T, ctx context.Context, ns, name string) string {
	t.Helper()
	accounts := s.Core.CoreV1().ServiceAccounts(ns)
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	made, err := accounts.CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made.Status.Token
}

// grant binds a role, and waits until it counts: a refusal is remembered for a while.
func grant(t *testing.T, ctx context.Context, ns string, p person) {
	t.Helper()
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: p.role}
	resource := &authorizationv1.ResourceAttributes{Namespace: ns, Group: "metal3.io", Resource: "baremetalhosts", Verb: "get"}
	if p.rule != nil {
		ref.Kind, ref.Name = "Role", p.name
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: p.name}, Rules: []rbacv1.PolicyRule{*p.rule}}
		if _, err := s.Core.RbacV1().Roles(ns).Create(ctx, role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if p.probe == "" {
			p.probe = strings.Replace(p.rule.Verbs[0], "*", "get", 1) + " " + p.rule.Resources[0]
		}
		if len(p.rule.ResourceNames) > 0 {
			resource.Name = p.rule.ResourceNames[0]
		}
	}
	if p.probe != "" {
		resource.Verb, resource.Resource, _ = strings.Cut(p.probe, " ")
		resource.Resource, resource.Subresource, _ = strings.Cut(resource.Resource, "/")
	}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: p.name}}
	if p.everywhere {
		resource.Namespace, resource.Group = "", ironic.GroupName
		bindEverywhere(t, ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: p.name + "-" + ns}, RoleRef: ref, Subjects: subjects})
	} else if _, err := s.Core.RbacV1().RoleBindings(ns).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: p.name}, RoleRef: ref, Subjects: subjects,
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, ctx, func() string {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: p.name, ResourceAttributes: resource}}
		got, err := s.Core.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return err.Error()
		}
		if !got.Status.Allowed {
			return p.what + ": the role does not count yet"
		}
		return ""
	})
}

// bindEverywhere binds a role in the whole cluster until the test ends.
func bindEverywhere(t *testing.T, ctx context.Context, binding *rbacv1.ClusterRoleBinding) {
	t.Helper()
	bindings := s.Core.RbacV1().ClusterRoleBindings()
	if _, err := bindings.Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bindings.Delete(context.WithoutCancel(ctx), binding.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// grantGroup binds a role to a group, which may count a moment later.
func grantGroup(t *testing.T, ctx context.Context, ns, group, role string) {
	t.Helper()
	if _, err := s.Core.RbacV1().RoleBindings(ns).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: group},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: group}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
