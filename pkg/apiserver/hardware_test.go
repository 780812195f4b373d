// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// registerWithBMC registers a host with a Redfish BMC, which is on.
func (s *server) registerWithBMC(t *testing.T, name string, change func(*metal3.BareMetalHost, *ironic.Node)) *ironicsim.BMC {
	t.Helper()
	address := "https://" + name + ".bmc/redfish/v1/Systems/1"
	bmc := s.ironic.sim.AddBMC(address, "admin", "password")
	s.register(t, name, func(h *metal3.BareMetalHost, n *ironic.Node) {
		n.Driver = "redfish"
		if change != nil {
			change(h, n)
		}
	})
	err := s.ironic.sim.SetNode(s.ironic.nodeOf(t, name), map[string]any{
		"management_interface": "redfish", "power_interface": "redfish",
		"driver_info": map[string]any{"redfish_address": "https://" + name + ".bmc", "redfish_system_id": "/redfish/v1/Systems/1", "redfish_username": "admin", "redfish_password": "password"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return bmc
}

// What a BMC is asked for while the caller waits.
func TestHardwareActions(t *testing.T) {
	s := startServer(t, true)
	inState := func(state ironic.ProvisionState) func(*metal3.BareMetalHost, *ironic.Node) {
		return func(_ *metal3.BareMetalHost, n *ironic.Node) { n.ProvisionState = state }
	}
	off := func(_ *metal3.BareMetalHost, n *ironic.Node) { n.PowerState = ironic.PowerOff }
	reserved := func(_ *metal3.BareMetalHost, n *ironic.Node) { n.Reservation = "conductor-0" }
	held := func(h *metal3.BareMetalHost, _ *ironic.Node) {
		h.Status.Record.Hold = &metal3.Hold{Reason: metal3.NodeOfAnotherHostReason, Message: "it is another's"}
	}
	tests := []struct {
		name, method, path, body, query string
		before                          func(*metal3.BareMetalHost, *ironic.Node)
		noBMC, dead, away, gateway      bool
		meanwhile                       interference
		code                            int
		says, retry                     string
		asked                           bool // whether the BMC was told to do it
	}{
		{name: "nmi", path: "nmi", body: `{}`, code: 201, says: "non-maskable", asked: true},
		{name: "nmi, dry run", path: "nmi", body: `{}`, query: "?dryRun=All", code: 201},
		{name: "nmi, off", path: "nmi", body: `{}`, before: off, code: 409, says: "it is off"},
		{name: "nmi, no such function", path: "nmi", body: `{}`, noBMC: true, code: 422, says: "does not support inject_nmi"},
		{name: "nmi, cleaning", path: "nmi", body: `{}`, before: inState(ironic.CleanWait), code: 409, says: "clean wait"},
		{name: "nmi, not verified", path: "nmi", body: `{}`, before: inState(ironic.Enroll), code: 409, says: "not been verified"},
		{name: "nmi, locked", path: "nmi", body: `{}`, before: reserved, code: 429, says: "conductor-0", retry: "2"},
		{name: "nmi, locked since", path: "nmi", body: `{}`, meanwhile: lockNode, code: 429, says: "locked", retry: "2"},
		{name: "nmi, another's machine", path: "nmi", body: `{}`, before: held, code: 409, says: "another's"},
		// To repeat these by itself is not for a client.
		{name: "nmi, no BMC", path: "nmi", body: `{}`, dead: true, code: 503, says: "look at the machine before you try again"},
		{name: "nmi, no answer", path: "nmi", body: `{}`, meanwhile: breakConnection, code: 504, says: "is not known"},
		{name: "nmi, a proxy answers", path: "nmi", body: `{}`, gateway: true, code: 504, says: "is not known"},
		{name: "nmi, away", path: "nmi", body: `{}`, away: true, code: 503, says: "nothing was done", retry: "1"},
		{name: "nmi, not permitted", path: "nmi", body: `{}`, meanwhile: failWrites(403), code: 503, says: "nothing was done", retry: "1"},
		{name: "nmi, a release without it", path: "nmi", body: `{}`, meanwhile: failWrites(406), code: 409, says: "too old"},

		{name: "bootdevice", path: "bootdevice", body: `{"spec":{"device":"cdrom","persistent":true}}`, code: 201, says: `"device":"cdrom","persistent":true`, asked: true},
		{name: "bootdevice, dry run", path: "bootdevice", body: `{"spec":{"device":"cdrom"}}`, query: "?dryRun=All", code: 201, says: `"persistent":false`},
		{name: "bootdevice, none", path: "bootdevice", body: `{}`, code: 422, says: "spec.device"},
		{name: "bootdevice, unknown", path: "bootdevice", body: `{"spec":{"device":"floppy"}}`, code: 422, says: "uefihttp"},
		{name: "bootdevice, unknown, dry run", path: "bootdevice", body: `{"spec":{"device":"floppy"}}`, query: "?dryRun=All", code: 422, says: "uefihttp"},
		{name: "bootdevice, deploying", path: "bootdevice", body: `{"spec":{"device":"disk"}}`, before: inState(ironic.DeployWait), code: 409, says: "call-back"},
		{name: "bootdevice, no BMC", path: "bootdevice", body: `{"spec":{"device":"disk"}}`, dead: true, code: 503, says: "look before you go on"},
		{name: "bootdevice, a proxy answers", path: "bootdevice", body: `{"spec":{"device":"disk"}}`, gateway: true, code: 504, says: "HTTP 502"},
		{name: "get bootdevice, a proxy answers", method: "GET", path: "bootdevice", gateway: true, code: 504, says: "HTTP 502"},
		{name: "get indicator, a proxy answers", method: "GET", path: "indicator", gateway: true, code: 504, says: "HTTP 502"},
		{name: "get bootdevice", method: "GET", path: "bootdevice", code: 200, says: `"device":"pxe","persistent":false,"supported":["pxe","disk"`},
		{name: "get bootdevice, no BMC", method: "GET", path: "bootdevice", dead: true, code: 503, says: "BMC"},
		{name: "get bootdevice, another's machine", method: "GET", path: "bootdevice", before: held, code: 409, says: "another's"},

		{name: "indicator", path: "indicator", body: `{"spec":{"state":"blinking"}}`, code: 201, says: `"state":"blinking"`, asked: true},
		{name: "indicator, dry run", path: "indicator", body: `{"spec":{"state":"blinking"}}`, query: "?dryRun=All", code: 201},
		{name: "indicator, named", path: "indicator", body: `{"spec":{"component":"system","name":"system-0","state":"on"}}`, code: 201, asked: true},
		{name: "indicator, no such one", path: "indicator", body: `{"spec":{"component":"disk","state":"on"}}`, code: 422, says: "system system-0"},
		{name: "indicator, not a state", path: "indicator", body: `{"spec":{"state":"unknown"}}`, code: 422, says: "spec.state"},
		{name: "indicator, cleaning", path: "indicator", body: `{"spec":{"state":"on"}}`, before: inState(ironic.CleanWait), code: 201, asked: true},
		{name: "indicator, cannot be switched", path: "indicator", body: `{"spec":{"state":"on"}}`, noBMC: true, code: 422, says: "chassis led-0"},
		{name: "get indicator", method: "GET", path: "indicator", code: 200, says: `"component":"system","name":"system-0","states":["blinking","off","on"],"state":"off"`},
		{name: "get indicator, no BMC", method: "GET", path: "indicator", dead: true, code: 503, says: "BMC"},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			name := fmt.Sprintf("hardware-%d", i)
			bmc := s.registerWithBMC(t, name, test.before)
			if test.noBMC {
				if err := s.ironic.sim.SetNode(s.ironic.nodeOf(t, name), map[string]any{"driver": "fake-hardware", "management_interface": "fake"}); err != nil {
					t.Fatal(err)
				}
			}
			bmc.SetDead(test.dead)
			switch {
			case test.away:
				s.ironic.disconnect(t)
			case test.meanwhile != nil:
				s.ironic.interfere(t, test.meanwhile)
			default:
				s.ironic.reset(t)
			}
			if test.gateway {
				s.ironic.sim.Judge(func(_ string, r *http.Request) (v ironicsim.Verdict) {
					if strings.Contains(r.URL.Path, "/management/") {
						v.Refusal = &fsm.Refusal{Status: http.StatusBadGateway, Text: "Bad Gateway"}
					}
					return v
				})
				defer s.ironic.sim.Judge(nil)
			}
			if test.method == "" {
				test.method = "POST"
			}
			got := s.do(t, test.method, hostsPath+"/"+name+"/"+test.path+test.query, test.body)
			if retry := got.header.Get("Retry-After"); got.code != test.code || retry != test.retry {
				t.Fatalf("HTTP %d, Retry-After %q, want %d, %q: %s", got.code, retry, test.code, test.retry, got.body)
			}
			if test.code >= 400 {
				checkError(t, got, name, test.says)
			} else if !strings.Contains(string(got.body), test.says) {
				t.Errorf("want %q in: %s", test.says, got.body)
			}
			device, _ := bmc.BootDevice()
			if asked := bmc.NMIs() > 0 || device != "pxe" || bmc.Light() != "off"; asked != test.asked {
				t.Errorf("the BMC has %d interrupts, boots from %s, its light is %s", bmc.NMIs(), device, bmc.Light())
			}
		})
	}
}

func TestMaintenance(t *testing.T) {
	s := startServer(t, true)
	const on, off = `{"spec":{"action":"on","reason":"disk swap"}}`, `{"spec":{"action":"off"}}`
	inMaintenance := map[string]any{"maintenance": true, "maintenance_reason": "by hand"}
	faulty := map[string]any{"maintenance": true, "maintenance_reason": "the BMC is silent", "fault": "power failure"}
	tests := []struct {
		name, body, query string
		node              map[string]any
		deleted           bool
		meanwhile         interference
		code              int
		says              string
		reason, fault     any // of the node afterwards
		maintenance       bool
	}{
		{name: "on", body: on, code: 201, says: "in maintenance until", maintenance: true, reason: "Requested by somebody: disk swap"},
		{name: "on, dry run", body: on, query: "?dryRun=All", code: 201},
		{name: "on already", body: on, node: inMaintenance, code: 201, maintenance: true, reason: "Requested by somebody: disk swap"},
		// Ironic would end this maintenance when the BMC answers again.
		{name: "on, at fault", body: on, node: faulty, code: 201, maintenance: true, reason: "Requested by somebody: disk swap"},
		{name: "off", body: off, node: inMaintenance, code: 201, says: "out of maintenance"},
		{name: "off, at fault", body: off, node: faulty, code: 201},
		{name: "off already", body: off, code: 201, says: "was not in maintenance"},
		{name: "off, dry run", body: off, query: "?dryRun=All", node: inMaintenance, code: 201, maintenance: true, reason: "by hand"},
		{name: "off, deleted meanwhile", body: off, node: inMaintenance, deleted: true, code: 201, says: "out of maintenance"},
		{name: "on, deleted meanwhile", body: on, deleted: true, code: 409, says: "it is being deleted"},
		{name: "off, while the server removes the node", body: off, node: map[string]any{"maintenance": true, "maintenance_reason": "BareMetalHost metal3/maintenance-10 leaves Ironic"}, deleted: true,
			code: 409, says: "it is being deleted, which waits for no maintenance"},
		{name: "off, deleted and at fault", body: off, node: faulty, deleted: true, code: 409, says: "it is being deleted, which waits for no maintenance"},
		{name: "on without a reason", body: `{"spec":{"action":"on","reason":" "}}`, code: 422, says: "spec.reason"},
		{name: "off with a reason", body: `{"spec":{"action":"off","reason":"done"}}`, code: 422, says: "spec.reason"},
		{name: "neither", body: `{}`, code: 422, says: "spec.action"},
		{name: "long reason", body: `{"spec":{"action":"on","reason":"` + strings.Repeat("x", 1025) + `"}}`, code: 422, says: "spec.reason"},
		{name: "locked", body: on, node: map[string]any{"reservation": "conductor-0"}, code: 429, says: "conductor-0"},
		{name: "locked since", body: on, meanwhile: lockNode, code: 429, says: "locked"},
		{name: "no answer", body: on, meanwhile: breakConnection, code: 503, says: "try again"},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			name := fmt.Sprintf("maintenance-%d", i)
			s.register(t, name, func(h *metal3.BareMetalHost, _ *ironic.Node) { h.Finalizers = []string{metal3.BareMetalHostFinalizer} })
			id := s.ironic.nodeOf(t, name)
			if err := s.ironic.sim.SetNode(id, test.node); test.node != nil && err != nil {
				t.Fatal(err)
			}
			if test.deleted {
				s.do(t, "DELETE", hostsPath+"/"+name, "").into(t, 200, &metal3.BareMetalHost{})
			}
			if s.ironic.reset(t); test.meanwhile != nil {
				s.ironic.interfere(t, test.meanwhile)
			}
			got := s.do(t, "POST", hostsPath+"/"+name+"/maintenance"+test.query, test.body)
			if got.code != test.code {
				t.Fatalf("HTTP %d: %s", got.code, got.body)
			}
			if test.code != http.StatusCreated {
				checkError(t, got, name, test.says)
				return
			}
			if !strings.Contains(string(got.body), test.says) {
				t.Errorf("want %q in: %s", test.says, got.body)
			}
			node, _ := s.ironic.sim.Node(id)
			if node["maintenance"] != test.maintenance || node["maintenance_reason"] != test.reason || node["fault"] != test.fault {
				t.Errorf("the node is in maintenance: %v, because %v, fault %v", node["maintenance"], node["maintenance_reason"], node["fault"])
			}
			var read metal3.HostMaintenance
			s.do(t, "GET", hostsPath+"/"+name+"/maintenance", "").into(t, 200, &read)
			if read.Status.Maintenance != test.maintenance || test.reason != nil && read.Status.Reason != test.reason {
				t.Errorf("GET: %+v", read.Status)
			}
		})
	}
}

func TestReports(t *testing.T) {
	s := startServer(t, true)
	s.registerWithBMC(t, "reported", nil)
	s.create(t, "unregistered")
	var validation metal3.HostValidation
	s.do(t, "GET", hostsPath+"/reported/validate", "").into(t, 200, &validation)
	results := map[string]metal3.InterfaceResult{}
	for _, i := range validation.Status.Interfaces {
		results[i.Name] = i.Result
	}
	if validation.Kind != "HostValidation" || results["power"] != metal3.InterfaceUsable || results["console"] == "" {
		t.Errorf("%+v", validation)
	}
	for _, path := range []string{"validate", "history"} {
		if got := s.do(t, "GET", hostsPath+"/unregistered/"+path, ""); got.code != 409 {
			t.Errorf("%s: HTTP %d: %s", path, got.code, got.body)
		}
		if got := s.do(t, "POST", hostsPath+"/reported/"+path, "{}"); got.code != 405 {
			t.Errorf("POST %s: HTTP %d: %s", path, got.code, got.body)
		}
	}

	// Three events, as Ironic would record them.
	for _, text := range []string{"first", "second", "third"} {
		if err := s.ironic.sim.AddHistory(s.ironic.nodeOf(t, "reported"), text); err != nil {
			t.Fatal(err)
		}
	}
	read := func(query string) (events string, next string) {
		t.Helper()
		var history metal3.HostHistory
		s.do(t, "GET", hostsPath+"/reported/history"+query, "").into(t, 200, &history)
		for _, e := range history.Status.Events {
			events += e.Message + " "
			if e.Time.IsZero() || e.ID == "" || e.Severity == "" {
				t.Errorf("%+v", e)
			}
		}
		return strings.TrimSpace(events), history.Status.Continue
	}
	if all, next := read(""); all != "third second first" || next != "" {
		t.Errorf("the history is %q, %q", all, next)
	}
	page, next := read("?limit=2")
	if page != "third second" || next == "" {
		t.Errorf("the first page is %q, %q", page, next)
	}
	// What happens meanwhile shifts no page.
	if err := s.ironic.sim.AddHistory(s.ironic.nodeOf(t, "reported"), "fourth"); err != nil {
		t.Fatal(err)
	}
	if page, next = read("?limit=2&continue=" + next); page != "first" || next != "" {
		t.Errorf("the second page is %q, %q", page, next)
	}
	for query, code := range map[string]int{"?continue=gone": 410, "?limit=-1": 400, "?limit=many": 400} {
		if got := s.do(t, "GET", hostsPath+"/reported/history"+query, ""); got.code != code {
			t.Errorf("%s: HTTP %d: %s", query, got.code, got.body)
		}
	}
	// Ironic's database has it, and no BMC is asked.
	s.ironic.sim.Judge(func(_ string, r *http.Request) ironicsim.Verdict {
		if strings.HasSuffix(r.URL.Path, "/history") {
			return ironicsim.Verdict{Refusal: &fsm.Refusal{Status: 500, Text: "database is locked"}}
		}
		return ironicsim.Verdict{}
	})
	defer s.ironic.sim.Judge(nil)
	if got := s.do(t, "GET", hostsPath+"/reported/history", ""); got.code != 503 || !strings.Contains(string(got.body), "could not answer: database is locked") {
		t.Errorf("HTTP %d: %s", got.code, got.body)
	}
}
