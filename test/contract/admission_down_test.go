// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestWebhookDown: a policy engine that does not answer has everything refused that it was to decide about, and nothing
// else: hosts are read live, the server goes on with what it has begun, and other namespaces notice nothing.
func TestWebhookDown(t *testing.T) {
	k := newShell(t)
	k.available("h")
	node := k.ns + "~h"
	if err := s.ironic.HoldRamdisk(node); err != nil {
		t.Fatal(err)
	}
	k.ok("", "patch", "bmh", "h", "--type=merge", "-p", `{"spec":{"image":{"url":"http://192.0.2.1/image.qcow2","checksum":"d41d8cd98f00b204e9800998ecf8427e","checksumType":"md5"}}}`)
	k.ironicHas(node, "provision_state", "wait call-back")

	w := startWebhook(t, "", nil)
	w.Close()
	fail := admissionregistrationv1.Fail
	k.validateWith(w.client(), func(hook *admissionregistrationv1.ValidatingWebhook) { hook.FailurePolicy = &fail })
	const down = `failed calling webhook "hosts.example.com"`
	k.untilRefused(hostYAML("new", "online: true"), down, "create", "-f", "-")

	before := k.field("h", ".metadata.generation} {.metadata.deletionTimestamp} {.metadata.uid")
	power := "/apis/metal3.io/v1alpha1/namespaces/" + k.ns + "/baremetalhosts/h/power"
	k.refused(hostYAML("new", "online: true"), []string{"create", "-f", "-"}, down)
	k.refused("", []string{"patch", "bmh", "h", "--type=merge", "-p", `{"spec":{"online":false}}`}, down)
	k.refused(`{"spec":{"action":"off","mode":"hard"}}`, []string{"create", "--raw", power, "-f", "-"}, down)
	k.refused("", []string{"delete", "bmh", "h"}, down)
	if after := k.field("h", ".metadata.generation} {.metadata.deletionTimestamp} {.metadata.uid"); after != before {
		t.Errorf("the host was %q, and is %q", before, after)
	}

	if err := s.ironic.CallBack(node); err != nil {
		t.Fatal(err)
	}
	k.ok("", "wait", "bmh/h", "--for=jsonpath={.status.provisioning.state}=provisioned", "--timeout=5m")
	if err := s.ironic.SetNode(node, map[string]any{"maintenance": true, "maintenance_reason": "a fan is broken"}); err != nil {
		t.Fatal(err)
	}
	if got := k.field("h", ".status.ironic.maintenanceReason"); got != "a fan is broken" {
		t.Errorf("the host shows %q", got)
	}
	if err := s.ironic.SetNode(node, map[string]any{"maintenance": false, "maintenance_reason": nil}); err != nil {
		t.Fatal(err)
	}
	elsewhere := k
	elsewhere.ns = s.NewNamespace(t, k.ctx)
	elsewhere.available("other")
	elsewhere.ok("", "delete", "bmh", "other", "--timeout=5m")

	k.ignoreFailures(0)
	testbed.Eventually(t, k.ctx, func() string {
		_, stderr, _ := k.run("", "delete", "bmh", "h", "--timeout=5m")
		return stderr
	})
}

// ignoreFailures has requests pass that a webhook of the test does not answer.
func (k kubectlShell) ignoreFailures(webhook int) {
	k.t.Helper()
	k.ok("", "patch", "validatingwebhookconfiguration", k.ns, "--type=json", "-p", fmt.Sprintf(`[{"op":"replace","path":"/webhooks/%d/failurePolicy","value":"Ignore"}]`, webhook))
}

// ironicHas waits until a node has a value.
func (k kubectlShell) ironicHas(node, field, want string) {
	k.t.Helper()
	testbed.Eventually(k.t, k.ctx, func() string {
		fields, _ := s.ironic.Node(node)
		if got, _ := fields[field].(string); got != want {
			return "the node's " + field + " is " + got + ", want " + want
		}
		return ""
	})
}

// TestWebhookRefusesDeletion: a host whose deletion a webhook refuses stays, and is acted on as before; so does one whose
// Secret the server may not release, which says why. Both go when that is allowed.
func TestWebhookRefusesDeletion(t *testing.T) {
	k := newShell(t)
	k.available("kept")
	k.available("denied")
	k.available("down")
	var isAllowed atomic.Bool
	w := startWebhook(t, "", func(r admissionv1.AdmissionRequest) string {
		if isAllowed.Load() {
			return ""
		}
		return r.Resource.Resource + " are not to be released on a Friday"
	})
	dead := startWebhook(t, "", nil)
	dead.Close()
	secrets := admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{onUpdate},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
	}
	none, fail := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Fail
	hook := func(name string, w *admissionWebhook, object string, rule admissionregistrationv1.RuleWithOperations) admissionregistrationv1.ValidatingWebhook {
		return admissionregistrationv1.ValidatingWebhook{
			Name: name + ".example.com", ClientConfig: w.client(), SideEffects: &none, FailurePolicy: &fail, AdmissionReviewVersions: []string{"v1"},
			NamespaceSelector: k.onlyHere(), Rules: []admissionregistrationv1.RuleWithOperations{rule},
			MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "object", Expression: "request.name == '" + object + "'"}},
		}
	}
	k.made(s.Core.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(k.ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: k.ns},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{
			hook("hosts", w, "kept", ruleFor("baremetalhosts", onDelete)), hook("denies", w, "denied-bmc", secrets), hook("down", dead, "down-bmc", secrets),
		},
	}, metav1.CreateOptions{}))
	k.untilRefused("", "not to be released on a Friday", "delete", "bmh", "kept")
	k.untilRefused("", "not to be released on a Friday", "label", "secret", "denied-bmc", "a=b") // by kube-apiserver
	k.untilRefused("", "failed calling webhook", "label", "secret", "down-bmc", "a=b")

	k.refused("", []string{"delete", "bmh", "kept"}, `admission webhook "hosts.example.com" denied the request: baremetalhosts are not to be released on a Friday`)
	k.ok("", "delete", "bmh", "denied", "down", "--wait=false")
	says := func(host string, texts ...string) {
		t.Helper()
		testbed.Eventually(t, k.ctx, func() string {
			got := k.field(host, ".status.errorMessage")
			for _, text := range texts {
				if !strings.Contains(got, text) {
					return "host " + host + " says " + got
				}
			}
			return ""
		})
	}
	says("denied", `the admission of the cluster does not let metal3-apiserver change Secret "denied-bmc"`, "secrets are not to be released on a Friday")
	says("down", `failed calling webhook "down.example.com"`)
	if got := k.field("kept", ".metadata.deletionTimestamp} {.status.operationalStatus"); got != " OK" {
		t.Errorf("the host that was not deleted has %q", got)
	}
	k.ok("", "patch", "bmh", "kept", "--type=merge", "-p", `{"spec":{"online":false}}`)
	k.ironicHas(k.ns+"~kept", "power_state", "power off")

	isAllowed.Store(true)
	k.ok("", "wait", "bmh/denied", "--for=delete", "--timeout=5m")
	k.ok("", "delete", "bmh", "kept", "--timeout=5m")
	k.ignoreFailures(2)
	k.ok("", "wait", "bmh/down", "--for=delete", "--timeout=5m")
	k.ok("", "wait", "secret/denied-bmc", "secret/down-bmc", "--for=delete", "--timeout=5m")
}
