// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// TestLocks checks which calls a locked node blocks, and which it refuses.
func TestLocks(t *testing.T) { synctest.Test(t, testLocks) }

func testLocks(t *testing.T) {
	o := quick()
	a := startInBubble(t, o)
	blocked := time.Duration(2) * o.LockRetryInterval
	path := a.node(nil)
	id := strings.TrimPrefix(path, "/v1/nodes/")
	port := a.must(201, "POST", "/v1/ports", doc{"node_uuid": id, "address": "52:54:00:00:00:01"}).json["uuid"].(string)
	if err := a.sim.LockNode(id, ""); err != nil {
		t.Fatal(err)
	}
	locked := fmt.Sprintf("Node %s is locked by host conductor-0, please retry after the current operation is completed.", id)
	for _, tt := range []struct {
		method, path string
		body         any
		code         int
		blocks       bool
	}{
		{"PUT", path + "/states/power", doc{"target": fsm.PowerOn}, 409, true},
		{"PUT", path + "/states/provision", doc{"target": "manage"}, 409, true},
		{"PUT", path + "/states/provision", doc{"target": "provide"}, 409, false}, // not valid in enroll
		{"PUT", path + "/states/power", doc{"target": "bogus"}, 400, false},
		{"PUT", path + "/maintenance", doc{}, 409, true},
		{"DELETE", path + "/maintenance", nil, 409, true},
		{"PATCH", path, []doc{{"op": "add", "path": "/extra/a", "value": 1}}, 409, true},
		{"DELETE", path, nil, 409, true},
		{"GET", path + "/management/boot_device", nil, 409, true},
		{"PUT", path + "/management/boot_device", doc{"boot_device": "pxe"}, 409, true},
		{"PATCH", "/v1/ports/" + port, []doc{{"op": "add", "path": "/extra/a", "value": 1}}, 409, true},
		{"GET", path + "/management/boot_device/supported", nil, 200, false},
		{"GET", path + "/validate", nil, 200, false},
		{"GET", path, nil, 200, false},
		{"GET", path + "/inventory", nil, 404, false},
		{"GET", path + "/history", nil, 200, false},
		{"GET", path + "/bios", nil, 200, false},
		{"POST", "/v1/ports", doc{"node_uuid": id, "address": "52:54:00:00:00:02"}, 201, false},
	} {
		begin := time.Now()
		r := a.must(tt.code, tt.method, tt.path, tt.body)
		took := time.Since(begin)
		if (took >= blocked) != tt.blocks {
			t.Errorf("%s %s took %v; want it to block: %v", tt.method, tt.path, took, tt.blocks)
		}
		if tt.code == 409 && r.fault != locked {
			t.Errorf("%s %s: %q", tt.method, tt.path, r.fault)
		}
	}
}

// A call that blocks on a lock succeeds when the lock goes away in time.
func TestLockReleasedInTime(t *testing.T) {
	o := quick()
	o.LockRetryInterval = 200 * time.Millisecond
	a := start(t, o)
	path := a.node(nil)
	id := strings.TrimPrefix(path, "/v1/nodes/")
	if err := a.sim.LockNode(id, "conductor-7"); err != nil {
		t.Fatal(err)
	}
	done := make(chan *answer)
	go func() {
		r, _ := a.do("PUT", path+"/maintenance", newest, doc{})
		done <- r
	}()
	eventually(t, func() bool { return a.sim.Stats().Count("PUT /v1/nodes/{node}/maintenance") == 1 }, func() string { return "no request" })
	if err := a.sim.UnlockNode(id); err != nil {
		t.Fatal(err)
	}
	if r := <-done; r == nil || r.code != 202 {
		t.Errorf("got %+v, want 202", r)
	}
}

// Locks move updated_at, reads and idle power syncs do not.
func TestUpdatedAt(t *testing.T) {
	a := start(t, quick())
	path := a.node(nil)
	if got := a.get(path)["updated_at"]; got != nil {
		t.Errorf("updated_at of a new node is %v, want null", got)
	}
	a.power(path, fsm.PowerOn)
	before := a.get(path)["updated_at"]
	a.must(200, "GET", path+"/validate", nil)
	rounds := time.Now().Add(5 * quick().PowerSyncInterval)
	eventually(t, func() bool { return time.Now().After(rounds) }, func() string { return "time stands still" })
	if after := a.get(path)["updated_at"]; after != before {
		t.Errorf("updated_at moved from %v to %v without a change", before, after)
	}
	a.must(200, "GET", path+"/management/boot_device", nil)
	if after := a.get(path)["updated_at"]; after == before {
		t.Error("GET boot_device takes the lock and must move updated_at")
	}
}

func TestNoFreeWorker(t *testing.T) {
	o := quick()
	o.Workers, o.Delays = 1, All(time.Hour)
	a := start(t, o)
	first, second := a.node(nil), a.node(nil)
	a.must(202, "PUT", first+"/states/provision", doc{"target": "manage"})
	r := a.must(503, "PUT", second+"/states/provision", doc{"target": "manage"})
	if r.fault != "Requested action cannot be performed due to lack of free conductor workers." {
		t.Errorf("got %q", r.fault)
	}
	n := a.get(second)
	if n["provision_state"] != fsm.Enroll || n["reservation"] != nil || n["last_error"] != "No free conductor workers available" {
		t.Errorf("after the refusal: %v", brief(n))
	}
	a.must(503, "PUT", second+"/states/power", doc{"target": fsm.PowerOn})
	if n = a.get(second); n["target_power_state"] != nil || n["reservation"] != nil {
		t.Errorf("after the refusal: %v", brief(n))
	}
}

func TestKilledConductor(t *testing.T) {
	o := quick()
	o.Delays.Deploy = time.Hour
	a := start(t, o)
	deploying, waiting := a.node(nil), a.node(doc{"inspect_interface": "agent"})
	a.provision(deploying, "manage", fsm.Manageable)
	a.provision(deploying, "provide", fsm.Available)
	a.must(202, "PUT", deploying+"/states/provision", doc{"target": "active"})
	a.provision(waiting, "manage", fsm.Manageable)
	a.provision(waiting, "inspect", fsm.InspectWait)

	a.sim.KillConductor()
	if n := a.get(deploying); n["provision_state"] != fsm.Deploying || n["reservation"] != "conductor-0" {
		t.Errorf("with a dead conductor: %v", brief(n))
	}
	r := a.must(500, "PUT", waiting+"/states/power", doc{"target": fsm.PowerOn})
	if !strings.HasPrefix(r.fault, "Unable to establish connection to http://127.0.0.1:8089") {
		t.Errorf("write with a dead conductor: %q", r.fault)
	}
	a.must(500, "POST", "/v1/nodes", doc{"driver": "fake-hardware"})

	a.sim.RestartConductor()
	n := a.get(deploying)
	want := "The deploying state can't be resumed by conductor conductor-0. Moving to fail state."
	if n["provision_state"] != fsm.DeployFail || n["reservation"] != nil || n["last_error"] != want {
		t.Errorf("after the restart: %v", brief(n))
	}
	if n := a.get(waiting); n["provision_state"] != fsm.InspectWait {
		t.Errorf("a wait state must survive: %v", brief(n))
	}
	a.provision(waiting, "abort", fsm.InspectFail)
}

// TestRestartFailsSome: a conductor that starts fails no more than eight nodes in each state, and says of a power action that it has broken it
// off. That is so in all releases of Ironic.
func TestRestartFailsSome(t *testing.T) {
	o := quick()
	o.Delays.Deploy, o.Delays.Power = time.Hour, time.Hour
	a := start(t, o)
	available := func() string {
		node := a.node(nil)
		a.provision(node, "manage", fsm.Manageable)
		a.provision(node, "provide", fsm.Available)
		return node
	}
	for range 10 {
		a.must(202, "PUT", available()+"/states/provision", doc{"target": "active"})
	}
	switched := available()
	a.must(202, "PUT", switched+"/states/power", doc{"target": fsm.PowerOn})
	a.sim.KillConductor()
	a.sim.RestartConductor()
	states := map[any]int{}
	for _, id := range a.sim.NodeUUIDs() {
		states[a.get("/v1/nodes/" + id)["provision_state"]]++
	}
	if states[fsm.DeployFail] != 8 || states[fsm.Deploying] != 2 {
		t.Errorf("after the restart: %v", states)
	}
	if n := a.get(switched); n["last_error"] != "Pending power operation was aborted due to conductor restart" || n["target_power_state"] != nil {
		t.Errorf("the node that was being switched: %v", brief(n))
	}
}
