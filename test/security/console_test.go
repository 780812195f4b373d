// SPDX-License-Identifier: Apache-2.0

package security

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// TestReadersHaveNoConsole: a WebSocket begins with a GET, but who may only read must not be able to
// type into a machine.
func TestReadersHaveNoConsole(t *testing.T) {
	attack(t, "read hosts, get on the console", "open a console")
	t.Parallel()
	ctx, ns := s.Begin(t)
	path := "/apis/metal3.io/v1alpha1/namespaces/" + ns + "/baremetalhosts/x/console"
	rule := func(verbs ...string) *rbacv1.PolicyRule {
		return &rbacv1.PolicyRule{APIGroups: []string{"metal3.io"}, Resources: []string{"baremetalhosts/console"}, Verbs: verbs}
	}
	grant(t, ctx, ns, person{name: "reader-of-consoles", what: "who may get consoles", rule: rule("get")})
	grant(t, ctx, ns, person{name: "user-of-consoles", what: "who may get and create consoles", rule: rule("get", "create")})

	for _, way := range []struct {
		name   string
		client func(name string) *client
	}{
		{"through kube-apiserver", func(name string) *client { return throughKube(t, user(t, name)) }},
		{"direct", func(name string) *client { return direct(t, user(t, name)) }},
	} {
		refused := way.client("reader-of-consoles").mustDo(t, ctx, "GET", path, "", "")
		if refused.code != 403 || !strings.Contains(refused.body, "verb create") {
			t.Errorf("%s: who may only get consoles is answered %d %s", way.name, refused.code, refused.body)
		}
		// It is no WebSocket, which is asked after the permission.
		permitted := way.client("user-of-consoles").mustDo(t, ctx, "GET", path, "", "")
		if permitted.code != 400 || !strings.Contains(permitted.body, "WebSocket") {
			t.Errorf("%s: who may create consoles is answered %d %s", way.name, permitted.code, permitted.body)
		}
	}
}
