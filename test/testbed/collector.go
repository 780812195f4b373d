// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// controllers is the user of kube-controller-manager.
const controllers = "system:kube-controller-manager"

// elsewhereLabel is that of namespaces whose hosts are in a server of their own.
const elsewhereLabel = "testbed.metal3.io/elsewhere"

// keepSecretsElsewhere forbids the garbage collector to delete the Secrets of hosts that are in a server of their own: it asks the one
// that the APIService leads to for their owners, which has never heard of them.
func (s *Suite) keepSecretsElsewhere(ctx context.Context) error {
	name := metav1.ObjectMeta{Name: "keep-secrets-elsewhere"}
	api := s.Core.AdmissionregistrationV1()
	if _, err := api.ValidatingAdmissionPolicies().Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: name, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionregistrationv1.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: elsewhereLabel, Operator: metav1.LabelSelectorOpExists}}},
			ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
			}}},
		},
		Validations: []admissionregistrationv1.Validation{{Expression: fmt.Sprintf("request.userInfo.username != %q", controllers)}},
	}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := api.ValidatingAdmissionPolicyBindings().Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: name, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: name.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
	}}, metav1.CreateOptions{})
	return err
}

// markElsewhere says that the hosts of a namespace are in a server of their own.
func (s *Suite) markElsewhere(ctx context.Context, namespace string) error {
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:"true"}}}`, elsewhereLabel)
	_, err := s.Core.CoreV1().Namespaces().Patch(ctx, namespace, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}
