package ironicsim

import (
	"net/http"
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

func TestAutoInspect(t *testing.T) {
	o := quick()
	o.AutoInspect = true
	a := start(t, o)
	a.sim.AddBMC("127.0.0.1:6230", "admin", "password")
	path := a.node(ipmi(6230, "password"))
	a.must(201, "POST", "/v1/ports", doc{"node_uuid": strings.TrimPrefix(path, "/v1/nodes/"), "address": mac})
	a.provision(path, "manage", fsm.Manageable)
	a.provision(path, "inspect", fsm.Manageable)
	inventory := a.must(200, "GET", path+"/inventory", nil).json["inventory"].(map[string]any)
	if nic := inventory["interfaces"].([]any)[0].(map[string]any); nic["mac_address"] != mac {
		t.Errorf("the simulated ramdisk reports %v, not the port's MAC address", nic)
	}
	for _, k := range []string{"cpu", "disks", "memory", "system_vendor", "hostname", "bmc_address"} {
		if inventory[k] == nil {
			t.Errorf("inventory without %s", k)
		}
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

// TestRamdiskCleaningAndDeployment takes a node with the direct deploy interface
// through its life, the ramdisk simulated.
func TestRamdiskCleaningAndDeployment(t *testing.T) {
	o := noSync()
	o.AutoDeploy = true
	a := start(t, o)
	bmc := a.sim.AddBMC("127.0.0.1:6230", "admin", "password")
	node := ipmi(6230, "password")
	path := a.node(node)
	id := strings.TrimPrefix(path, "/v1/nodes/")
	a.provision(path, "manage", fsm.Manageable)
	n := a.provision(path, "provide", fsm.CleanFail)
	want := "Failed to prepare node " + id + " for cleaning: Cannot validate PXE bootloader. Some parameters were missing in node's driver_info and configuration. Missing are: ['deploy_kernel', 'deploy_ramdisk']"
	if n["last_error"] != want {
		t.Errorf("cleaning without a ramdisk: %v", n["last_error"])
	}
	info := node["driver_info"].(doc)
	info["deploy_kernel"], info["deploy_ramdisk"] = "http://192.0.2.1/kernel", "http://192.0.2.1/ramdisk"
	if err := a.sim.SetNode(id, doc{"driver_info": info, "instance_info": doc{"image_source": "http://192.0.2.1/image", "image_checksum": "http://192.0.2.1/image.sha256"}}); err != nil {
		t.Fatal(err)
	}
	a.must(201, "POST", "/v1/ports", doc{"node_uuid": id, "address": mac})
	a.provision(path, "manage", fsm.Manageable)
	a.provision(path, "provide", fsm.Available)
	if n = a.provision(path, "active", fsm.Active); n["power_state"] != fsm.PowerOn || bmc.Power() != fsm.PowerOn {
		t.Errorf("a deployed machine runs: %v, %q", brief(n), bmc.Power())
	}
	if n = a.provision(path, "deleted", fsm.Available); len(n["instance_info"].(map[string]any)) != 0 {
		t.Errorf("deleted clears instance_info: %v", n["instance_info"])
	}
	r := a.must(http.StatusBadRequest, "PUT", path+"/states/provision", doc{"target": "active"})
	if !strings.HasSuffix(r.fault, "Missing are: ['instance_info.image_source']") {
		t.Errorf("deployment without an image: %q", r.fault)
	}
}
