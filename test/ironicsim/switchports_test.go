// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"strings"
	"testing"
)

// TestSwitchports: what Ironic's networking interface refuses of a port, and that a port that it would refuse keeps its
// node from being cleaned, and cannot be mended.
func TestSwitchports(t *testing.T) {
	a := start(t, quick())
	id := strings.TrimPrefix(a.node(doc{"network_interface": ironicNetworking}), "/v1/nodes/")
	node := "/v1/nodes/" + id
	a.provision(node, "manage", "manageable")
	port := "/v1/ports/" + a.must(201, "POST", "/v1/ports", doc{"node_uuid": id, "address": "52:54:00:00:00:01"}).json["uuid"].(string)
	add := func(path string, value any) doc { return doc{"op": "add", "path": path, "value": value} }
	access, trunk := doc{"mode": "access", "native_vlan": 7}, doc{"mode": "trunk", "native_vlan": 7}
	link := add("/local_link_connection", doc{"switch_id": "00:1b:21:aa:bb:cc", "port_id": "Eth1"})
	var vlans []int
	for vlan := range 101 {
		vlans = append(vlans, vlan+1)
	}
	for _, step := range []struct {
		patch []doc
		fault string
	}{
		{[]doc{link, add("/extra/switchport", trunk)}, "PXE-enabled ports must use 'access' mode"},
		{[]doc{add("/local_link_connection", doc{"switch_id": "00:1b:21:aa:bb:cc"}), add("/extra/switchport", access)}, "missing required field(s): 'port_id'"},
		{[]doc{link, add("/extra/switchport", doc{"mode": "access"})}, "'native_vlan' is a required property"},
		{[]doc{link, add("/extra/switchport", doc{"mode": "access", "native_vlan": 7, "allowed_vlans": vlans})}, "is too long"},
		{[]doc{link, add("/extra/switchport", doc{"mode": "access", "native_vlan": 7, "allowed_vlans": vlans[:100]})}, ""},
		{[]doc{add("/pxe_enabled", false), add("/extra/switchport", trunk)}, ""},
		{[]doc{add("/extra/switchport", access)}, ""},
		{[]doc{add("/local_link_connection", doc{})}, ""}, // now the port is invalid, which nobody has checked
		{[]doc{link}, "missing local_link_connection in state: manageable"},
		{[]doc{{"op": "remove", "path": "/extra/switchport"}}, "missing local_link_connection in state: manageable"},
	} {
		code := 200
		if step.fault != "" {
			code = 400
		}
		if r := a.must(code, "PATCH", port, step.patch); !strings.Contains(r.fault, step.fault) {
			t.Errorf("%v: %q, want %q", step.patch, r.fault, step.fault)
		}
	}
	reason := a.must(200, "GET", node+"/validate", nil).json["network"].(doc)["reason"]
	if text, _ := reason.(string); !strings.Contains(text, "missing local_link_connection") {
		t.Errorf("the validation says %v", reason)
	}
	if n := a.provision(node, "provide", "clean failed"); !strings.Contains(n["last_error"].(string), "missing local_link_connection") {
		t.Errorf("cleaning says %v", n["last_error"])
	}
}

// TestConnectivity: what a port is connected to may be changed in some states only, or in maintenance.
func TestConnectivity(t *testing.T) {
	a := start(t, quick())
	id := strings.TrimPrefix(a.node(nil), "/v1/nodes/")
	port := "/v1/ports/" + a.must(201, "POST", "/v1/ports", doc{"node_uuid": id, "address": "52:54:00:00:00:01"}).json["uuid"].(string)
	a.provision("/v1/nodes/"+id, "manage", "manageable")
	a.provision("/v1/nodes/"+id, "provide", "available")
	patch := []doc{{"op": "add", "path": "/local_link_connection", "value": doc{"switch_id": "00:1b:21:aa:bb:cc", "port_id": "Eth1"}}}
	if r := a.must(409, "PATCH", port, patch); !strings.Contains(r.fault, "can not have any connectivity attributes") {
		t.Error(r.fault)
	}
	a.must(202, "PUT", "/v1/nodes/"+id+"/maintenance", nil)
	a.must(200, "PATCH", port, patch)
}
