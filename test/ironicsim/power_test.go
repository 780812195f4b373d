// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

func ipmi(port int, password string) doc {
	return doc{"driver": "ipmi", "driver_info": doc{"ipmi_address": "127.0.0.1", "ipmi_port": port, "ipmi_username": "admin", "ipmi_password": password}}
}

func redfish(port int, password string) doc {
	return doc{"driver": "redfish", "driver_info": doc{"redfish_address": fmt.Sprintf("http://127.0.0.1:%d", port), "redfish_username": "admin",
		"redfish_password": password, "redfish_system_id": "/redfish/v1/Systems/1"}}
}

// noSync are options under which the power state changes only when asked.
func noSync() Options {
	o := quick()
	o.PowerSyncInterval, o.PowerRecoveryInterval = -1, -1
	return o
}

func TestVerifyErrors(t *testing.T) {
	a := start(t, noSync())
	a.sim.AddBMC("127.0.0.1:6230", "admin", "password")
	a.sim.AddBMC("127.0.0.1:8000", "admin", "password")
	a.sim.AddBMC("127.0.0.1:6231", "admin", "password").SetDead(true)
	for name, tt := range map[string]struct {
		node doc
		want string // %s is the node's UUID
	}{
		"ipmi":                    {ipmi(6230, "password"), ""},
		"ipmi, wrong password":    {ipmi(6230, "nope"), "Failed to get power state for node %s. Error: IPMI call failed: power status."},
		"ipmi, dead":              {ipmi(6231, "password"), "Failed to get power state for node %s. Error: IPMI call failed: power status."},
		"ipmi, nothing there":     {ipmi(6299, "password"), "Failed to get power state for node %s. Error: IPMI call failed: power status."},
		"ipmi, no address":        {doc{"driver": "ipmi"}, "Failed to validate power driver interface for node %s. Error: Missing the following IPMI credentials in node's driver_info: ['ipmi_address']."},
		"redfish":                 {redfish(8000, "password"), ""},
		"redfish, wrong password": {redfish(8000, "nope"), "Failed to get power state for node %s. Error: Redfish exception occurred. Error: HTTP GET http://127.0.0.1:8000/redfish/v1/Systems/1 returned code 401. Base.1.0.GeneralError: Invalid username or password Extended information: None"},
		"redfish, no address":     {doc{"driver": "redfish"}, "Failed to validate power driver interface for node %[1]s. Error: Missing the following Redfish properties in node %[1]s driver_info: ['redfish_address']"},
	} {
		t.Run(name, func(t *testing.T) {
			path := a.node(tt.node)
			if tt.want == "" {
				if n := a.provision(path, "manage", fsm.Manageable); n["power_state"] != fsm.PowerOff || n["last_error"] != nil {
					t.Errorf("got %v", brief(n))
				}
				return
			}
			want := strings.ReplaceAll(strings.ReplaceAll(tt.want, "%[1]s", "%s"), "%s", strings.TrimPrefix(path, "/v1/nodes/"))
			a.must(202, "PUT", path+"/states/provision", doc{"target": "manage"})
			n := a.until(path, "fail", func(n doc) bool { return n["last_error"] != nil && n["reservation"] == nil })
			if n["provision_state"] != fsm.Enroll || n["last_error"] != want {
				t.Errorf("got %v\nwant last_error %q", brief(n), want)
			}
		})
	}
	path := a.node(redfish(9, "password"))
	a.must(202, "PUT", path+"/states/provision", doc{"target": "manage"})
	n := a.until(path, "fail", func(n doc) bool { return n["last_error"] != nil })
	if e := n["last_error"].(string); !strings.Contains(e, "Unable to connect to http://127.0.0.1:9/redfish/v1/. Error: HTTPConnectionPool(host='127.0.0.1', port=9)") {
		t.Errorf("dead redfish: %q", e)
	}
}

func TestPowerActions(t *testing.T) {
	a := start(t, noSync())
	bmc := a.sim.AddBMC("127.0.0.1:6230", "admin", "password")
	path := a.node(ipmi(6230, "password"))
	a.provision(path, "manage", fsm.Manageable)
	for _, tt := range []struct{ target, want string }{
		{fsm.PowerOn, fsm.PowerOn}, {fsm.PowerOn, fsm.PowerOn}, {fsm.SoftPowerOff, fsm.PowerOff}, {fsm.Reboot, fsm.PowerOn}, {fsm.SoftReboot, fsm.PowerOn}, {fsm.PowerOff, fsm.PowerOff},
	} {
		if n := a.power(path, tt.target); n["power_state"] != tt.want || n["last_error"] != nil || n["target_power_state"] != nil || bmc.Power() != tt.want {
			t.Errorf("%s: %v, machine is %q", tt.target, brief(n), bmc.Power())
		}
	}

	a.power(path, fsm.PowerOn)
	bmc.SetNoSoftPower(true)
	if n := a.power(path, fsm.SoftPowerOff); n["last_error"] != "Failed to change power state to 'power off' by 'soft power off': Failed to set node power state to power off." || n["power_state"] != fsm.PowerOn {
		t.Errorf("soft power off without an operating system: %v", brief(n))
	}
	bmc.SetDead(true)
	if n := a.power(path, fsm.PowerOff); n["last_error"] != "Failed to change power state to 'power off': IPMI call failed: power status." {
		t.Errorf("dead: %v", brief(n))
	}
	if r := a.must(500, "GET", path+"/management/boot_device", nil); r.fault != "IPMI call failed: chassis bootparam get 5." {
		t.Errorf("boot device of a dead BMC: %q", r.fault)
	}
	bmc.SetDead(false)
	a.must(204, "PUT", path+"/management/boot_device", doc{"boot_device": "disk", "persistent": true})
	if r := a.must(200, "GET", path+"/management/boot_device", nil); r.json["boot_device"] != "disk" || r.json["persistent"] != true {
		t.Errorf("boot device: %s", r.raw)
	}
}

func TestPowerRefusals(t *testing.T) {
	o := noSync()
	o.NoSoftPowerOff = []string{"ipmi"}
	a := start(t, o)
	a.sim.AddBMC("127.0.0.1:6230", "admin", "password")
	path := a.node(ipmi(6230, "password"))
	if r := a.must(400, "PUT", path+"/states/power", doc{"target": fsm.SoftPowerOff}); r.fault != "The driver ipmi does not support the power state, soft power off" {
		t.Errorf("soft power off: %q", r.fault)
	}
	if n := a.get(path); n["reservation"] != nil {
		t.Errorf("a refusal must give the lock back: %v", brief(n))
	}
	path = a.node(doc{"disable_power_off": true})
	if r := a.must(409, "PUT", path+"/states/power", doc{"target": fsm.PowerOff}); r.fault != "Failed to set node power state to power off." {
		t.Errorf("disable_power_off: %q", r.fault)
	}
	if err := a.sim.SetNode(path[len("/v1/nodes/"):], doc{"provision_state": fsm.CleanWait}); err != nil {
		t.Fatal(err)
	}
	r := a.must(400, "PUT", path+"/states/power", doc{"target": fsm.PowerOn})
	if !strings.HasSuffix(r.fault, `while it is in state "clean wait".`) {
		t.Errorf("power while cleaning: %q", r.fault)
	}
}

func TestPowerSync(t *testing.T) {
	a := start(t, quick())
	bmc := a.sim.AddBMC("127.0.0.1:6230", "admin", "password")
	path := a.node(ipmi(6230, "password"))
	id := strings.TrimPrefix(path, "/v1/nodes/")
	a.provision(path, "manage", fsm.Manageable)

	bmc.SetPower(fsm.PowerOn) // somebody presses the button
	a.until(path, "follow the machine", func(n doc) bool { return n["power_state"] == fsm.PowerOn })

	bmc.SetDead(true)
	n := a.until(path, "notice the dead BMC", func(n doc) bool { return n["maintenance"] == true })
	want := "During sync_power_state, max retries exceeded for node " + id + ", node state None does not match expected state 'power on'. Updating DB state to 'None' Switching node to maintenance mode. Error: IPMI call failed: power status."
	if n["power_state"] != nil || n["fault"] != fsm.FaultPower || n["last_error"] != want || n["maintenance_reason"] != want {
		t.Errorf("after the failure: %v\nwant %q", n, want)
	}

	bmc.SetDead(false)
	n = a.until(path, "recover", func(n doc) bool { return n["maintenance"] == false })
	if n["power_state"] != fsm.PowerOn || n["fault"] != nil || n["maintenance_reason"] != nil || n["last_error"] != want {
		t.Errorf("after the recovery only last_error stays: %v", n)
	}

	a.must(202, "PUT", path+"/maintenance", doc{"reason": "mine"})
	bmc.SetPower(fsm.PowerOff)
	rounds := time.Now().Add(5 * quick().PowerSyncInterval)
	eventually(t, func() bool { return time.Now().After(rounds) }, func() string { return "time stands still" })
	if n = a.get(path); n["power_state"] != fsm.PowerOn || n["maintenance"] != true {
		t.Errorf("a node in maintenance is left alone: %v", brief(n))
	}
}

// Since 32.0, Ironic forgets a power action that has failed when it finds the state as it was.
func TestPowerSyncForgets(t *testing.T) {
	o := quick()
	o.MaxVersion = "1.101"
	a := start(t, o)
	bmc := a.sim.AddBMC("127.0.0.1:6230", "admin", "password")
	path := a.node(ipmi(6230, "password"))
	a.provision(path, "manage", fsm.Manageable)
	bmc.SetDead(true)
	a.until(path, "notice the dead BMC", func(n doc) bool { return n["maintenance"] == true && n["last_error"] != nil })
	bmc.SetDead(false)
	a.until(path, "forget it", func(n doc) bool { return n["maintenance"] == false && n["last_error"] == nil })
}
