// SPDX-License-Identifier: Apache-2.0

package security

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// TestSecretWritesInAuditLog: kube-apiserver's audit log at level Request has the bodies of all
// writes of the server. Those to Secrets are of the metadata alone.
func TestSecretWritesInAuditLog(t *testing.T) {
	attack(t, "reads kube-apiserver's audit log (level Request)", "find passwords in the server's writes")
	t.Parallel()
	ctx, ns := s.Begin(t)
	password := newCanary("audited: the password")
	s.CreateSecret(t, ctx, ns, "bmc", map[string]string{"username": "admin", "password": password.text})
	m := newMachine(t, password.text)
	createHost(t, ctx, ns, "audited", m.address, "bmc", m.boots)
	waitHost(t, ctx, ns, "audited", "available", isAvailable)
	deleteHost(t, ctx, ns, "audited")

	content, err := os.ReadFile(s.Kube.AuditLogPath())
	if err != nil {
		t.Fatal(err)
	}
	bodies := 0
	for line := range strings.Lines(string(content)) {
		var event auditv1.Event
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			continue // a line that is being written
		}
		ref := event.ObjectRef
		if ref == nil || ref.Resource != "secrets" || ref.Namespace != ns || event.RequestObject == nil {
			continue
		}
		bodies++
		var body map[string]json.RawMessage
		if err := json.Unmarshal(event.RequestObject.Raw, &body); err != nil {
			t.Fatal(err)
		}
		for key := range body {
			if key != "metadata" {
				t.Errorf("%s of a Secret has the field %s in the audit log", event.Verb, key)
			}
		}
	}
	// The claim and the release.
	if bodies < 2 {
		t.Errorf("%d writes of the Secret are in the audit log with a body, want at least 2", bodies)
	}
	if where, found := findCanaries(string(content))[password.what]; found {
		t.Errorf("the audit log has the password: ...%s...", where)
	}
}
