// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

func TestTakeover(t *testing.T) {
	s := startServer(t, true)
	tests := []struct {
		name   string
		body   string
		query  string
		before func(*metal3.BareMetalHost, *ironic.Node)
		code   int
		says   string
		writes bool
	}{
		{name: "confirmed", body: `{"spec":{"nodeUUID":"NODE"}}`, code: 201, writes: true},
		{name: "dry run", body: `{"spec":{"nodeUUID":"NODE"}}`, query: "?dryRun=All", code: 201},
		{name: "no node named", body: `{}`, code: 422, says: "spec.nodeUUID"},
		{name: "another node", body: `{"spec":{"nodeUUID":"another"}}`, code: 409, says: "look at the machine once more"},
		{name: "not registered", body: `{"spec":{"nodeUUID":"any"}}`, before: func(h *metal3.BareMetalHost, _ *ironic.Node) { h.Status.Provisioning.ID = "" }, code: 409, says: "not registered"},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			name := fmt.Sprintf("takeover-%d", i)
			before := s.register(t, name, test.before)
			got := s.do(t, "POST", hostsPath+"/"+name+"/takeover"+test.query, strings.ReplaceAll(test.body, "NODE", before.Status.Provisioning.ID))
			if got.code != test.code {
				t.Fatalf("HTTP %d: %s", got.code, got.body)
			}
			if test.code != 201 {
				checkError(t, got, name, test.says)
			}
			after := s.recorded(t, name)
			if taken := after.Status.Record.Takeover != nil && after.Status.Record.Takeover.NodeUUID == before.Status.Provisioning.ID; taken != test.writes {
				t.Errorf("recorded: %v", after.Status.Record.Takeover)
			}
			if diff := cmp.Diff(before, after); !test.writes && diff != "" {
				t.Errorf("something was written:\n%s", diff)
			}
		})
	}
}

// TestTakeoverOfHostLikeAnother: of a host that is held because its machine seems to be that of another one, nothing else is said to be
// confirmed.
func TestTakeoverOfHostLikeAnother(t *testing.T) {
	s := startServer(t, true)
	before := s.register(t, "sled-1", func(h *metal3.BareMetalHost, _ *ironic.Node) {
		h.Status.Record.Hold = &metal3.Hold{Reason: metal3.BMCInUseReason, Message: "why it is held", Other: "b"}
	})
	got := s.do(t, "POST", hostsPath+"/sled-1/takeover", `{"spec":{"nodeUUID":"`+before.Status.Provisioning.ID+`"}}`)
	if body := string(got.body); got.code != 201 || !strings.Contains(body, "counts as a different one") || strings.Contains(body, `"confirmed"`) {
		t.Errorf("HTTP %d: %s", got.code, body)
	}
}

// TestActionsOnMachineOfAnother: a host whose node may lead to the machine of another host
// gets no access to it, and one that runs something unexpected can be switched by hand.
func TestActionsOnMachineOfAnother(t *testing.T) {
	s := startServer(t, true)
	for i, test := range []struct {
		reason, action, body string
		code                 int
	}{
		{metal3.NodeOfAnotherHostReason, "power", `{"spec":{"action":"on"}}`, 409},
		{metal3.NodeOfAnotherClusterReason, "power", `{"spec":{"action":"off","mode":"hard"}}`, 409},
		{metal3.AnotherBMCReason, "power", `{"spec":{"action":"reboot"}}`, 409},
		{metal3.AnotherBMCReason, "inspect", `{}`, 409},
		{metal3.AnotherDeploymentReason, "inspect", `{}`, 409},
		{metal3.AnotherDeploymentReason, "power", `{"spec":{"action":"off","mode":"hard"}}`, 201},
	} {
		t.Run(test.reason+" "+test.action, func(t *testing.T) {
			name := fmt.Sprintf("held-%d", i)
			s.register(t, name, func(h *metal3.BareMetalHost, _ *ironic.Node) {
				h.Status.Record.Hold = &metal3.Hold{Reason: test.reason, Message: "why it is held"}
			})
			got := s.do(t, "POST", hostsPath+"/"+name+"/"+test.action, test.body)
			if got.code != test.code {
				t.Fatalf("HTTP %d: %s", got.code, got.body)
			}
			if test.code != 201 {
				checkError(t, got, name, "why it is held")
			}
		})
	}
}

// A host whose node was lost is manageable in Ironic, and the machine runs all the same.
func TestInspectRefusedByStateOfHost(t *testing.T) {
	s := startServer(t, true)
	for i, state := range []metal3.ProvisioningState{metal3.StateProvisioning, metal3.StateProvisioned, metal3.StateExternallyProvisioned, metal3.StateDeprovisioning} {
		name := fmt.Sprintf("running-%d", i)
		s.register(t, name, func(h *metal3.BareMetalHost, n *ironic.Node) {
			h.Status.Provisioning.State, n.ProvisionState = state, ironic.Manageable
		})
		got := s.do(t, "POST", hostsPath+"/"+name+"/inspect", "{}")
		if got.code != 409 {
			t.Errorf("%s: HTTP %d: %s", state, got.code, got.body)
			continue
		}
		checkError(t, got, name, "would reboot it")
	}
}
