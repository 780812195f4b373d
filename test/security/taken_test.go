// SPDX-License-Identifier: Apache-2.0

package security

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// TestAdoptedNodesAreNotTaken: a node that an operator has made without a name is named and
// marked when a host takes it over. Who creates a host with the MAC address of one of its
// ports does not get it, and learns neither its UUID nor whose it is.
func TestAdoptedNodesAreNotTaken(t *testing.T) {
	attack(t, "create hosts with another's MAC address", "get another's node, or learn whose it is")
	t.Parallel()
	ctx, ns := s.Begin(t)
	victim := makeNamespace(t, ctx, "victim-")
	their := newMachine(t, "theirs")
	made, err := s.operator.CreateNode(ctx, their.nodeFields())
	if err != nil {
		t.Fatal(err)
	}
	node := made.UUID
	if err := s.operator.Do(ctx, http.MethodPost, "/v1/ports", map[string]any{"node_uuid": node, "address": their.mac}, nil); err != nil {
		t.Fatal(err)
	}
	s.CreateSecret(t, ctx, victim, "bmc", map[string]string{"username": "admin", "password": "theirs"})
	createHost(t, ctx, victim, "x", their.address, "bmc", their.boots)
	theirs := waitHost(t, ctx, victim, "x", "available", isAvailable)
	if theirs.Status.Provisioning.ID != node {
		t.Fatalf("the host has node %s, not %s", theirs.Status.Provisioning.ID, node)
	}
	before, err := s.operator.Node(ctx, node)
	if err != nil {
		t.Fatal(err)
	}
	if before.Name != victim+"~x" || before.Extra["metal3_apiserver_host"] != string(theirs.UID) {
		t.Errorf("the node is named %v and marked %v", before.Name, before.Extra)
	}

	s.CreateSecret(t, ctx, ns, "bmc", map[string]string{"username": "admin", "password": "mine"})
	createHost(t, ctx, ns, "thief", newMachine(t, "mine").address, "bmc", their.boots)
	thief := waitHost(t, ctx, ns, "thief", "refused", func(h *metal3.BareMetalHost) bool { return h.Status.ErrorType == metal3.RegistrationError })
	for _, secret := range []string{node, victim} {
		if strings.Contains(thief.Status.ErrorMessage, secret) {
			t.Errorf("a stranger is told %q", thief.Status.ErrorMessage)
		}
	}
	after, err := s.operator.Node(ctx, node)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before.DriverInfo, after.DriverInfo); diff != "" {
		t.Errorf("the node's driver_info has changed: %s", diff)
	}
}
