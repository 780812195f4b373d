// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// perHost are the requests about a host that ask its Ironic, as a method, the subresource and a spec.
var perHost = [][3]string{
	{"GET", "power"}, {"GET", "inspect"}, {"GET", "maintenance"}, {"GET", "validate"}, {"GET", "history"}, {"GET", "bootdevice"}, {"GET", "indicator"},
	{"POST", "maintenance", `{"action":"on","reason":"mine"}`}, {"POST", "maintenance", `{"action":"off"}`},
	{"POST", "bootdevice", `{"device":"pxe"}`}, {"POST", "nmi", `{}`}, {"POST", "indicator", `{"state":"on"}`},
	{"POST", "takeover", `{"nodeUUID":"NODE"}`}, {"POST", "rebuild", `{}`}, {"POST", "transfer", `{"ironic":"room-c"}`}, {"POST", "clean", `{"steps":[{"interface":"deploy","step":"erase_devices"}]}`},
	{"POST", "inspect", `{}`}, {"POST", "power", `{"action":"off","mode":"hard"}`},
}

// send sends one of the requests perHost.
func (s *server) send(t *testing.T, host *metal3.BareMetalHost, request [3]string) answer {
	t.Helper()
	body := ""
	if request[2] != "" {
		body = `{"spec":` + strings.ReplaceAll(request[2], "NODE", host.Status.Provisioning.ID) + `}`
	}
	return s.do(t, request[0], hostsPath+"/"+host.Name+"/"+request[1], body)
}

// TestEachHostHasItsIronic: whatever is asked about a host, or done with it, reaches the Ironic that is recorded of the
// host, and no other one. The other one does not have the node.
func TestEachHostHasItsIronic(t *testing.T) {
	s := startServer(t, true)
	other := startIronic(t)
	s.others = map[string]*simulatedIronic{"room-b": other}
	manageable := func(_ *metal3.BareMetalHost, n *ironic.Node) { n.ProvisionState = ironic.Manageable }
	for _, test := range []struct {
		host     *metal3.BareMetalHost
		own, not *simulatedIronic
	}{
		{s.register(t, "in-flags", manageable), s.ironic, other},
		{s.registerIn(t, "room-b", other, "in-b", manageable), other, s.ironic},
	} {
		for _, request := range perHost {
			test.own.clear()
			test.not.clear()
			got := s.send(t, test.host, request)
			if wrong := strings.Contains(string(got.body), "has no node"); wrong || test.own.requests() == 0 || test.not.requests() > 0 {
				t.Errorf("%s %q: its own Ironic got %d requests, the other one %d: HTTP %d: %s",
					test.host.Name, request, test.own.requests(), test.not.requests(), got.code, got.body)
			}
			if request[0] == "POST" && (request[1] == "maintenance" || request[1] == "inspect") && got.code != 201 {
				t.Errorf("%s %q: HTTP %d: %s", test.host.Name, request, got.code, got.body)
			}
		}
	}
}

// TestPowerInTheIronicOfTheHost: a machine is switched in its own Ironic.
func TestPowerInTheIronicOfTheHost(t *testing.T) {
	s := startServer(t, true)
	other := startIronic(t)
	s.others = map[string]*simulatedIronic{"room-b": other}
	s.registerIn(t, "room-b", other, "host", nil)
	s.do(t, "POST", hostsPath+"/host/power", `{"spec":{"action":"reboot","mode":"hard"}}`).into(t, 201, &metal3.HostPower{})
	if requested := other.requested(); len(requested) != 1 || s.ironic.requests() > 0 {
		t.Errorf("its Ironic was asked for %v, and the other one %d times for something", requested, s.ironic.requests())
	}
}

// TestHostOfUnknownIronic: as long as the IronicInstance of a host is not known, nothing is done, and clients try again by
// themselves.
func TestHostOfUnknownIronic(t *testing.T) {
	s := startServer(t, true)
	host := s.registerIn(t, "gone", s.ironic, "host", nil) // in a database that looks the same
	s.ironic.clear()
	const want = `baremetalhost "host": the Ironic of IronicInstance "gone" cannot be asked: there is no such IronicInstance; nothing was done, try again`
	for _, request := range perHost {
		got := s.send(t, host, request)
		if status := got.status(t); got.code != 503 || got.header.Get("Retry-After") != "1" || status.Message != want {
			t.Errorf("%q: HTTP %d, Retry-After %q: %s", request, got.code, got.header.Get("Retry-After"), got.body)
		}
	}
	if n := s.ironic.requests(); n > 0 {
		t.Errorf("another Ironic got %d requests", n)
	}
	if after := s.recorded(t, "host"); after.ResourceVersion != host.ResourceVersion {
		t.Error("the host was written")
	}
	s.do(t, "PATCH", hostsPath+"/host", `{"metadata":{"annotations":{"clusterctl.cluster.x-k8s.io/delete-for-move":""}}}`, "Content-Type: application/merge-patch+json").into(t, 200, &metal3.BareMetalHost{})
	got := s.do(t, "DELETE", hostsPath+"/host", "")
	if got.code != 503 || !strings.Contains(string(got.body), `"gone\"`) || s.ironic.requests() > 0 {
		t.Errorf("deleted for a move: HTTP %d: %s", got.code, got.body)
	}
}

// TestHostThatChangesItsIronicMeanwhile: an action that has found its node in one Ironic changes nothing of a host that has
// its node in another one by then.
func TestHostThatChangesItsIronicMeanwhile(t *testing.T) {
	s := startServer(t, true)
	other := startIronic(t)
	s.others = map[string]*simulatedIronic{"room-b": other}
	for i, request := range [][3]string{
		{"POST", "power", `{"action":"off","mode":"soft"}`}, {"POST", "power", `{"action":"off","mode":"hard"}`}, {"POST", "inspect", `{}`},
	} {
		name := fmt.Sprintf("host-%d", i)
		host := s.register(t, name, nil)
		s.live.proving(func() {
			if err := record(t.Context(), s.hosts, namespace, name, func(status *metal3.BareMetalHostStatus) { status.Record.Ironic = "room-b" }); err != nil {
				t.Error(err)
			}
		})
		s.ironic.clear()
		got := s.send(t, host, request)
		s.live.proving(nil)
		if got.code != 409 || got.status(t).Reason != metav1.StatusReasonConflict || !strings.Contains(string(got.body), "in another Ironic now") {
			t.Errorf("%q: HTTP %d: %s", request, got.code, got.body)
		}
		if asked := s.ironic.requested(); len(asked) > 0 || other.requests() > 0 {
			t.Errorf("%q: Ironic was asked for %v, the new one got %d requests", request, asked, other.requests())
		}
		after := s.recorded(t, name)
		if after.Generation != host.Generation || len(after.Annotations) > 0 || after.Status.Record.PowerCut != nil {
			t.Errorf("%q: the host was changed: %+v", request, after)
		}
	}
}
