package security

import (
	"context"
	"crypto/tls"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// person is somebody of the matrix.
type person struct {
	name, what   string
	certificates []tls.Certificate
	// role is a cluster role, rule a rule, that he has in his namespace.
	role string
	rule *rbacv1.PolicyRule
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

// makeUsers gives everybody a certificate and his rights in ns.
func makeUsers(t *testing.T, ctx context.Context, ns string) []person {
	t.Helper()
	users := people()
	for i := range users {
		p := &users[i]
		switch p.name {
		case "":
			continue
		case "master":
			p.certificates = []tls.Certificate{user(t, p.name, "system:masters")}
		case serviceAccount:
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
		resource.Verb = p.rule.Verbs[0]
		if names := p.rule.ResourceNames; len(names) > 0 {
			resource.Name = names[0]
		}
		if resource.Resource = p.rule.Resources[0]; resource.Resource != "baremetalhosts" {
			resource.Subresource = resource.Resource[len("baremetalhosts/"):]
			resource.Resource = "baremetalhosts"
		}
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: p.name}, RoleRef: ref,
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: p.name}},
	}
	if _, err := s.Core.RbacV1().RoleBindings(ns).Create(ctx, binding, metav1.CreateOptions{}); err != nil {
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
