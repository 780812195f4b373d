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

func TestPower(t *testing.T) {
	s := startServer(t, true)
	off := func(h *metal3.BareMetalHost, _ *ironic.Node) { h.Spec.Online = false }
	node := func(change func(*ironic.Node)) func(*metal3.BareMetalHost, *ironic.Node) {
		return func(_ *metal3.BareMetalHost, n *ironic.Node) { change(n) }
	}
	annotated := func(key, value string) func(*metal3.BareMetalHost, *ironic.Node) {
		return func(h *metal3.BareMetalHost, _ *ironic.Node) {
			h.Annotations, h.Status.Provisioning.State = map[string]string{key: value}, metal3.StateProvisioned
		}
	}
	fenced := annotated("reboot.metal3.io/fence", "")
	and := func(a, b func(*metal3.BareMetalHost, *ironic.Node)) func(*metal3.BareMetalHost, *ironic.Node) {
		return func(h *metal3.BareMetalHost, n *ironic.Node) { a(h, n); b(h, n) }
	}
	softless := node(func(n *ironic.Node) { n.Driver = noSoftPower })
	tests := []struct {
		name      string
		body      string
		before    func(*metal3.BareMetalHost, *ironic.Node) // by default, the host is on, available and not locked
		away      bool
		meanwhile interference // happens before the change reaches Ironic
		code      int
		says      string   // part of the error, or of status.message
		retry     string   // Retry-After
		calls     []string // to Ironic
		online    bool     // spec.online afterwards
		mode      metal3.PowerMode
	}{
		// Actions that are done
		{name: "off", body: `{"spec":{"action":"off"}}`, code: 201, calls: []string{"soft power off"}, mode: "soft"},
		{name: "off hard", body: `{"spec":{"action":"off","mode":"hard"}}`, code: 201, calls: []string{"power off"}, mode: "hard"},
		{name: "on", body: `{"spec":{"action":"on"}}`, before: off, code: 201, calls: []string{"power on"}, online: true},
		{name: "on again", body: `{"spec":{"action":"on"}}`, code: 201, calls: []string{"power on"}, online: true},
		{name: "reboot", body: `{"spec":{"action":"reboot"}}`, code: 201, calls: []string{"soft rebooting"}, online: true, mode: "soft"},
		{name: "reboot hard", body: `{"spec":{"action":"reboot","mode":"hard"}}`, code: 201, calls: []string{"rebooting"}, online: true, mode: "hard"},
		{name: "with kind and name", body: `{"apiVersion":"metal3.io/v1alpha1","kind":"HostPower","metadata":{"name":"NAME","namespace":"metal3"},"spec":{"action":"off"}}`,
			code: 201, calls: []string{"soft power off"}, mode: "soft"},
		{name: "a status in the request", body: `{"spec":{"action":"off"},"status":{"message":"not so"}}`, code: 201, calls: []string{"soft power off"}, mode: "soft"},
		{name: "no soft power off", body: `{"spec":{"action":"off"}}`, before: softless, code: 201,
			calls: []string{"soft power off", "power off"}, mode: "hard",
			says: "soft was refused, hard was used instead: The driver redfish does not support the power state, soft power off"},
		{name: "no soft reboot", body: `{"spec":{"action":"reboot"}}`, before: softless, code: 201, online: true,
			calls: []string{"soft rebooting", "rebooting"}, mode: "hard", says: "hard was used instead"},
		{name: "in a failed state", body: `{"spec":{"action":"off"}}`, code: 201, calls: []string{"soft power off"}, mode: "soft",
			before: node(func(n *ironic.Node) { n.ProvisionState, n.TargetProvisionState = ironic.CleanFail, "available" })},

		// Actions that the host's state does not allow
		{name: "locked", body: `{"spec":{"action":"off"}}`, before: node(func(n *ironic.Node) { n.Reservation = "conductor-0" }),
			code: 429, says: "locked by conductor conductor-0", retry: "2", online: true},
		{name: "in transit", body: `{"spec":{"action":"off"}}`, before: node(func(n *ironic.Node) { n.ProvisionState, n.TargetProvisionState = ironic.CleanWait, "available" }),
			code: 409, says: "clean wait", online: true},
		{name: "not verified", body: `{"spec":{"action":"on"}}`, code: 409, says: "wrong password", online: true,
			before: func(h *metal3.BareMetalHost, n *ironic.Node) {
				h.Status.ErrorMessage, n.ProvisionState = "wrong password", ironic.Enroll
			}},
		{name: "not registered", body: `{"spec":{"action":"on"}}`, code: 409, says: "not registered in Ironic yet", online: true,
			before: func(h *metal3.BareMetalHost, _ *ironic.Node) { h.Status.Provisioning.ID = "" }},
		{name: "node lost", body: `{"spec":{"action":"on"}}`, code: 409, says: "no node", online: true,
			before: func(h *metal3.BareMetalHost, _ *ironic.Node) { h.Status.Provisioning.ID = "gone" }},
		{name: "reboot of one that is to be off", body: `{"spec":{"action":"reboot"}}`, before: off, code: 409, says: "use the action on"},
		{name: "on, kept off", body: `{"spec":{"action":"on"}}`, before: fenced, code: 409, says: "annotation reboot.metal3.io/fence keeps it off", online: true},
		{name: "on, kept off and to be off", body: `{"spec":{"action":"on"}}`, before: and(fenced, off), code: 409, says: "annotation reboot.metal3.io/fence"},
		{name: "reboot, kept off", body: `{"spec":{"action":"reboot","mode":"hard"}}`, before: fenced, code: 409, says: "until its owner removes it", online: true},
		{name: "off, kept off", body: `{"spec":{"action":"off"}}`, before: fenced, code: 201, calls: []string{"soft power off"}, mode: "soft"},
		{name: "reboot, kept off by force", body: `{"spec":{"action":"reboot"}}`, code: 409, says: "annotation reboot.metal3.io/fence", online: true,
			before: and(annotated("reboot.metal3.io/fence", `{"force":true}`), func(h *metal3.BareMetalHost, _ *ironic.Node) {
				h.Status.Provisioning.State = metal3.StateAvailable
			})},
		{name: "reboot, runs nothing that is kept off", body: `{"spec":{"action":"reboot"}}`, code: 201, calls: []string{"soft rebooting"}, mode: "soft", online: true,
			before: and(fenced, func(h *metal3.BareMetalHost, _ *ironic.Node) { h.Status.Provisioning.State = metal3.StateAvailable })},
		{name: "reboot, never kept off", body: `{"spec":{"action":"reboot"}}`, code: 201, calls: []string{"soft rebooting"}, mode: "soft", online: true,
			before: and(fenced, func(h *metal3.BareMetalHost, _ *ironic.Node) { h.Spec.DisablePowerOff = true })},
		{name: "off is disabled", body: `{"spec":{"action":"off"}}`, code: 422, says: "spec.action", online: true,
			before: func(h *metal3.BareMetalHost, _ *ironic.Node) { h.Spec.DisablePowerOff = true }},

		// Actions that Ironic refuses: the spec is restored
		{name: "refused", body: `{"spec":{"action":"off","mode":"hard"}}`, meanwhile: setState(ironic.Cleaning), code: 409, says: `while it is in state "cleaning"`,
			calls: []string{"power off"}, online: true},
		{name: "on refused", body: `{"spec":{"action":"on"}}`, before: off, meanwhile: setState(ironic.Cleaning), code: 409, says: "Ironic refused",
			calls: []string{"power on"}},
		{name: "soft and hard refused", body: `{"spec":{"action":"off"}}`, meanwhile: setState(ironic.Cleaning), code: 409, says: "Ironic refused",
			calls: []string{"soft power off", "power off"}, online: true},
		{name: "gone since", body: `{"spec":{"action":"off","mode":"hard"}}`, meanwhile: deleteNode, code: 409, says: "no node",
			calls: []string{"power off"}, online: true},
		{name: "not permitted", body: `{"spec":{"action":"off","mode":"hard"}}`, meanwhile: failWrites(403), code: 503, says: "nothing was done", retry: "1",
			calls: []string{"power off"}, online: true},
		{name: "reboot refused", body: `{"spec":{"action":"reboot","mode":"hard"}}`, meanwhile: setState(ironic.Cleaning), code: 409, says: "Ironic refused",
			calls: []string{"rebooting"}, online: true},

		// Ironic is away
		{name: "away", body: `{"spec":{"action":"off"}}`, away: true, code: 503, says: "nothing was done", retry: "1", online: true},
		{name: "no answer", body: `{"spec":{"action":"off","mode":"hard"}}`, meanwhile: breakConnection, code: 503, says: "spec.online is false now", retry: "1",
			calls: []string{"power off"}},
		{name: "no answer, off before", body: `{"spec":{"action":"off","mode":"hard"}}`, before: off, meanwhile: breakConnection, code: 503, says: "spec.online is false now", retry: "1",
			calls: []string{"power off"}},
		{name: "no answer to soft", body: `{"spec":{"action":"off"}}`, meanwhile: breakConnection, code: 503, says: "spec.online is false now", retry: "1",
			calls: []string{"soft power off"}},
		{name: "HTTP 500", body: `{"spec":{"action":"off","mode":"hard"}}`, meanwhile: failWrites(500), code: 503, says: "HTTP 500", retry: "1",
			calls: []string{"power off"}},
		{name: "no worker", body: `{"spec":{"action":"on"}}`, before: off, meanwhile: failWrites(503), code: 503, says: "HTTP 503", retry: "1",
			calls: []string{"power on"}, online: true},
		// Clients repeat a request by themselves if the answer has a Retry-After, so a reboot that
		// may have begun must not have one.
		{name: "reboot, HTTP 500", body: `{"spec":{"action":"reboot","mode":"hard"}}`, meanwhile: failWrites(500), code: 504, says: "not known",
			calls: []string{"rebooting"}, online: true},
		{name: "reboot without answer", body: `{"spec":{"action":"reboot","mode":"hard"}}`, meanwhile: breakConnection, code: 504, says: "look before you try again",
			calls: []string{"rebooting"}, online: true},

		// Bad requests
		{name: "unknown action", body: `{"spec":{"action":"explode"}}`, code: 422, says: "spec.action", online: true},
		{name: "unknown mode", body: `{"spec":{"action":"off","mode":"medium"}}`, code: 422, says: "spec.mode", online: true},
		{name: "no action", body: `{}`, code: 422, says: "spec.action", online: true},
		{name: "empty body", body: ``, code: 400, online: true},
		{name: "not JSON", body: `action: off`, code: 400, online: true},
		{name: "wrong type", body: `{"spec":{"action":1}}`, code: 400, online: true},
		{name: "another name", body: `{"metadata":{"name":"another"},"spec":{"action":"off"}}`, code: 400, says: "another", online: true},
		{name: "another namespace", body: `{"metadata":{"namespace":"another"},"spec":{"action":"off"}}`, code: 400, online: true},
		{name: "another kind", body: `{"apiVersion":"metal3.io/v1alpha1","kind":"HostInspection","spec":{}}`, code: 400, online: true},
		{name: "an unknown kind", body: `{"apiVersion":"metal3.io/v1alpha1","kind":"Hammer","spec":{}}`, code: 400, online: true},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			name := fmt.Sprintf("power-%d", i)
			s.register(t, name, test.before)
			switch {
			case test.away:
				s.ironic.disconnect(t)
			case test.meanwhile != nil:
				s.ironic.interfere(t, test.meanwhile)
			default:
				s.ironic.reset(t)
			}
			got := s.do(t, "POST", hostsPath+"/"+name+"/power", strings.ReplaceAll(test.body, "NAME", name))

			if diff := cmp.Diff(test.calls, s.ironic.requested()); diff != "" {
				t.Errorf("calls to Ironic (- want, + got):\n%s", diff)
			}
			if online := s.recorded(t, name).Spec.Online; online != test.online {
				t.Errorf("spec.online is %t", online)
			}
			if got := got.header.Get("Retry-After"); got != test.retry {
				t.Errorf("Retry-After is %q, want %q", got, test.retry)
			}
			if got.code != test.code {
				t.Fatalf("HTTP %d: %s", got.code, got.body)
			}
			if test.code != 201 {
				checkError(t, got, name, test.says)
				return
			}
			var power metal3.HostPower
			got.into(t, 201, &power)
			if power.Kind != "HostPower" || power.APIVersion != "metal3.io/v1alpha1" || power.Name != name || power.Namespace != namespace || power.ManagedFields != nil {
				t.Errorf("the answer is %+v", power)
			}
			if power.Status.PowerState != "power on" || power.Status.Mode != test.mode || !strings.Contains(power.Status.Message, test.says) || test.says == "" && power.Status.Message != "" {
				t.Errorf("status is %+v", power.Status)
			}
		})
	}
}

// checkError checks that an error is a Status with a message that names the host and says what
// is wrong.
func checkError(t *testing.T, got answer, name, says string) {
	t.Helper()
	status := got.status(t)
	text := status.Message
	if status.Details != nil {
		for _, cause := range status.Details.Causes {
			text += " " + cause.Field
		}
	}
	if int(status.Code) != got.code || status.Reason == "" || !strings.Contains(text, says) || says != "" && !strings.Contains(text, name) {
		t.Errorf("want %q about %s in: %s", says, name, got.body)
	}
}

// TestRequestsAreTold: events name who has requested what of a host, once it is done, so that nobody has to guess why a
// machine was rebooted.
func TestRequestsAreTold(t *testing.T) {
	s := startServer(t, true)
	for i, test := range []struct {
		subresource, body, query string
		want                     []string
	}{
		{"power", `{"spec":{"action":"reboot","mode":"hard"}}`, "", []string{"PowerRequested: A user has requested a reboot (hard)"}},
		{"power", `{"spec":{"action":"off"}}`, "", []string{"PowerRequested: A user has requested the power to be switched off (soft)"}},
		{"inspect", `{}`, "", []string{"InspectionRequested: A user has requested an inspection"}},
		{"retry", `{}`, "", []string{"RetryRequested: A user has requested another try of what has failed"}},
		{"power", `{"spec":{"action":"off"}}`, "?dryRun=All", nil},
		{"retry", `{}`, "?dryRun=All", nil},
		{"power", `{"spec":{"action":"explode"}}`, "", nil},
	} {
		name := fmt.Sprintf("told-%d", i)
		s.register(t, name, nil)
		answer := s.do(t, "POST", hostsPath+"/"+name+"/"+test.subresource+test.query, test.body)
		if diff := cmp.Diff(test.want, s.requested.take()); diff != "" {
			t.Errorf("%s %s: HTTP %d %s (- want, + got):\n%s", test.subresource, test.body, answer.code, answer.body, diff)
		}
	}
}
