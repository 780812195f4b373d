// SPDX-License-Identifier: Apache-2.0

package security

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestOwnRights: all that the service account of the manifests may do, in the
// namespaces where it has rights of its own and anywhere else. testdata/server.txt
// has it, docs/security.md what each right is for.
func TestOwnRights(t *testing.T) {
	attack(t, "the server's token", "each verb on each resource of the cluster")
	t.Parallel()
	ctx, elsewhere := s.Begin(t)
	config := rest.CopyConfig(s.Config)
	config.Impersonate.UserName = serviceAccount
	config.Impersonate.Groups = append(slices.Clone(ownGroups), "system:authenticated")
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	text.WriteString("# All that the server's service account may do, its rights as a user of the cluster included.\n# Written by: go test ./test/security -run TestOwnRights -update\n")
	var everywhere []string
	for _, ns := range []string{elsewhere, testbed.Namespace, metav1.NamespaceSystem} {
		review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: ns}}
		got, err := core.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got.Status.Incomplete {
			t.Errorf("the rules in %s are not all: %s", ns, got.Status.EvaluationError)
		}
		rules := rulesOf(got.Status)
		if ns == elsewhere {
			everywhere = rules
			fmt.Fprintf(&text, "\neverywhere\n  %s\n", strings.Join(rules, "\n  "))
			continue
		}
		rules = slices.DeleteFunc(rules, func(rule string) bool { return slices.Contains(everywhere, rule) })
		fmt.Fprintf(&text, "\nin %s also\n  %s\n", ns, strings.Join(rules, "\n  "))
	}
	golden(t, "testdata/server.txt", text.String())
}

// rulesOf are the rules, a line for each verb list and resource.
func rulesOf(status authorizationv1.SubjectRulesReviewStatus) []string {
	var rules []string
	for _, rule := range status.ResourceRules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				name := resource
				if group != "" {
					name, _, _ = strings.Cut(resource, "/")
					name = strings.Replace(resource, name, name+"."+group, 1)
				}
				if len(rule.ResourceNames) > 0 {
					name += " named " + strings.Join(rule.ResourceNames, ", ")
				}
				rules = append(rules, name+": "+strings.Join(rule.Verbs, " "))
			}
		}
	}
	for _, rule := range status.NonResourceRules {
		for _, path := range rule.NonResourceURLs {
			rules = append(rules, path+": "+strings.Join(rule.Verbs, " "))
		}
	}
	slices.Sort(rules)
	return slices.Compact(rules)
}

// TestOwnRightsEnd tries what somebody with the server's token would try next.
func TestOwnRightsEnd(t *testing.T) {
	attack(t, "the server's token", "get more: tokens, roles, Pods, a new APIService")
	t.Parallel()
	ctx, ns := s.Begin(t)
	s.CreateSecret(t, ctx, ns, "some", map[string]string{"a": "b"})
	c := throughKube(t, user(t, serviceAccount, ownGroups...))
	const dry = "?dryRun=All"
	for _, attempt := range []string{
		"POST /api/v1/namespaces/" + ns + "/secrets" + dry,
		"DELETE /api/v1/namespaces/" + ns + "/secrets/some" + dry,
		"DELETE /api/v1/namespaces/" + ns + "/secrets" + dry,
		"GET /api/v1/namespaces/" + ns + "/configmaps",
		"GET /api/v1/namespaces/kube-system/configmaps",
		"GET /api/v1/namespaces/kube-system/configmaps/kube-root-ca.crt",
		"PUT /api/v1/namespaces/kube-system/configmaps/" + trustMap + dry,
		"POST /api/v1/namespaces/" + ns + "/pods" + dry,
		"GET /api/v1/namespaces/" + ns + "/pods",
		"POST /api/v1/namespaces/" + testbed.Namespace + "/serviceaccounts/" + testbed.ServiceName + "/token",
		"POST /apis/rbac.authorization.k8s.io/v1/namespaces/" + ns + "/rolebindings" + dry,
		"POST /apis/rbac.authorization.k8s.io/v1/clusterrolebindings" + dry,
		"PATCH /apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.metal3.io" + dry,
		"DELETE /apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.metal3.io" + dry,
		"PATCH /apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/any" + dry,
		"PATCH /api/v1/namespaces/" + ns + dry,
		"GET /apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
		"PUT /apis/coordination.k8s.io/v1/namespaces/" + testbed.Namespace + "/leases/another" + dry,
		"PUT /apis/coordination.k8s.io/v1/namespaces/kube-system/leases/metal3-apiserver" + dry,
		"POST /apis/metal3.io/v1alpha1/namespaces/" + ns + "/baremetalhosts" + dry,
		"GET /apis/metal3.io/v1alpha1/namespaces/" + ns + "/baremetalhosts",
		"GET /metrics", "GET /logs/",
	} {
		method, path, _ := strings.Cut(attempt, " ")
		contentType, body := "application/json", "{}"
		switch method {
		case http.MethodPatch:
			contentType = "application/merge-patch+json"
		case http.MethodGet, http.MethodDelete:
			contentType, body = "", ""
		}
		if got := c.mustDo(t, ctx, method, path, contentType, body); got.code != http.StatusForbidden {
			t.Errorf("%s: %d %.300s, want 403", attempt, got.code, got.body)
		}
	}
	if got := c.with("Impersonate-User", "root").get(t, ctx, hosts); got.code != http.StatusForbidden {
		t.Errorf("impersonation: %d %.300s, want 403", got.code, got.body)
	}
	// What it needs, so that the refusals above are no accident.
	for _, path := range []string{"/api/v1/namespaces/" + ns + "/secrets/some", "/api/v1/namespaces/kube-system/configmaps/" + trustMap} {
		if got := c.get(t, ctx, path); got.code != http.StatusOK {
			t.Errorf("GET %s: %d %.300s", path, got.code, got.body)
		}
	}
}
