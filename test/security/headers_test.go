// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"crypto/tls"
	"net/http"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSecretsThatAreSentElsewhere: who may create an object whose Secret is sent to an address in its spec
// must not get at Secrets that way. Only who may get the Secret may refer to it, also as a service
// account, and what existed before can still be changed otherwise.
func TestSecretsThatAreSentElsewhere(t *testing.T) {
	attack(t, "create objects, no right on Secrets", "have a Secret sent to an address of their choice")
	t.Parallel()
	ctx, ns := s.Begin(t)
	s.CreateSecret(t, ctx, ns, "secret", map[string]string{"Authorization": newCanary("a Secret that is not a header").text})
	kinds := map[string]struct {
		kind  string
		spec  object
		field string
	}{
		"bmceventsubscriptions": {"BMCEventSubscription", object{
			"hostName": "x", "destination": "https://192.0.2.1/", "httpHeadersRef": object{"name": "secret", "namespace": ns},
		}, "spec.httpHeadersRef.name"},
		"baremetalswitches": {"BareMetalSwitch", object{
			"address": "192.0.2.1", "macAddress": "00:11:22:33:44:55", "deviceType": "netmiko_arista_eos", "credentials": object{"name": "secret", "namespace": ns},
		}, "spec.credentials.name"},
		"preprovisioningimages": {"PreprovisioningImage", object{"networkDataName": "secret", "architecture": "x86_64"}, "spec.networkDataName"},
	}
	var resources []string
	for resource := range kinds {
		resources = append(resources, resource)
	}
	rule := func(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
	}
	write := rule("metal3.io", resources, "*")
	for _, p := range []struct {
		person
		rules []rbacv1.PolicyRule
		may   bool
	}{
		{person{name: "subscriber", certificates: []tls.Certificate{user(t, "subscriber")}}, []rbacv1.PolicyRule{write, rule("", []string{"secrets"}, "list", "create")}, false},
		{person{name: "trusted", certificates: []tls.Certificate{user(t, "trusted")}}, []rbacv1.PolicyRule{write, rule("", []string{"secrets"}, "get")}, true},
		{person{name: "gitops", token: makeServiceAccount(t, ctx, ns, "gitops")}, []rbacv1.PolicyRule{write}, false},
	} {
		subject := rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: p.name}
		if p.token != "" {
			subject = rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: p.name}
		}
		grantRules(t, ctx, ns, subject, p.rules)
		for _, way := range []struct {
			name   string
			client *client
		}{{"through kube-apiserver", p.on(t, throughKube)}, {"directly", p.on(t, direct)}} {
			for resource, k := range kinds {
				url := groupVersion + "/namespaces/" + ns + "/" + resource
				text := body(t, object{"apiVersion": "metal3.io/v1alpha1", "kind": k.kind, "metadata": object{"generateName": "x-"}, "spec": k.spec})
				want := http.StatusForbidden
				if p.may {
					want = http.StatusCreated
				}
				// The role may count a moment later.
				var got answer
				eventually(t, ctx, func() string {
					got = way.client.mustDo(t, ctx, http.MethodPost, url+"?dryRun=All", "application/json", text)
					if got.code != want || !p.may && !strings.Contains(got.body, `"field":"`+k.field+`"`) {
						return p.name + " " + way.name + ", " + resource + ": " + got.body
					}
					return ""
				})
			}
		}
	}
}

// grantRules binds rules of a namespace to somebody.
func grantRules(t *testing.T, ctx context.Context, ns string, subject rbacv1.Subject, rules []rbacv1.PolicyRule) {
	t.Helper()
	name := metav1.ObjectMeta{Name: subject.Name}
	if _, err := s.Core.RbacV1().Roles(ns).Create(ctx, &rbacv1.Role{ObjectMeta: name, Rules: rules}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Core.RbacV1().RoleBindings(ns).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: subject.Name}, Subjects: []rbacv1.Subject{subject},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
