// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

type object = map[string]any

func body(t *testing.T, o object) string {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestReferencesStayInTheirNamespace: where a spec could name a Secret of another
// namespace, it is refused.
func TestReferencesStayInTheirNamespace(t *testing.T) {
	attack(t, "admin of one namespace", "name a Secret of another")
	t.Parallel()
	ctx, ns := s.Begin(t)
	victim := makeNamespace(t, ctx, "victim-")
	s.CreateSecret(t, ctx, victim, "secret", map[string]string{"username": "admin", "password": newCanary("a Secret of another namespace").text})
	owner := throughKube(t, user(t, "owner-of-references"))
	grant(t, ctx, ns, person{name: "owner-of-references", role: "admin"})
	elsewhere := object{"name": "secret", "namespace": victim}
	image := object{"url": "http://192.0.2.1/image", "checksum": "d41d8cd98f00b204e9800998ecf8427e"}
	for name, tt := range map[string]struct {
		kind, resource string
		spec           object
		field          string
	}{
		"userData":       {"BareMetalHost", "baremetalhosts", object{"online": true, "userData": elsewhere}, "spec.userData.namespace"},
		"networkData":    {"BareMetalHost", "baremetalhosts", object{"online": true, "networkData": elsewhere}, "spec.networkData.namespace"},
		"metaData":       {"BareMetalHost", "baremetalhosts", object{"online": true, "metaData": elsewhere}, "spec.metaData.namespace"},
		"with an image":  {"BareMetalHost", "baremetalhosts", object{"online": true, "userData": elsewhere, "image": image}, "spec.userData.namespace"},
		"httpHeadersRef": {"BMCEventSubscription", "bmceventsubscriptions", object{"hostName": "x", "destination": "https://192.0.2.1/", "httpHeadersRef": elsewhere}, "spec.httpHeadersRef.namespace"},
	} {
		host := object{"apiVersion": "metal3.io/v1alpha1", "kind": tt.kind, "metadata": object{"name": "thief"}, "spec": tt.spec}
		c := owner
		if tt.resource != "baremetalhosts" {
			c = throughKube(t, user(t, "admin", "system:masters"))
		}
		got := c.mustDo(t, ctx, http.MethodPost, groupVersion+"/namespaces/"+ns+"/"+tt.resource, "application/json", body(t, host))
		if got.code != http.StatusUnprocessableEntity || !strings.Contains(got.body, `"field":"`+tt.field+`"`) {
			t.Errorf("%s: %d %s\nwant 422 about %s", name, got.code, got.body, tt.field)
		}
	}
	// Neither by a change of what was right before.
	createHost(t, ctx, ns, "thief", "", "")
	for _, ref := range []string{"userData", "networkData", "metaData"} {
		patch := body(t, object{"spec": object{ref: elsewhere}})
		got := owner.mustDo(t, ctx, http.MethodPatch, groupVersion+"/namespaces/"+ns+"/baremetalhosts/thief", "application/merge-patch+json", patch)
		if got.code != http.StatusUnprocessableEntity {
			t.Errorf("%s by a patch: %d %s", ref, got.code, got.body)
		}
	}
	// The references without a namespace have no room for one.
	for field, patch := range map[string]object{
		"bmc.credentialsNamespace": {"bmc": object{"credentialsNamespace": victim}},
		"bmc.credentials":          {"bmc": object{"credentials": elsewhere}},
	} {
		got := owner.mustDo(t, ctx, http.MethodPatch, groupVersion+"/namespaces/"+ns+"/baremetalhosts/thief?fieldValidation=Strict",
			"application/merge-patch+json", body(t, object{"spec": patch}))
		if got.code < 400 || !strings.Contains(got.body, "unknown field") {
			t.Errorf("%s: %d %s, want it unknown", field, got.code, got.body)
		}
	}
}

// TestNamesAreNoPaths: a name of a Secret that could be a path to something else is refused, whichever field has it.
func TestNamesAreNoPaths(t *testing.T) {
	attack(t, "admin of one namespace", "name a Secret of another by a path")
	t.Parallel()
	ctx, ns := s.Begin(t)
	victim := makeNamespace(t, ctx, "victim-")
	before := s.CreateSecret(t, ctx, victim, "secret", map[string]string{"username": "admin", "password": newCanary("a Secret behind a path").text})
	owner := throughKube(t, user(t, "owner-of-names"))
	grant(t, ctx, ns, person{name: "owner-of-names", role: "admin"})
	names := []string{"../" + victim + "/secret", victim + "/secret", "..", ".", "secret?x=y", "a%2F..%2Fb", "\n", strings.Repeat("a", 1000), "../../" + victim + "/secrets/secret"}
	for field, spec := range map[string]func(name string) object{
		"spec.bmc.credentialsName": func(name string) object {
			return object{"bmc": object{"address": "ipmi://192.0.2.1", "credentialsName": name}}
		},
		"spec.preprovisioningNetworkDataName": func(name string) object { return object{"preprovisioningNetworkDataName": name} },
		"spec.userData.name":                  func(name string) object { return object{"userData": object{"name": name}} },
		"spec.networkData.name":               func(name string) object { return object{"networkData": object{"name": name}} },
		"spec.metaData.name":                  func(name string) object { return object{"metaData": object{"name": name}} },
	} {
		for _, name := range names {
			host := object{"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": object{"name": "path"}, "spec": spec(name)}
			host["spec"].(object)["online"] = true
			got := owner.mustDo(t, ctx, http.MethodPost, groupVersion+"/namespaces/"+ns+"/baremetalhosts", "application/json", body(t, host))
			if got.code != http.StatusUnprocessableEntity || !strings.Contains(got.body, `"field":"`+field+`"`) {
				t.Errorf("%s %q: %d %s\nwant 422 about it", field, name, got.code, got.body)
			}
		}
	}
	after, err := s.Core.CoreV1().Secrets(victim).Get(ctx, "secret", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the Secret of another namespace was touched: %v", after.ObjectMeta)
	}
}

// TestAddressWithPassword: refused, and not repeated.
func TestAddressWithPassword(t *testing.T) {
	attack(t, "read hosts", "read a password from a URL in a spec")
	t.Parallel()
	ctx, ns := s.Begin(t)
	c := throughKube(t, user(t, "admin", "system:masters"))
	for _, form := range []string{
		"redfish://admin:%s@192.0.2.1/redfish/v1/Systems/1", "ipmi://admin:%s@192.0.2.1", "admin:%s@192.0.2.1",
		"idrac-redfish+https://%s@192.0.2.1", "nonsense://admin:%s@192.0.2.1", "redfish://admin:%s/@192.0.2.1:x:y",
	} {
		// No canary: the audit log has the body that was sent.
		const password = "pass-word-in-address"
		spec := object{"online": true, "bmc": object{"address": fmt.Sprintf(form, password), "credentialsName": "x"}}
		host := object{"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": object{"name": "x"}, "spec": spec}
		got := c.mustDo(t, ctx, http.MethodPost, groupVersion+"/namespaces/"+ns+"/baremetalhosts", "application/json", body(t, host))
		if got.code != http.StatusUnprocessableEntity || !strings.Contains(got.body, "spec.bmc.address") {
			t.Errorf("%s: %d %s, want 422", form, got.code, got.body)
		}
		if strings.Contains(got.body, password) {
			t.Errorf("%s: the answer has the password: %s", form, got.body)
		}
	}
}

// TestOnlySecretsOfBMCsAreOwned: a Secret goes with the host that names it for its
// BMC. Somebody who may create hosts and not touch Secrets must not have others
// deleted that way.
func TestOnlySecretsOfBMCsAreOwned(t *testing.T) {
	attack(t, "create and delete hosts, no right on Secrets", "have tokens and other Secrets deleted")
	t.Parallel()
	ctx, ns := s.Begin(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "bystander"}}
	if _, err := s.Core.CoreV1().ServiceAccounts(ns).Create(ctx, account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c := newCanary("a Secret that is no BMC's")
	certificate := map[string]string{"tls.crt": "x", "tls.key": c.text}
	bystanders := []*corev1.Secret{
		s.CreateSecret(t, ctx, ns, "opaque", map[string]string{"api-key": c.text}),
		s.CreateSecret(t, ctx, ns, "half", map[string]string{"password": c.text}),
		createSecretOf(t, ctx, ns, "certificate", corev1.SecretTypeTLS, certificate),
	}
	for _, secret := range bystanders {
		createHost(t, ctx, ns, secret.Name, simulator(t).NewBMC("admin", "x"), secret.Name)
		waitHost(t, ctx, ns, secret.Name, "complaining of the Secret", func(h *metal3.BareMetalHost) bool {
			return strings.Contains(h.Status.ErrorMessage, "it needs the keys username and password")
		})
		deleteHost(t, ctx, ns, secret.Name)
		after, err := s.Core.CoreV1().Secrets(ns).Get(ctx, secret.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if after.ResourceVersion != secret.ResourceVersion {
			t.Errorf("Secret %s was changed: %v", secret.Name, after.ObjectMeta)
		}
	}
	// One of a BMC goes, as with the Bare Metal Operator: this is known (docs/security.md).
	s.CreateSecret(t, ctx, ns, "bmc", map[string]string{"username": "admin", "password": c.text})
	createHost(t, ctx, ns, "bmc", simulator(t).NewBMC("admin", c.text), "bmc")
	waitHost(t, ctx, ns, "bmc", "available", isAvailable)
	deleteHost(t, ctx, ns, "bmc")
	eventually(t, ctx, func() string {
		if secret, err := s.Core.CoreV1().Secrets(ns).Get(ctx, "bmc", metav1.GetOptions{}); err == nil {
			return fmt.Sprintf("the Secret of the BMC is still there: %v", secret.ObjectMeta)
		}
		return ""
	})
}

func isAvailable(h *metal3.BareMetalHost) bool {
	return h.Status.Provisioning.State == metal3.StateAvailable && h.Status.ErrorMessage == ""
}

func deleteHost(t *testing.T, ctx context.Context, ns, name string) {
	t.Helper()
	if err := s.Hosts(ns).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, ctx, func() string {
		if host, err := s.Hosts(ns).Get(ctx, name, metav1.GetOptions{}); err == nil {
			return fmt.Sprintf("host %s is still there: %+v", name, host.Status)
		}
		return ""
	})
}
