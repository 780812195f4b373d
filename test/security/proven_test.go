// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestNodesThatAreNotProven: another cluster shares the Ironic, and has a host of the same name in a namespace of the same
// name. Whoever may do everything with the hosts of that namespace here can neither see its node, nor act on it, with any
// of the subresources, whether the host here is paused or not.
func TestNodesThatAreNotProven(t *testing.T) {
	attack(t, "all actions in one namespace, in a cluster that shares Ironic", "see or touch the machine of another cluster, paused or not")
	t.Parallel()
	ctx, ns := s.Begin(t)
	simulator(t)
	s.CreateSecret(t, ctx, ns, "bmc", map[string]string{"username": "admin", "password": "mine"})
	grant(t, ctx, ns, person{name: "thief-of-nodes", what: "who may do all with hosts", rule: &rbacv1.PolicyRule{
		APIGroups: []string{"metal3.io"}, Resources: []string{"*"}, Verbs: []string{"*"},
	}, probe: "create baremetalhosts/power"})
	thief := overHTTP1(throughKube(t, user(t, "thief-of-nodes")))
	marks := map[string]any{"metal3_apiserver_host": "their-host", "metal3_apiserver_cluster": "their-cluster"}
	own := func(_, own machine) string { return own.address }
	for i, test := range []struct {
		name string
		// node changes the fields of their node.
		node func(fields map[string]any)
		// address is what the thief's host has as the address of its BMC.
		address func(theirs, own machine) string
		reason  string
	}{
		{"marked by another cluster, and its BMC is known", func(f map[string]any) { f["extra"] = marks }, func(theirs, _ machine) string { return theirs.address }, metal3.NodeOfAnotherClusterReason},
		{"of a server that marks none", func(map[string]any) {}, own, metal3.AnotherBMCReason},
		{"whose BMC Ironic does not tell", func(f map[string]any) { f["driver"] = "fake-hardware"; delete(f, "driver_info") }, own, metal3.AnotherBMCReason},
	} {
		for _, paused := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, paused %t", test.name, paused), func(t *testing.T) {
				host := fmt.Sprintf("x-%d-%t", i, paused)
				theirs := newMachine(t, "theirs")
				fields := theirs.nodeFields()
				test.node(fields)
				fields["name"] = ns + "~" + host
				node, err := s.sim.CreateNode(fields)
				if err == nil {
					err = s.sim.SetNode(node, map[string]any{
						"provision_state": "active", "instance_uuid": "0d1fa6b8-58a3-4a51-8a5a-6c1e1b9f7777", "last_error": "what-their-error-says",
					})
				}
				if err != nil {
					t.Fatal(err)
				}
				makeThief(t, ctx, ns, host, test.address(theirs, newMachine(t, "mine")), node, paused, test.reason)
				secrets := []string{strings.TrimPrefix(theirs.address, "ipmi://"), "0d1fa6b8-58a3", "their-error", "their-host", "their-cluster"}
				if test.reason == metal3.NodeOfAnotherClusterReason {
					secrets = secrets[1:] // the thief has written it
				}
				tryOnNode(t, ctx, thief, ns, host, node, secrets)
				after, err := s.operator.Node(ctx, node)
				if err != nil {
					t.Fatal(err)
				}
				if targets := s.sim.ProvisionTargets(node); len(targets) > 0 || after.PowerState == "power on" || after.TargetPowerState != "" || after.Maintenance || after.ProvisionState != "active" {
					t.Errorf("their node was touched: %v, %+v", targets, after)
				}
			})
		}
	}
}

// makeThief creates a host that has the node. A paused one stands for one that was paused before the leader has looked at
// the node.
func makeThief(t *testing.T, ctx context.Context, ns, name, address, node string, paused bool, reason string) {
	t.Helper()
	host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: metal3.BareMetalHostSpec{
		Online: true, BMC: metal3.BMCDetails{Address: address, CredentialsName: "bmc"}, BootMACAddress: testbed.NewMAC(),
	}}
	if paused {
		host.Annotations = map[string]string{metal3.PausedAnnotation: "thief"}
	}
	made, err := s.Hosts(ns).Create(ctx, host, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if paused {
		made.Status.Provisioning.ID = node
		if _, err := s.Hosts(ns).UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	waitHost(t, ctx, ns, name, "has the node, which is not shown", func(h *metal3.BareMetalHost) bool {
		held := meta.FindStatusCondition(h.Status.Conditions, metal3.HeldCondition)
		isHeld := held != nil && held.Reason == reason
		return h.Status.Provisioning.ID == node && h.Status.Ironic != nil && h.Status.Ironic.Unproven == reason && isHeld != paused
	})
}

// tryOnNode does with a host all that can be done, and looks for what is secret of its node in the answers.
func tryOnNode(t *testing.T, ctx context.Context, c *client, ns, host, node string, secrets []string) {
	t.Helper()
	collection := groupVersion + "/namespaces/" + ns + "/baremetalhosts"
	heard := func(what string, got answer) {
		t.Helper()
		for _, secret := range secrets {
			if strings.Contains(got.body, secret) {
				t.Errorf("%s tells %s: %s", what, secret, got.body)
			}
		}
	}
	heard("GET", c.get(t, ctx, collection+"/"+host))
	heard("LIST", c.get(t, ctx, collection))
	// Actions with another spec than an empty one.
	specs := map[string]string{
		"power": `{"action":"on"}`, "maintenance": `{"action":"on","reason":"mine"}`, "bootdevice": `{"device":"pxe"}`,
		"indicator": `{"state":"on"}`, "clean": `{"steps":[{"interface":"deploy","step":"erase_devices"}]}`, "transfer": `{"ironic":"another"}`,
	}
	tried := 0
	for _, r := range discover(t, ctx) {
		resource, subresource, _ := strings.Cut(r.Name, "/")
		if resource != "baremetalhosts" || subresource == "" || subresource == "status" {
			continue
		}
		path := collection + "/" + host + "/" + subresource
		for _, verb := range r.Verbs {
			method, body := http.MethodGet, ""
			if verb == "create" {
				spec := specs[subresource]
				if spec == "" {
					spec = "{}"
				}
				method, body = http.MethodPost, fmt.Sprintf(`{"apiVersion":"metal3.io/v1alpha1","kind":%q,"spec":%s}`, r.Kind, spec)
			}
			by := c
			switch {
			case subresource == "console":
				method, body = http.MethodGet, "" // which both verbs are needed for
				by = c.with("Connection", "Upgrade").with("Upgrade", "websocket").with("Sec-WebSocket-Version", "13").
					with("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==").with("Sec-WebSocket-Protocol", "v5.channel.k8s.io")
			case subresource == "takeover" || subresource == "retry":
				continue
			}
			got := by.mustDo(t, ctx, method, path, "application/json", body)
			what := method + " " + subresource
			heard(what, got)
			if status, err := got.status(); got.code != http.StatusConflict || err != nil || !strings.Contains(status.Message, "takeover") {
				t.Errorf("%s: %d %s, want 409 with what helps (or give it a spec here)", what, got.code, got.body)
			}
			tried++
		}
	}
	if tried < 15 {
		t.Errorf("only %d requests were tried", tried)
	}
	// Nothing is done with the node when the host is tried again, and only a person can confirm it.
	retried := c.mustDo(t, ctx, http.MethodPost, collection+"/"+host+"/retry", "application/json", `{"apiVersion":"metal3.io/v1alpha1","kind":"HostRetry"}`)
	if retried.code != http.StatusCreated && retried.code != http.StatusConflict {
		t.Errorf("retry: %d %s", retried.code, retried.body)
	}
	heard("retry", retried)
	confirm := fmt.Sprintf(`{"apiVersion":"metal3.io/v1alpha1","kind":"HostTakeover","spec":{"nodeUUID":%q}}`, node)
	if got := c.mustDo(t, ctx, http.MethodPost, collection+"/"+host+"/takeover?dryRun=All", "application/json", confirm); got.code != http.StatusCreated {
		t.Errorf("who may take nodes over cannot: %d %s", got.code, got.body)
	}
}

// overHTTP1 returns a client that does not use HTTP/2, which has no upgrades.
func overHTTP1(c *client) *client {
	transport := c.http.Transport.(*http.Transport).Clone()
	transport.ForceAttemptHTTP2, transport.TLSNextProto = false, map[string]func(string, *tls.Conn) http.RoundTripper{}
	transport.TLSClientConfig.NextProtos = []string{"http/1.1"}
	return &client{server: c.server, http: &http.Client{Transport: transport}, header: c.header}
}

// TestLiesInStatuses: who may write the status of a provisioned host, and nothing else, cannot have its machine undeployed,
// by no field on which that depends, nor can they confirm a node or ask for a cleaning.
func TestLiesInStatuses(t *testing.T) {
	attack(t, "write statuses of hosts", "have a machine undeployed, erased or switched, or confirm its node, by a lie in a status")
	t.Parallel()
	ctx, ns := s.Begin(t)
	s.CreateSecret(t, ctx, ns, "bmc", map[string]string{"username": "admin", "password": "mine"})
	own := newMachine(t, "mine")
	createHost(t, ctx, ns, "x", own.address, "bmc", own.deploys)
	before := waitHost(t, ctx, ns, "x", "provisioned", func(h *metal3.BareMetalHost) bool {
		return h.Status.Provisioning.State == metal3.StateProvisioned && h.Status.PoweredOn
	})
	done := own.history(before.Status.Provisioning.ID)
	grant(t, ctx, ns, person{name: "liar", what: "who may write statuses", rule: &rbacv1.PolicyRule{
		APIGroups: []string{"metal3.io"}, Resources: []string{"baremetalhosts/status"}, Verbs: []string{"*"},
	}, probe: "patch baremetalhosts/status"})
	liar := throughKube(t, user(t, "liar"))
	// A lie about a field that has been renamed is none.
	path := groupVersion + "/namespaces/" + ns + "/baremetalhosts/x/status?fieldValidation=Strict"
	const now = "2026-01-01T00:00:00Z"
	for _, lie := range []string{
		`{"provisioning":{"image":{"url":"http://images.example.org/another","checksum":"x"}}}`,
		`{"provisioning":{"image":null,"customDeploy":{"method":"another"}}}`,
		`{"provisioning":{"state":"deprovisioning"},"operationHistory":{"deprovision":{"start":"` + now + `","end":null}}}`,
		`{"provisioning":{"state":"available"}}`,
		`{"provisioning":{"state":"externally provisioned"}}`,
		`{"provisioning":{"state":"registering"},"hardwareProfile":""}`,
		`{"provisioning":{"state":"provisioning"},"lastAttemptedImage":{"url":"http://images.example.org/another"},"operationHistory":{"provision":{"start":"` + now + `","end":null}}}`,
		`{"provisioning":{"ID":"11111111-1111-4111-8111-111111111111"},"ironic":null}`,
		`{"poweredOn":false,"lastUpdated":null,"record":null}`,
		`{"record":{"deployment":{"nodeUUID":"x","instanceUUID":"y"},"takeover":{"time":"` + now + `","nodeUUID":"x"}}}`,
		`{"record":{"requestedClean":{"requestedAt":"` + now + `","nodeUUID":"x","steps":[{"interface":"deploy","step":"erase_devices"}]}}}`,
		`{"operationalStatus":"detached","errorCount":99}`,
	} {
		if got := liar.mustDo(t, ctx, http.MethodPatch, path, "application/merge-patch+json", `{"status":`+lie+`}`); got.code != http.StatusOK {
			t.Errorf("%s: %d %s", lie, got.code, got.body)
		}
		waitHost(t, ctx, ns, "x", "as before, after "+lie, func(h *metal3.BareMetalHost) bool {
			return h.Status.Provisioning.State == metal3.StateProvisioned && h.Status.PoweredOn && h.Status.Provisioning.Image.URL == before.Status.Provisioning.Image.URL &&
				h.Status.Provisioning.ID == before.Status.Provisioning.ID && h.Status.Provisioning.CustomDeploy == nil && !h.Status.LastUpdated.IsZero() &&
				h.Status.Record.Takeover == nil && h.Status.Record.RequestedClean == nil &&
				h.Status.Record.Deployment != nil && h.Status.Record.Deployment.InstanceUUID == before.Status.Record.Deployment.InstanceUUID
		})
	}
	if now := own.history(before.Status.Provisioning.ID); now != done {
		t.Errorf("the machine has the history %q, before it was %q", now, done)
	}
}
