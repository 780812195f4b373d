// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"strings"
	"testing"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

const mac = "52:54:00:c0:00:01"

func report(extra doc) doc {
	body := doc{
		"inventory": doc{
			"interfaces": []doc{{"name": "eth0", "mac_address": mac, "has_carrier": true}, {"name": "eth1", "mac_address": "52:54:00:c0:00:02", "has_carrier": false}},
			"cpu":        doc{"count": 8, "architecture": "x86_64"}, "disks": []doc{}, "memory": doc{"physical_mb": 1024},
			"bmc_address": "192.0.2.10", "boot": doc{"pxe_interface": mac},
		},
		"root_disk": nil, "error": nil, "configuration": doc{},
	}
	for k, v := range extra {
		body[k] = v
	}
	return body
}

// TestRamdiskInspection is an inspection by a ramdisk that the test plays.
func TestRamdiskInspection(t *testing.T) {
	a := reference(t)
	a.fresh(u1, "conf-1", doc{"inspect_interface": "agent"})
	a.must(201, "POST", "/v1/ports", doc{"node_uuid": u1, "address": strings.ToUpper(mac)})
	a.provision(n1, "manage", fsm.Manageable)
	a.must(404, "POST", "/v1/continue_inspection", report(nil)) // too early

	n := a.provision(n1, "inspect", fsm.InspectWait)
	if n["inspection_started_at"] == nil || n["inspection_finished_at"] != nil || n["power_state"] != fsm.PowerOn {
		t.Errorf("in inspect wait: %v", n)
	}
	a.must(202, "POST", "/v1/continue_inspection", report(nil))
	n = a.settled(n1, fsm.Manageable)
	if n["power_state"] != fsm.PowerOff || n["inspection_finished_at"] == nil || n["properties"].(map[string]any)["cpu_arch"] != "x86_64" {
		t.Errorf("after the inspection: %v", n)
	}
	eventually(t, func() bool { r, err := a.do("GET", n1+"/inventory", newest, nil); return err == nil && r.code == 200 },
		func() string { return "no inventory" })
	r := a.must(200, "GET", n1+"/inventory", nil)
	data := r.json["plugin_data"].(map[string]any)
	if _, ok := data["valid_interfaces"].(map[string]any)["eth0"]; !ok || len(data["all_interfaces"].(map[string]any)) != 2 {
		t.Errorf("plugin_data: %v", data)
	}
	ports := a.must(200, "GET", "/v1/ports?node="+u1, nil).json["ports"].([]any)
	if len(ports) != 1 || ports[0].(map[string]any)["address"] != mac {
		t.Errorf("ports: %v; only the booting NIC gets one, and it had one", ports)
	}

	// The next inspection fails: the record of the last one stays.
	a.provision(n1, "inspect", fsm.InspectWait)
	a.must(202, "POST", "/v1/continue_inspection", report(doc{"error": "disk on fire"}))
	n = a.settled(n1, fsm.InspectFail)
	if e, _ := n["last_error"].(string); !strings.HasSuffix(e, "Ramdisk reported error: disk on fire") {
		t.Errorf("last_error: %v", n["last_error"])
	}
	a.must(200, "GET", n1+"/inventory", nil)
	a.provision(n1, "inspect", fsm.InspectWait)
	if n = a.provision(n1, "abort", fsm.InspectFail); n["last_error"] != "Inspection was aborted by request." {
		t.Errorf("after abort: %v", brief(n))
	}
}

// A node can be manageable before its inventory is there; the lock tells.
func TestInventoryLag(t *testing.T) {
	o := quick()
	o.AutoInspect, o.InventoryLag = true, 1<<40
	a := start(t, o)
	path := a.node(doc{"inspect_interface": "agent"})
	a.provision(path, "manage", fsm.Manageable)
	a.must(202, "PUT", path+"/states/provision", doc{"target": "inspect"})
	n := a.until(path, "be manageable", func(n doc) bool { return n["provision_state"] == fsm.Manageable })
	if n["reservation"] == nil {
		t.Error("the lock must be held until the inventory is there")
	}
	a.must(404, "GET", path+"/inventory", nil)
}

func TestInspectWithoutRamdisk(t *testing.T) {
	o := quick()
	o.CallbackTimeout = 1
	a := start(t, o)
	a.sim.AddBMC("127.0.0.1:8000", "admin", "password").SetPower(fsm.PowerOn)

	path := a.node(redfish(8000, "password")) // out of band, from the BMC
	a.provision(path, "manage", fsm.Manageable)
	a.provision(path, "inspect", fsm.Manageable)
	a.must(200, "GET", path+"/inventory", nil)

	path = a.node(doc{"inspect_interface": "no-inspect"})
	a.provision(path, "manage", fsm.Manageable)
	r := a.must(400, "PUT", path+"/states/provision", doc{"target": "inspect"})
	if r.fault != "Driver fake-hardware does not support inspect (disabled or not implemented)." {
		t.Errorf("no-inspect: %q", r.fault)
	}

	path = a.node(doc{"inspect_interface": "agent"})
	a.provision(path, "manage", fsm.Manageable)
	if n := a.provision(path, "inspect", fsm.InspectFail); n["last_error"] != "timeout reached while inspecting the node" {
		t.Errorf("time-out: %v", brief(n))
	}
}
