// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestClaimWhoseSecretIsRefused: a claim has its host and says what keeps its Secret from being copied, be it a quota of
// Secrets, a webhook that does not answer, or one that denies it without a code. It goes on when the copy is allowed.
func TestClaimWhoseSecretIsRefused(t *testing.T) {
	k := newShell(t)
	k.available("h")
	k.ok("", "create", "rolebinding", "copies", "--clusterrole=metal3-apiserver-secret-copies", "--serviceaccount="+testbed.Namespace+":"+testbed.ServiceName)
	k.ok("", "create", "secret", "generic", "first-boot", "--from-literal=userData=#cloud-config")
	k.ok(fmt.Sprintf("apiVersion: metal3.io/v1alpha1\nkind: HostDeployPolicy\nmetadata: {name: own}\nspec: {hostClaimNamespaces: {names: [%s]}}\n", k.ns), "create", "-f", "-")
	// What is there counts, so that there is no room for the copy.
	k.ok("", "create", "quota", "secrets", "--hard=count/secrets=1")
	k.ok("", "wait", "quota/secrets", "--for=jsonpath={.status.used.count/secrets}=2", "--timeout=5m")
	k.untilRefused("", "exceeded quota: secrets", "create", "secret", "generic", "probe")

	k.ok(fmt.Sprintf("apiVersion: metal3.io/v1alpha1\nkind: HostClaim\nmetadata: {name: mine}\nspec: {poweredOn: true, hostSelector: {inNamespace: %s}, userData: {name: first-boot}}\n", k.ns), "create", "-f", "-")
	changes := 0
	says := func(want string) {
		t.Helper()
		testbed.Eventually(t, k.ctx, func() string {
			got := k.ok("", "get", "hostclaim", "mine", "-o", `jsonpath={range .status.conditions[*]}{.type}={.status} {.message}{"\n"}{end}`)
			if strings.Contains(got, "Associated=True") && strings.Contains(got, want) {
				return ""
			}
			changes++ // a change of the claim has it looked at again before a minute has gone by
			k.ok("", "annotate", "hostclaim", "mine", "--overwrite", fmt.Sprintf("example.com/change=%d", changes))
			return "the claim says " + got
		})
	}
	const cannot = "Synchronized=False Secret first-boot cannot be copied: "
	says(cannot + "a quota or an admission policy of the cluster refuses the copy")
	var isDown atomic.Bool
	isDown.Store(true)
	w := startWebhook(t, "", func(r admissionv1.AdmissionRequest) string {
		if isDown.Load() {
			panic(http.ErrAbortHandler) // the connection is closed
		}
		return "no more Secrets here"
	})
	fail := admissionregistrationv1.Fail
	k.validateWith(w.client(), func(hook *admissionregistrationv1.ValidatingWebhook) {
		hook.FailurePolicy = &fail
		hook.Rules = []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{onCreate},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
		}}
	})
	k.untilRefused("", "failed calling webhook", "create", "secret", "generic", "probe")
	says(cannot + "an admission webhook of the cluster does not answer, or kube-apiserver has failed")
	isDown.Store(false)
	says(cannot + "a quota or an admission policy of the cluster refuses the copy")
	k.ok("", "patch", "validatingwebhookconfiguration", k.ns, "--type=json", "-p", `[{"op":"replace","path":"/webhooks/0/rules/0/operations","value":["DELETE"]}]`)
	k.ok("", "delete", "quota", "secrets")
	says("Synchronized=True")
	if got := k.ok("", "get", "secrets", "-l", "metal3.io/hostclaim", "-o", "jsonpath={.items[*].data.userData}"); got != "I2Nsb3VkLWNvbmZpZw==" {
		t.Errorf("the copies have %q", got)
	}
}
