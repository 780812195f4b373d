// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// reference gives a real Ironic, where IRONICSIM_REFERENCE is its URL (29.0,
// noauth, fake-hardware, ipmi and redfish enabled), or else a Sim. What passes
// against both shows that the Sim tells the truth.
func reference(t *testing.T) *api {
	t.Helper()
	if url := os.Getenv("IRONICSIM_REFERENCE"); url != "" {
		return &api{t: t, base: strings.TrimSuffix(url, "/"), http: newHTTPClient(t)}
	}
	return start(t, Options{})
}

// fresh creates a node of a given UUID and name, deleting what was there before.
func (a *api) fresh(uuid, name string, fields doc) string {
	a.t.Helper()
	path := "/v1/nodes/" + uuid
	a.forget(path)
	a.t.Cleanup(func() { a.forget(path) })
	body := doc{"uuid": uuid, "name": name}
	for k, v := range fields {
		body[k] = v
	}
	return a.node(body)
}

func (a *api) forget(path string) {
	a.t.Helper()
	for _, step := range [][2]string{{"PUT", path + "/maintenance"}, {"DELETE", path}} {
		r, err := a.do(step[0], step[1], newest, nil)
		if err != nil || r.code >= 300 && r.code != http.StatusNotFound {
			a.t.Errorf("%s %s: %v %+v", step[0], step[1], err, r)
		}
	}
}

const (
	u1     = "c0000000-0000-4000-8000-000000000001"
	u2     = "c0000000-0000-4000-8000-000000000002"
	absent = "c0000000-0000-4000-8000-00000000ffff"
	n1     = "/v1/nodes/" + u1
)

type exchange struct {
	method, path, version string
	body                  any
	code                  int
	fault                 string // "" for answers that are no error
}

func (a *api) run(exchanges []exchange) {
	a.t.Helper()
	for _, x := range exchanges {
		version := x.version
		switch version {
		case "":
			version = newest
		case "none":
			version = ""
		}
		r, err := a.do(x.method, x.path, version, x.body)
		if err != nil {
			a.t.Errorf("%s %s: %v", x.method, x.path, err)
			continue
		}
		if r.code != x.code || r.fault != x.fault {
			a.t.Errorf("%s %s (%s) %v:\n got %d %q\nwant %d %q", x.method, x.path, version, x.body, r.code, r.fault, x.code, x.fault)
		}
	}
}

func TestVersionNegotiation(t *testing.T) {
	a := reference(t)
	const supported = "The supported version range is: [1.1, 1.96]."
	a.run([]exchange{
		{"GET", "/v1/nodes", "1.200", nil, 406, "Version 1.200 was requested but the minor version is not supported by this service. " + supported},
		{"GET", "/v1/nodes", "1.0", nil, 406, "Version 1.0 was requested but the minor version is not supported by this service. " + supported},
		{"GET", "/v1/nodes", "2.0", nil, 406, "Mutually exclusive versions requested. Version 2.0 requested but not supported by this service. " + supported},
		{"GET", "/v1/nodes", "abc", nil, 406, "Invalid value for X-OpenStack-Ironic-API-Version header"},
		{"GET", "/v1/nope", "", nil, 404, ""},
		{"GET", "/nope", "", nil, 404, ""},
		{"PUT", "/v1/nodes", "", doc{}, 405, ""},
		{"PUT", n1, "", doc{}, 405, ""},
		{"GET", "/nodes", "", nil, 200, ""},
		{"GET", "/v1/nodes/", "", nil, 200, ""},
	})
	for version, want := range map[string]string{"": "1.1", "latest": newest, "LATEST": newest, "1.50": "1.50"} {
		r, err := a.do("GET", "/v1/nodes", version, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := r.header.Get(headerVersion)
		if got != want || r.header.Get(headerMin) != "1.1" || r.header.Get(headerMax) != newest {
			t.Errorf("asked for %q: got version %q (%q to %q), want %q", version, got, r.header.Get(headerMin), r.header.Get(headerMax), want)
		}
	}
	r := a.must(200, "GET", "/", nil)
	if v := r.json["default_version"].(map[string]any); v["version"] != newest || v["min_version"] != "1.1" {
		t.Errorf("GET /: default_version is %v", v)
	}
}

func TestCreateErrors(t *testing.T) {
	a := reference(t)
	a.fresh(u1, "conf-1", nil)
	const schema = "Schema error for node: "
	extraData := "Extra data: line 1 column 4 (char 3)"
	if a.sim == nil {
		extraData = "Extra data: line 1 column 4 - line 1 column 6 (char 3 - 5)" // depends on the JSON library
	}
	post := func(body doc, code int, fault string) exchange {
		return exchange{"POST", "/v1/nodes", "", body, code, fault}
	}
	with := func(fields doc) doc {
		fields["driver"] = "fake-hardware"
		return fields
	}
	a.run([]exchange{
		post(doc{}, 400, schema+"'driver' is a required property"),
		post(with(doc{"bogus": 1}), 400, schema+"Additional properties are not allowed ('bogus' was unexpected)"),
		post(with(doc{"zzz": 1, "bogus": 1}), 400, schema+"Additional properties are not allowed ('bogus', 'zzz' were unexpected)"),
		post(doc{"driver": 3}, 400, schema+"3 is not of type 'string'"),
		post(with(doc{"driver_info": "x"}), 400, schema+"'x' is not of type 'object', 'null'"),
		post(with(doc{"uuid": "zz"}), 400, "Expected UUID for uuid: zz"),
		post(with(doc{"name": "bad name"}), 400, "Cannot create node with invalid name 'bad name'"),
		post(with(doc{"name": u2}), 400, "Cannot create node with invalid name '"+u2+"'"),
		post(with(doc{"name": "conf-1"}), 409, "A node with name conf-1 already exists."),
		post(with(doc{"uuid": u1, "name": "conf-2"}), 409, "A node with UUID "+u1+" already exists."),
		post(with(doc{"uuid": u1, "name": "conf-1"}), 409, "A node with name conf-1 already exists."),
		post(with(doc{"traits": []string{"CUSTOM_A"}}), 400, schema+"Additional properties are not allowed ('traits' was unexpected)"),
		post(with(doc{"automated_clean": "maybe"}), 400, "Invalid automated_clean: Unrecognized value 'maybe', acceptable values are: '0', '1', 'f', 'false', 'n', 'no', 'off', 'on', 't', 'true', 'y', 'yes'"),
		post(doc{"driver": "nope"}, 400, `No valid host was found. Reason: No conductor service registered which supports driver nope for conductor group "". Ensure the driver is valid and enabled.`),
		post(with(doc{"power_interface": "nope"}), 400, "Could not find the following interface in the 'ironic.hardware.interfaces.power' entrypoint: nope. Valid interfaces are ['fake', 'ipmitool', 'redfish']."),
		{"POST", "/v1/nodes", "", []byte("{bad"), 500, "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"},
		{"POST", "/v1/nodes", "", []byte("{} {}"), 500, extraData},
		{"POST", "/v1/nodes", "1.85", with(doc{"firmware_interface": "fake"}), 406, "Request not acceptable."},
		{"POST", "/v1/nodes", "1.94", with(doc{"disable_power_off": true}), 406, "Request not acceptable."},
	})
}

func TestGetAndListErrors(t *testing.T) {
	a := reference(t)
	a.fresh(u1, "conf-1", nil)
	const fieldsAndDetail = "Can not specify ?detail=True and fields in the same request."
	list := func(query string, code int, fault string) exchange {
		return exchange{"GET", "/v1/nodes?" + query, "", nil, code, fault}
	}
	at := func(version, query string, code int, fault string) exchange {
		return exchange{"GET", "/v1/nodes?" + query, version, nil, code, fault}
	}
	a.run([]exchange{
		{"GET", "/v1/nodes/nosuch", "", nil, 404, "Node nosuch could not be found."},
		{"GET", "/v1/nodes/" + absent, "", nil, 404, "Node " + absent + " could not be found."},
		{"GET", "/v1/nodes/a:b", "", nil, 400, "Expected UUID or name for node: a:b"},
		{"GET", n1 + "?fields=conductor", "", nil, 200, ""},
		{"GET", n1 + "?fields=bogus", "", nil, 400, "Field bogus is not a valid field."},
		{"GET", n1 + "?fields=updated_at", "", nil, 400, "Field updated_at is not a valid field."},
		{"GET", n1 + "?fields=links", "", nil, 400, "Field links is not a valid field."},
		{"GET", n1 + "?fields=health", "", nil, 400, "Field health is not a valid field."},
		{"GET", n1 + "?detail=True", "", nil, 400, "Unexpected arguments: detail"},
		{"GET", n1 + "?fields=firmware_interface", "1.85", nil, 406, "Request not acceptable."},
		list("fields=uuid,bogus", 500, "type object 'Node' has no attribute 'bogus'"),
		list("fields=conductor", 500, "type object 'Node' has no attribute 'conductor'"),
		list("fields=links", 500, "type object 'Node' has no attribute 'links'"),
		list("fields=health", 500, "type object 'Node' has no attribute 'health'"),
		list("fields=updated_at", 400, "Field updated_at is not a valid field."),
		list("fields=uuid,created_at", 400, "Field created_at is not a valid field."),
		list("fields=uuid&detail=True", 400, fieldsAndDetail),
		list("limit=0", 400, "Limit must be positive"),
		list("limit=abc", 400, "Expected an integer for limit: abc"),
		list("limit=5000", 200, ""),
		list("marker=zzz", 400, "Expected UUID for marker: zzz"),
		list("marker="+absent, 404, "Node "+absent+" could not be found."),
		list("sort_key=bogus", 400, `The sort_key value "bogus" is an invalid field for sorting`),
		list("sort_dir=up", 400, "Invalid sort direction: up. Acceptable values are 'asc' or 'desc'"),
		list("updated_at=1", 400, "Unexpected arguments: updated_at"),
		list("name=conf-1", 400, "Unexpected arguments: name"),
		list("power_state=x", 400, "Unexpected arguments: power_state"),
		at("1.86", "fields=service_step", 406, "Request not acceptable."),
		at("1.94", "fields=disable_power_off", 406, "Request not acceptable."),
		at("1.82", "include_children=true", 406, "Request not acceptable. The minimal required API version should be 1.83"),
		{"GET", n1 + "/firmware", "1.85", nil, 404, ""},
	})
	r := a.must(404, "GET", n1+"/inventory", nil)
	if !strings.HasPrefix(r.fault, "Node inventory record for node ") || strings.Contains(r.fault, u1) {
		t.Errorf("inventory: %q; the record is named by Ironic's internal id", r.fault)
	}
}

func TestPatchRules(t *testing.T) {
	a := reference(t)
	a.fresh(u1, "conf-1", nil)
	a.fresh(u2, "conf-2", nil)
	const schema = "Schema error for patch: "
	patch := func(code int, fault string, ops ...doc) exchange {
		return exchange{"PATCH", n1, "", append([]doc{}, ops...), code, fault}
	}
	op := func(op, path string, value ...any) doc {
		o := doc{"op": op, "path": path}
		if len(value) > 0 {
			o["value"] = value[0]
		}
		return o
	}
	a.run([]exchange{
		{"PATCH", n1, "", doc{}, 400, schema + "{} is not of type 'array'"},
		patch(400, schema+"'test' is not one of ['add', 'replace', 'remove']", op("test", "/name", "x")),
		patch(400, schema+`'/extra/a.b' does not match '^(/[\\w-]+)+$'`, op("add", "/extra/a.b", "x")),
		patch(400, schema+`'/extra/a~1b' does not match '^(/[\\w-]+)+$'`, op("add", "/extra/a~1b", "x")),
		patch(200, "", op("add", "/extra", doc{"metal3.io/x": "y"})),
		patch(400, "Couldn't apply patch '{'op': 'remove', 'path': '/extra/no'}'. Reason: can't remove a non-existent object 'no'", op("remove", "/extra/no")),
		patch(400, "Couldn't apply patch '{'op': 'replace', 'path': '/extra/no', 'value': 1}'. Reason: can't replace a non-existent object 'no'", op("replace", "/extra/no", 1)),
		patch(400, "Couldn't apply patch '{'op': 'add', 'path': '/extra/a/b', 'value': 1}'. Reason: member 'a' not found in {'metal3.io/x': 'y'}", op("add", "/extra/a/b", 1)),
		patch(400, "Couldn't apply patch '{'op': 'add', 'path': '/extra/k'}'. Reason: The operation does not contain a 'value' member", op("add", "/extra/k")),
		patch(200, "", op("remove", "/description")),
		patch(400, schema+"'driver' is a required property", op("remove", "/driver")),
		patch(409, "A node with name conf-2 already exists.", op("add", "/name", "conf-2")),
		patch(400, "Node "+u1+": Cannot change name to invalid name 'None'", op("add", "/name", nil)),
		patch(400, schema+"4 is not of type 'string', 'null'", op("add", "/lessee", 4)),
		patch(400, "Expected UUID for instance_uuid: zz", op("add", "/instance_uuid", "zz")),
		patch(400, "Expected UUID for chassis_uuid: zz", op("add", "/chassis_uuid", "zz")),
		patch(400, "Chassis "+absent+" could not be found.", op("add", "/chassis_uuid", absent)),
		patch(200, "", op("add", "/chassis_uuid", nil)),
		patch(409, "Node "+u1+" can only be made protected in provision states 'active' or 'rescue', the current state is 'enroll'", op("add", "/protected", true)),
		patch(400, "The protected_reason field can only be set when protected is True", op("add", "/protected_reason", "x")),
		patch(400, "The retired_reason field can only be set when retired is True", op("add", "/retired_reason", "x")),
		patch(200, "", op("add", "/retired", true), op("add", "/retired_reason", "x")),
		patch(200, "", op("add", "/retired", false)),
		patch(200, "", op("add", "/instance_uuid", u2)),
		patch(409, "Node "+u1+" is associated with instance "+u2+".", op("add", "/instance_uuid", absent)),
		{"DELETE", n1, "", nil, 409, "Node " + u1 + " is associated with instance " + u2 + "."},
		patch(200, "", op("remove", "/instance_uuid")),
		{"PATCH", n1, "1.85", []doc{op("add", "/firmware_interface", "fake")}, 406, "Request not acceptable."},
		{"PATCH", n1 + "?reset_interfaces=true", "", []doc{op("add", "/extra", doc{})}, 400, "The reset_interfaces parameter can only be used when changing the node's driver."},
		{"PATCH", "/v1/nodes/nosuch", "", []doc{op("add", "/extra", doc{})}, 404, "Node nosuch could not be found."},
	})
	r, err := a.do("PATCH", n1, newest, []doc{op("replace", "/driver", "ipmi")})
	if err != nil || r.code != 400 || !strings.Contains(r.fault, "is not supported by hardware type IPMIHardware.") {
		t.Errorf("change of driver without reset_interfaces: %v %+v", err, r)
	}
	r = a.must(200, "PATCH", n1+"?reset_interfaces=true", []doc{op("replace", "/driver", "ipmi")})
	if r.json["power_interface"] != "ipmitool" || r.json["inspect_interface"] != "agent" {
		t.Errorf("change of driver: got power_interface %v, inspect_interface %v", r.json["power_interface"], r.json["inspect_interface"])
	}
	if r.json["reservation"] == nil {
		t.Error("the answer of a PATCH was taken under the lock, so it shows a reservation")
	}

	// Secrets are masked, and a patch of one key leaves the others as they are.
	a.must(200, "PATCH", n1, []doc{op("add", "/driver_info", doc{"ipmi_address": "192.0.2.1", "ipmi_password": "secret",
		"nested": doc{"password": "x"}})})
	a.must(200, "PATCH", n1, []doc{op("replace", "/driver_info/ipmi_address", "192.0.2.2")})
	info := a.get(n1)["driver_info"].(map[string]any)
	if info["ipmi_password"] != mask || info["nested"].(map[string]any)["password"] != mask || info["ipmi_address"] != "192.0.2.2" {
		t.Errorf("driver_info reads %v", info)
	}
}

// Each PATCH makes a node of Ironic 29.0.5 its own parent: it is gone from plain
// lists, and cannot be switched on unless it has a power supply of its own.
func TestPatchMakesNodeItsOwnParent(t *testing.T) {
	a := reference(t)
	a.fresh(u1, "conf-1", nil)
	listed := func(query string) bool {
		for _, n := range a.must(200, "GET", "/v1/nodes?limit=1000&fields=uuid"+query, nil).json["nodes"].([]any) {
			if n.(map[string]any)["uuid"] == u1 {
				return true
			}
		}
		return false
	}
	if !listed("") {
		t.Fatal("a new node is not listed")
	}
	a.must(200, "PATCH", n1, []doc{{"op": "add", "path": "/extra/a", "value": 1}})
	if got := a.get(n1)["parent_node"]; got != u1 {
		t.Errorf("parent_node is %v after a PATCH, want the node itself", got)
	}
	if listed("") || !listed("&include_children=true") {
		t.Error("a node with a parent must be listed with include_children only")
	}
	n := a.power(n1, "power on")
	if e, _ := n["last_error"].(string); !strings.Contains(e, "parent_node "+u1+" is presently locked") {
		t.Errorf("power on: last_error is %v", n["last_error"])
	}
	a.must(200, "PATCH", n1, []doc{{"op": "add", "path": "/driver_info/has_dedicated_power_supply", "value": true}})
	if n = a.power(n1, "power on"); n["power_state"] != fsm.PowerOn {
		t.Errorf("power on with a dedicated supply: %v", brief(n))
	}
}
