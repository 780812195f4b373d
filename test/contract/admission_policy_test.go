// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

const (
	onCreate = admissionregistrationv1.Create
	onUpdate = admissionregistrationv1.Update
	onDelete = admissionregistrationv1.Delete
)

// TestValidatingAdmissionPolicy: what a user's CEL refuses is refused with the
// user's words, whatever is done with a host and its subresources.
func TestValidatingAdmissionPolicy(t *testing.T) {
	k := newShell(t)
	k.create("kept", "other")
	k.ok("", "label", "bmh", "kept", "keep=true")
	k.addPolicy(policyFor("baremetalhosts", onCreate, onUpdate, onDelete), admissionregistrationv1.Deny,
		admissionregistrationv1.Validation{
			Expression: "request.operation == 'DELETE' || object.spec.online || has(object.spec.description)",
			Message:    "a host that is offline needs a description",
		},
		admissionregistrationv1.Validation{
			Expression:        "request.operation != 'DELETE' || !('keep' in oldObject.?metadata.labels.orValue({}))",
			MessageExpression: "'host ' + oldObject.metadata.name + ' of ' + namespaceObject.metadata.name + ' is to be kept'",
		},
		admissionregistrationv1.Validation{
			Expression: "request.operation != 'UPDATE' || object.spec.?bootMACAddress == oldObject.spec.?bootMACAddress",
			Message:    "the boot MAC address is fixed",
		})
	k.addPolicy(policyFor("baremetalhosts/power", onCreate), admissionregistrationv1.Deny,
		admissionregistrationv1.Validation{Expression: "object.spec.action != 'off'", Message: "nothing is switched off here"})
	k.addPolicy(policyFor("baremetalhosts/status", onUpdate), admissionregistrationv1.Deny,
		admissionregistrationv1.Validation{Expression: "object.status.errorMessage != 'forbidden'", Message: "no such message"})
	offline := hostYAML("new", "online: false")
	k.untilRefused(offline, "a host that is offline needs a description", "create", "-f", "-")

	t.Run("create", func(t *testing.T) {
		k := k.in(t)
		k.refused(offline, []string{"create", "-f", "-"}, `The baremetalhosts "new" is invalid: : ValidatingAdmissionPolicy`, "denied request: a host that is offline needs a description")
		k.refused(offline, []string{"create", "-f", "-", "--dry-run=server"}, "a host that is offline needs a description")
		k.refused(offline, []string{"apply", "--server-side", "-f", "-"}, "a host that is offline needs a description")
		k.ok(hostYAML("new", "online: false, description: spare"), "create", "-f", "-")
	})
	t.Run("update", func(t *testing.T) {
		k := k.in(t)
		k.refused(hostYAML("other", "online: false"), []string{"replace", "-f", "-"}, "a host that is offline needs a description")
		k.refused("", []string{"patch", "bmh", "other", "--type=merge", "-p", `{"spec":{"bootMACAddress":"00:00:00:00:00:01"}}`}, "the boot MAC address is fixed")
		k.refused(hostYAML("other", "online: false"), []string{"apply", "--server-side", "--force-conflicts", "-f", "-"}, "a host that is offline needs a description")
		k.ok("", "patch", "bmh", "other", "--type=merge", "-p", `{"spec":{"description":"spare"}}`)
	})
	t.Run("delete", func(t *testing.T) {
		k := k.in(t)
		k.refused("", []string{"delete", "bmh", "kept"}, "host kept of "+k.ns+" is to be kept")
		k.refused("", []string{"delete", "bmh", "--all", "--dry-run=server"}, "host kept of "+k.ns+" is to be kept")
		k.ok("", "delete", "bmh", "other")
		k.ok("", "get", "bmh", "kept")
	})
	t.Run("power", func(t *testing.T) {
		k := k.in(t)
		power := "/apis/metal3.io/v1alpha1/namespaces/" + k.ns + "/baremetalhosts/kept/power"
		k.untilRefused(`{"spec":{"action":"off"}}`, "nothing is switched off here", "create", "--raw", power, "-f", "-")
		// Let through, and refused by the server itself: there is no BMC.
		_, stderr, code := k.run(`{"spec":{"action":"on"}}`, "create", "--raw", power, "-f", "-")
		if code == 0 || strings.Contains(stderr, "switched off") {
			t.Errorf("exit code %d: %s", code, stderr)
		}
	})
	t.Run("status", func(t *testing.T) {
		k := k.in(t)
		k.untilRefused("", "no such message", "patch", "bmh", "kept", "--subresource=status", "--type=merge", "-p", `{"status":{"errorMessage":"forbidden"}}`)
		k.ok("", "patch", "bmh", "kept", "--subresource=status", "--type=merge", "-p", `{"status":{"errorMessage":"allowed"}}`)
	})
}

// TestMutatingAdmissionPolicy: a user's CEL labels a host, and fills in a field.
func TestMutatingAdmissionPolicy(t *testing.T) {
	if s.Kube.Minor() < 36 {
		t.Skip("Kubernetes has MutatingAdmissionPolicies as v1 since 1.36")
	}
	k := newShell(t)
	k.addMutatingPolicy(policyFor("baremetalhosts", onCreate).Spec.MatchConstraints,
		`Object{metadata: Object.metadata{labels: {"example.com/namespace": request.namespace}}, spec: Object.spec{description: "rack 7"}}`)
	testbed.Eventually(t, k.ctx, func() string {
		got, stderr, _ := k.run(hostYAML("h", "online: true"), "create", "-f", "-", "--dry-run=server", "-o", `jsonpath={.metadata.labels.example\.com/namespace} {.spec.description}`)
		if got == k.ns+" rack 7" {
			return ""
		}
		return "the host would have " + got + stderr
	})
	k.create("h")
	if got := k.field("h", `.metadata.labels.example\.com/namespace} {.spec.description`); got != k.ns+" rack 7" {
		t.Errorf("the host has %q", got)
	}
	k.ok("", "patch", "bmh", "h", "--type=merge", "-p", `{"spec":{"description":"rack 8"}}`)
	if got := k.field("h", ".spec.description"); got != "rack 8" {
		t.Errorf("a policy for CREATE has acted on an update: %q", got)
	}
}

// policyFor is a policy about a resource, without what it says yet.
func policyFor(resource string, operations ...admissionregistrationv1.OperationType) *admissionregistrationv1.ValidatingAdmissionPolicy {
	return &admissionregistrationv1.ValidatingAdmissionPolicy{Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{
			{RuleWithOperations: ruleFor(resource, operations...)},
		}},
	}}
}

func ruleFor(resource string, operations ...admissionregistrationv1.OperationType) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: operations,
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{"metal3.io"}, APIVersions: []string{"v1alpha1"}, Resources: []string{resource}},
	}
}

// addPolicy has a policy hold in the namespace of the test alone.
func (k kubectlShell) addPolicy(policy *admissionregistrationv1.ValidatingAdmissionPolicy, action admissionregistrationv1.ValidationAction, validations ...admissionregistrationv1.Validation) {
	k.t.Helper()
	api := s.Core.AdmissionregistrationV1()
	policy.GenerateName, policy.Spec.Validations = k.ns+"-", validations
	policy, err := api.ValidatingAdmissionPolicies().Create(k.ctx, policy, metav1.CreateOptions{})
	k.made(policy, err)
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: policy.Name}, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: policy.Name, ValidationActions: []admissionregistrationv1.ValidationAction{action},
		MatchResources: &admissionregistrationv1.MatchResources{NamespaceSelector: k.onlyHere()},
	}}
	if policy.Spec.ParamKind != nil {
		deny := admissionregistrationv1.DenyAction
		binding.Spec.ParamRef = &admissionregistrationv1.ParamRef{Name: "limits", Namespace: k.ns, ParameterNotFoundAction: &deny}
	}
	k.made(api.ValidatingAdmissionPolicyBindings().Create(k.ctx, binding, metav1.CreateOptions{}))
}

func (k kubectlShell) addMutatingPolicy(match *admissionregistrationv1.MatchResources, expression string) {
	k.t.Helper()
	api := s.Core.AdmissionregistrationV1()
	policy := &admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: k.ns}, Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
		MatchConstraints:   match,
		ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
		Mutations: []admissionregistrationv1.Mutation{{
			PatchType:          admissionregistrationv1.PatchTypeApplyConfiguration,
			ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{Expression: expression},
		}},
	}}
	k.made(api.MutatingAdmissionPolicies().Create(k.ctx, policy, metav1.CreateOptions{}))
	k.made(api.MutatingAdmissionPolicyBindings().Create(k.ctx, &admissionregistrationv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: k.ns},
		Spec:       admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: k.ns, MatchResources: &admissionregistrationv1.MatchResources{NamespaceSelector: k.onlyHere()}},
	}, metav1.CreateOptions{}))
}

func (k kubectlShell) onlyHere() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: k.ns}}
}

// made checks that an object of the whole cluster was created, and removes it with
// the test.
func (k kubectlShell) made(object metav1.Object, err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
	kind := strings.TrimPrefix(fmt.Sprintf("%T", object), "*v1.")
	k.t.Cleanup(func() {
		ctx, cancel := cleanupContext(k.ctx)
		defer cancel()
		if _, _, err := s.Kube.Kubectl(ctx, "", "delete", kind, object.GetName()); err != nil {
			k.t.Error(err)
		}
	})
}

// untilRefused repeats a request, on trial, until a policy that was just made
// refuses it.
func (k kubectlShell) untilRefused(stdin, want string, args ...string) {
	k.t.Helper()
	if args[1] == "--raw" {
		args[2] += "?dryRun=All"
	} else {
		args = append(args, "--dry-run=server")
	}
	testbed.Eventually(k.t, k.ctx, func() string {
		stdout, stderr, code := k.run(stdin, args...)
		if code != 0 && strings.Contains(stderr, want) {
			return ""
		}
		return "kubectl says " + stdout + stderr
	})
}
