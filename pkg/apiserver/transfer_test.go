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

func TestTransfer(t *testing.T) {
	s := startServer(t, true)
	other := startIronic(t)
	s.others = map[string]*simulatedIronic{"room-b": other}
	// available hosts can be moved.
	available := func(change func(*metal3.BareMetalHost, *ironic.Node)) func(*metal3.BareMetalHost, *ironic.Node) {
		return func(h *metal3.BareMetalHost, n *ironic.Node) {
			h.Status.Provisioning.State, n.ProvisionState, n.Marks.Host = metal3.StateAvailable, ironic.Available, ironic.Text(h.UID)
			if change != nil {
				change(h, n)
			}
		}
	}
	pending := func(h *metal3.BareMetalHost, _ *ironic.Node) {
		h.Status.Record.Transfer = &metal3.Transfer{To: "room-b"}
	}
	tests := []struct {
		name     string
		body     string
		query    string
		before   func(*metal3.BareMetalHost, *ironic.Node)
		notTaken string
		code     int
		says     string
		writes   bool
		to       string // recorded afterwards
	}{
		{name: "accepted", body: `{"spec":{"ironic":"room-b"}}`, code: 201, says: `created and adopted in IronicInstance "room-b"`, writes: true, to: "room-b"},
		{name: "dry run", body: `{"spec":{"ironic":"room-b"}}`, query: "?dryRun=All", code: 201, says: "goes on running as it is"},
		{name: "no Ironic named", body: `{"spec":{}}`, code: 422, says: "spec.ironic"},
		{name: "where it is", body: `{"spec":{"ironic":""}}`, code: 201, says: "is in the Ironic of the server's flags already", writes: true},
		{name: "called off", body: `{"spec":{"ironic":""}}`, before: pending, code: 201, says: "stays in the Ironic of the server's flags", writes: true},
		{name: "called off, only checked", body: `{"spec":{"ironic":""}}`, before: pending, query: "?dryRun=All", code: 201, says: "stays in", to: "room-b"},
		{name: "not permitted by the host", body: `{"spec":{"ironic":"room-b"}}`, before: func(h *metal3.BareMetalHost, _ *ironic.Node) {
			h.Status.Record.Hold = &metal3.Hold{Reason: metal3.RestoredReason, Message: "a backup"}
		}, code: 409, says: "left alone"},
		{name: "its BMC was never reached", body: `{"spec":{"ironic":"room-b"}}`, before: func(h *metal3.BareMetalHost, n *ironic.Node) {
			h.Status.Provisioning.State, n.ProvisionState = metal3.StateRegistering, ironic.Enroll
			h.Status.Record.Error = &metal3.HostError{Type: metal3.RegistrationError, Message: "no answer"}
		}, code: 201, says: "created and adopted", writes: true, to: "room-b"},
		{name: "locked", body: `{"spec":{"ironic":"room-b"}}`, before: func(_ *metal3.BareMetalHost, n *ironic.Node) { n.Reservation = "conductor-0" }, code: 429, says: "conductor-0"},
		{name: "refused by the other one", body: `{"spec":{"ironic":"room-b"}}`, notTaken: "it has a node with the BMC of the host already", code: 409, says: `IronicInstance "room-b" cannot take it: it has a node`},
		{name: "no such Ironic", body: `{"spec":{"ironic":"nowhere"}}`, code: 503, says: `IronicInstance "nowhere" does not exist`},
		{name: "its own Ironic unknown", body: `{"spec":{"ironic":"room-b"}}`, before: func(h *metal3.BareMetalHost, _ *ironic.Node) { h.Status.Record.Ironic = "room-x" }, code: 503, says: "nothing was done"},
		{name: "not registered", body: `{"spec":{"ironic":"room-b"}}`, before: func(h *metal3.BareMetalHost, _ *ironic.Node) { h.Status.Provisioning.ID = "" }, code: 409, says: "not registered"},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			name := fmt.Sprintf("transfer-%d", i)
			before := s.register(t, name, available(test.before))
			s.live.refuse(test.notTaken)
			got := s.do(t, "POST", hostsPath+"/"+name+"/transfer"+test.query, test.body)
			if got.code != test.code {
				t.Fatalf("HTTP %d: %s", got.code, got.body)
			}
			if test.code == 201 {
				var answer metal3.HostTransfer
				got.into(t, 201, &answer)
				if !strings.Contains(answer.Status.Message, test.says) || answer.Status.Ironic != "" {
					t.Errorf("answered: %+v", answer.Status)
				}
			} else {
				checkError(t, got, name, test.says)
			}
			after := s.recorded(t, name)
			to := ""
			if after.Status.Record.Transfer != nil {
				to = after.Status.Record.Transfer.To
			}
			if to != test.to {
				t.Errorf("recorded: %+v", after.Status.Record.Transfer)
			}
			if diff := cmp.Diff(before, after); !test.writes && diff != "" {
				t.Errorf("something was written:\n%s", diff)
			}
		})
	}

	t.Run("back to the Ironic of the flags", func(t *testing.T) {
		s.live.refuse("")
		s.registerIn(t, "room-b", other, "back", available(nil))
		var answer metal3.HostTransfer
		s.do(t, "POST", hostsPath+"/back/transfer", `{"spec":{"ironic":""}}`).into(t, 201, &answer)
		if transfer := s.recorded(t, "back").Status.Record.Transfer; transfer == nil || transfer.To != "" || answer.Status.Ironic != "room-b" {
			t.Errorf("recorded: %+v, answered: %+v", transfer, answer.Status)
		}
	})
}
