// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// admissionWebhook is a user's webhook. Its certificate is its own authority.
type admissionWebhook struct {
	*httptest.Server
	mu       sync.Mutex
	requests []admissionv1.AdmissionRequest
}

// startWebhook serves a webhook that refuses with what refuse says, and patches
// with the given JSON patch what it does not refuse.
func startWebhook(t *testing.T, patch string, refuse func(admissionv1.AdmissionRequest) string) *admissionWebhook {
	w := &admissionWebhook{}
	w.Server = httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(in.Body).Decode(&review); err != nil || review.Request == nil {
			http.Error(out, fmt.Sprint("no review: ", err), http.StatusBadRequest)
			return
		}
		w.mu.Lock()
		w.requests = append(w.requests, *review.Request)
		w.mu.Unlock()
		answer := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		if refuse != nil {
			if reason := refuse(*review.Request); reason != "" {
				answer.Allowed, answer.Result = false, &metav1.Status{Message: reason}
			}
		}
		if patch != "" && answer.Allowed {
			jsonPatch := admissionv1.PatchTypeJSONPatch
			answer.PatchType, answer.Patch = &jsonPatch, []byte(patch)
		}
		review.Request, review.Response = nil, answer
		out.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(out).Encode(review)
	}))
	t.Cleanup(w.Close)
	return w
}

func (w *admissionWebhook) client() admissionregistrationv1.WebhookClientConfig {
	return admissionregistrationv1.WebhookClientConfig{
		URL:      &w.URL,
		CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.Certificate().Raw}),
	}
}

// asked are the requests about a host that were to be stored, as "OPERATION
// resource/subresource".
func (w *admissionWebhook) asked(host string) (asked []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.requests {
		if r.Name == host && !*r.DryRun {
			asked = append(asked, strings.TrimSuffix(fmt.Sprintf("%s %s/%s", r.Operation, r.Resource.Resource, r.SubResource), "/"))
		}
	}
	return asked
}

// validateWith registers a validating webhook in the namespace of the test.
func (k kubectlShell) validateWith(client admissionregistrationv1.WebhookClientConfig, change ...func(*admissionregistrationv1.ValidatingWebhook)) {
	k.t.Helper()
	none, seconds := admissionregistrationv1.SideEffectClassNone, int32(10)
	hook := admissionregistrationv1.ValidatingWebhook{
		Name: "hosts.example.com", ClientConfig: client, SideEffects: &none, TimeoutSeconds: &seconds,
		AdmissionReviewVersions: []string{"v1"}, NamespaceSelector: k.onlyHere(),
		Rules: []admissionregistrationv1.RuleWithOperations{ruleFor("baremetalhosts", onCreate, onUpdate, onDelete), ruleFor("baremetalhosts/*", onCreate, onUpdate)},
	}
	for _, c := range change {
		c(&hook)
	}
	k.made(s.Core.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(k.ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: k.ns}, Webhooks: []admissionregistrationv1.ValidatingWebhook{hook},
	}, metav1.CreateOptions{}))
}

// TestValidatingWebhook: a user's webhook is asked once about each request, on
// trial too, and its words reach kubectl.
func TestValidatingWebhook(t *testing.T) {
	k := newShell(t)
	k.create("updated", "patched", "status", "deleted", "power")
	w := startWebhook(t, "", func(r admissionv1.AdmissionRequest) string {
		if strings.HasPrefix(r.Name, "bad") {
			return "hosts must not be called " + r.Name
		}
		return ""
	})
	k.validateWith(w.client())
	k.untilRefused(hostYAML("bad-probe", "online: true"), "hosts must not be called bad-probe", "create", "-f", "-")
	if !*w.requests[0].DryRun {
		t.Error("a webhook without side effects was not told of a trial")
	}
	k.refused(hostYAML("bad", "online: true"), []string{"create", "-f", "-"}, `admission webhook "hosts.example.com" denied the request: hosts must not be called bad`)

	power := "/apis/metal3.io/v1alpha1/namespaces/" + k.ns + "/baremetalhosts/power/power"
	k.ok(hostYAML("created", "online: true"), "create", "-f", "-")
	k.ok(hostYAML("applied", "online: true"), "apply", "--server-side", "-f", "-")
	k.ok(hostYAML("updated", "online: false"), "replace", "-f", "-")
	k.ok("", "patch", "bmh", "patched", "--type=merge", "-p", `{"spec":{"online":false}}`)
	k.ok("", "patch", "bmh", "status", "--subresource=status", "--type=merge", "-p", `{"status":{"errorMessage":"e"}}`)
	k.refused(`{"spec":{"action":"on"}}`, []string{"create", "--raw", power, "-f", "-"}, "") // there is no BMC
	k.ok("", "delete", "bmh", "deleted")
	for host, want := range map[string]string{
		"created": "CREATE baremetalhosts", "applied": "CREATE baremetalhosts", "updated": "UPDATE baremetalhosts", "patched": "UPDATE baremetalhosts",
		"status": "UPDATE baremetalhosts/status", "power": "CREATE baremetalhosts/power", "deleted": "DELETE baremetalhosts",
	} {
		if got := w.asked(host); len(got) != 1 || got[0] != want {
			t.Errorf("about %s the webhook was asked %q, want once %s", host, got, want)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.requests {
		if r.Kind.Group != "metal3.io" || r.UserInfo.Username != "admin" || r.Namespace != k.ns {
			t.Errorf("the webhook was told %+v", r)
		}
	}
}

// TestMutatingWebhook: what a user's webhook makes of a host is stored, after it
// has been validated.
func TestMutatingWebhook(t *testing.T) {
	k := newShell(t)
	w := startWebhook(t, `[{"op":"add","path":"/metadata/labels","value":{"rack":"7"}},{"op":"add","path":"/spec/description","value":"found in rack 7"}]`, nil)
	bad := startWebhook(t, `[{"op":"add","path":"/spec/inspectionMode","value":"sometimes"}]`, nil)
	none := admissionregistrationv1.SideEffectClassNone
	hook := func(name string, w *admissionWebhook, labels map[string]string) admissionregistrationv1.MutatingWebhook {
		return admissionregistrationv1.MutatingWebhook{
			Name: name, ClientConfig: w.client(), SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			NamespaceSelector: k.onlyHere(), ObjectSelector: &metav1.LabelSelector{MatchLabels: labels},
			Rules: []admissionregistrationv1.RuleWithOperations{ruleFor("baremetalhosts", onCreate)},
		}
	}
	k.made(s.Core.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(k.ctx, &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: k.ns},
		Webhooks:   []admissionregistrationv1.MutatingWebhook{hook("bad.example.com", bad, map[string]string{"bad": ""}), hook("label.example.com", w, nil)},
	}, metav1.CreateOptions{}))
	labelled := strings.Replace(hostYAML("bad", "online: true"), "{name", "{labels: {bad: ''}, name", 1)
	k.untilRefused(labelled, `The BareMetalHost "bad" is invalid: spec.inspectionMode: Unsupported value: "sometimes"`, "create", "-f", "-")

	k.create("h")
	if got := k.field("h", ".metadata.labels.rack} {.spec.description} {.spec.automatedCleaningMode"); got != "7 found in rack 7 metadata" {
		t.Errorf("the host has %q", got)
	}
	if got := w.asked("h"); len(got) != 1 {
		t.Errorf("the webhook was asked %q", got)
	}
	if got := bad.asked("h"); got != nil {
		t.Errorf("a webhook for labelled hosts was asked %q about another", got)
	}
	k.ok("", "label", "bmh", "h", "rack-") // no creation, no webhook
	k.prints("", "", "get", "bmh", "-l", "rack", "-o", "name")
}
