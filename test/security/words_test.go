// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// TestIronicsWords: drivers quote the password of the BMC, in several spellings, wherever Ironic asks the BMC for a user. Who
// may write everything but Secrets sees the rest of the message in statuses, reports and errors. (searchFiles looks in
// events, logs and etcd.)
func TestIronicsWords(t *testing.T) {
	attack(t, "write all kinds, no right on Secrets", "find the BMC's password in what Ironic says")
	t.Parallel()
	simulator(t)
	ctx, ns := s.Begin(t)
	password, header := newCanary("the password in Ironic's words"), newCanary("a header in Ironic's words")
	s.CreateSecret(t, ctx, ns, "bmc", map[string]string{"username": "admin", "password": password.text})
	s.CreateSecret(t, ctx, ns, "headers", map[string]string{"Authorization": header.text})
	createHost(t, ctx, ns, "x", simulator(t).NewBMC("admin", password.text), "bmc", func(spec *metal3.BareMetalHostSpec) { spec.Image = testImage.DeepCopy() })
	host := waitHost(t, ctx, ns, "x", "provisioned", func(h *metal3.BareMetalHost) bool { return h.Status.Provisioning.State == metal3.StateProvisioned })
	words := fmt.Sprintf("login of admin with %s, %q and %s has failed", password.text, password.text, url.QueryEscape(password.text))
	node := "/nodes/" + host.Status.Provisioning.ID + "/"
	s.ironic.say(node+"vendor_passthru", words+" with header "+header.text)
	for _, path := range []string{"vmedia", "management", "history", "validate"} {
		s.ironic.say(node+path, words)
	}
	c := throughKube(t, user(t, "writer"))
	grant(t, ctx, ns, person{name: "writer", rule: &rbacv1.PolicyRule{APIGroups: []string{"metal3.io"}, Resources: []string{"*"}, Verbs: []string{"*"}}, probe: "get baremetalhosts"})

	const begin, end = "login of admin with ******", "has failed"
	isClean := func(what, text string) string {
		if strings.Contains(text, password.core) || !strings.Contains(text, begin) || !strings.Contains(text, end) {
			return fmt.Sprintf("%s: %s", what, text)
		}
		return ""
	}
	collection := groupVersion + "/namespaces/" + ns + "/"
	for _, sub := range []string{"validate", "history", "bootdevice", "indicator"} {
		if wrong := isClean(sub, c.get(t, ctx, collection+"baremetalhosts/x/"+sub).body); wrong != "" {
			t.Error(wrong)
		}
	}
	if wrong := isClean("nmi", c.mustDo(t, ctx, http.MethodPost, collection+"baremetalhosts/x/nmi", "application/json", `{"spec":{}}`).body); wrong != "" {
		t.Error(wrong)
	}
	create(t, ctx, throughKube(t, user(t, "admin", "system:masters")), collection+"bmceventsubscriptions", "BMCEventSubscription",
		object{"hostName": "x", "destination": "https://192.0.2.1/", "httpHeadersRef": object{"name": "headers", "namespace": ns}})
	eventually(t, ctx, func() string {
		return isClean("the subscription", c.get(t, ctx, collection+"bmceventsubscriptions/x").body)
	})
	// A drive is changed before the host is switched on.
	create(t, ctx, c, collection+"dataimages", "DataImage", object{"url": "http://192.0.2.1/x.iso"})
	for _, online := range []bool{false, true} {
		if _, err := s.Hosts(ns).Patch(ctx, "x", types.MergePatchType, fmt.Appendf(nil, `{"spec":{"online":%t}}`, online), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		if !online {
			waitHost(t, ctx, ns, "x", "off", func(h *metal3.BareMetalHost) bool { return !h.Status.PoweredOn })
		}
	}
	eventually(t, ctx, func() string { return isClean("the DataImage", c.get(t, ctx, collection+"dataimages/x").body) })
}

func create(t *testing.T, ctx context.Context, c *client, path, kind string, spec object) {
	t.Helper()
	body, err := json.Marshal(object{"apiVersion": "metal3.io/v1alpha1", "kind": kind, "metadata": object{"name": "x"}, "spec": spec})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.mustDo(t, ctx, http.MethodPost, path, "application/json", string(body)); got.code != http.StatusCreated {
		t.Fatalf("POST %s: %d %s", path, got.code, got.body)
	}
}

// TestGuesses: who may request maintenances, and not read Secrets, writes guesses of the password into the reason. The right one
// is shown as any other.
func TestGuesses(t *testing.T) {
	attack(t, "create maintenances of hosts", "see by what is struck out which of many guesses is the BMC's password")
	t.Parallel()
	ctx, ns := s.Begin(t)
	const password = "guess-me-if-you-can"
	m := newMachine(t, password)
	s.CreateSecret(t, ctx, ns, "bmc", map[string]string{"username": "admin", "password": password})
	createHost(t, ctx, ns, "x", m.address, "bmc", m.boots)
	waitHost(t, ctx, ns, "x", "available", isAvailable)
	c := throughKube(t, user(t, "guesser"))
	grant(t, ctx, ns, person{name: "guesser", rule: &rbacv1.PolicyRule{
		APIGroups: []string{"metal3.io"}, Resources: []string{"baremetalhosts", "baremetalhosts/maintenance"}, Verbs: []string{"get", "create"},
	}})
	path := groupVersion + "/namespaces/" + ns + "/baremetalhosts/x"
	for _, reason := range []string{"guess-somebody-else", "is it " + password + "?", password} {
		body := fmt.Sprintf(`{"spec":{"action":"on","reason":%q}}`, reason)
		eventually(t, ctx, func() string { // the node may be locked for a moment
			if got := c.mustDo(t, ctx, http.MethodPost, path+"/maintenance", "application/json", body); got.code != http.StatusCreated || !strings.Contains(got.body, reason) {
				return fmt.Sprintf("with the reason %q, POST is answered with %d %s", reason, got.code, got.body)
			}
			return ""
		})
		for _, read := range []string{path + "/maintenance", path} {
			if got := c.get(t, ctx, read); got.code != http.StatusOK || !strings.Contains(got.body, reason) {
				t.Errorf("with the reason %q, GET %s is answered with %d %s", reason, read, got.code, got.body)
			}
		}
	}
}
