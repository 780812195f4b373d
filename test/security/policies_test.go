// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPoliciesSeeActions: a policy on updates of hosts holds for what actions write into them, in
// the name of the user, who may have no permission to write hosts.
func TestPoliciesSeeActions(t *testing.T) {
	attack(t, "each action, no right to write hosts", "pass a policy on UPDATE of hosts by an action")
	t.Parallel()
	ctx, ns := s.Begin(t)
	users := usersOfHost(t, ctx, ns)
	before := waitHost(t, ctx, ns, "x", "available", isAvailable)

	t.Cleanup(validateUpdates(t, ctx, ns, admissionregistrationv1.Rule{
		APIGroups: []string{"metal3.io"}, APIVersions: []string{"v1alpha1"}, Resources: []string{"baremetalhosts", "baremetalhosts/status"},
	}, admissionregistrationv1.Validation{
		Expression:        `request.userInfo.username in ["admin", "master"]`,
		MessageExpression: `"user " + request.userInfo.username + " must not change " + request.namespace + "/" + request.name + " (" + request.?subResource.orValue("") + "): online is " + string(object.spec.online)`,
	}))

	host := groupVersion + "/namespaces/" + ns + "/baremetalhosts/x"
	const off = `{"spec":{"action":"off","mode":"hard"}}`
	post := func(user, path, body string) answer {
		return users[user].mustDo(t, ctx, http.MethodPost, host+path, "application/json", body)
	}
	refusal := "user switcher must not change " + ns + "/x (): online is false"
	eventually(t, ctx, func() string { // until our server has seen the policy
		if got := post("switcher", "/power?dryRun=All", off); !strings.Contains(got.body, refusal) {
			return got.body
		}
		return ""
	})
	// An inspection writes to a host whose node has to be made manageable first.
	if err := simulator(t).SetNode(before.Status.Provisioning.ID, map[string]any{"provision_state": "available"}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ user, path, body, says string }{
		{"switcher", "/power", off, refusal},
		{"owner", "/power", off, "user owner must not change " + ns + "/x (): online is false"},
		{"owner", "/inspect", `{"spec":{}}`, "user owner must not change " + ns + "/x (): online is true"},
		{"owner", "/retry", `{"spec":{}}`, "user owner must not change " + ns + "/x (status): online is true"},
	} {
		if got := post(tt.user, tt.path, tt.body); got.code != http.StatusUnprocessableEntity || !strings.Contains(got.body, tt.says) {
			t.Errorf("%s of %s: %d %s, want %q", tt.path, tt.user, got.code, got.body, tt.says)
		}
	}
	now := waitHost(t, ctx, ns, "x", "as it was", isAvailable)
	if !now.Spec.Online || now.Generation != before.Generation {
		t.Errorf("the host was changed: %+v", now.Spec)
	}
	if got := post("master", "/power", off); got.code != http.StatusCreated {
		t.Errorf("/power of somebody whom the policy allows it: %d %s", got.code, got.body)
	}
}

// validateUpdates adds a policy on updates of resources in a namespace, and returns what removes it.
func validateUpdates(t *testing.T, ctx context.Context, ns string, resources admissionregistrationv1.Rule, validation admissionregistrationv1.Validation) (end func()) {
	t.Helper()
	api := s.Core.AdmissionregistrationV1()
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	policy.Spec.MatchConstraints = &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{
		{RuleWithOperations: admissionregistrationv1.RuleWithOperations{Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update}, Rule: resources}},
	}}
	policy.Spec.Validations = []admissionregistrationv1.Validation{validation}
	if _, err := api.ValidatingAdmissionPolicies().Create(ctx, policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: ns, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		MatchResources: &admissionregistrationv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}}},
	}}
	if _, err := api.ValidatingAdmissionPolicyBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return func() {
		ctx := context.WithoutCancel(ctx)
		if err := errors.Join(
			api.ValidatingAdmissionPolicyBindings().Delete(ctx, ns, metav1.DeleteOptions{}),
			api.ValidatingAdmissionPolicies().Delete(ctx, ns, metav1.DeleteOptions{}),
		); err != nil {
			t.Error(err)
		}
	}
}
