// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"strings"
	"testing"
	"time"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// What is put back is the database of before, while the machine keeps what was done to it.
func TestSnapshot(t *testing.T) {
	o := noSync()
	o.AutoDeploy, o.DefaultRamdisk, o.WithoutDefects, o.CallbackTimeout = true, true, true, 50*time.Millisecond
	a := start(t, o)
	bmc := a.sim.AddBMC("127.0.0.1:6230", "admin", "password")
	path := a.node(ipmi(6230, "password"))
	id := strings.TrimPrefix(path, "/v1/nodes/")
	a.must(201, "POST", "/v1/ports", doc{"address": "52:54:00:00:00:01", "node_uuid": id})
	a.provision(path, "manage", "manageable")
	manageable := a.sim.Snapshot()
	a.provision(path, "provide", "available")
	a.must(200, "PATCH", path, []doc{{"op": "add", "path": "/instance_info", "value": doc{"image_source": "http://192.0.2.1/i", "image_checksum": "x"}}})
	a.provision(path, "active", "active")
	cuts := bmc.PowerCuts()
	if writes := bmc.DiskWrites(); cuts == 0 || len(writes) != 2 || writes[0].Image != "" || writes[1].Image != "http://192.0.2.1/i" {
		t.Errorf("%d power cuts; written: %+v", cuts, writes)
	}

	a.sim.Restore(manageable)
	if state := a.get(path)["provision_state"]; state != "manageable" {
		t.Errorf("the node is %v", state)
	}
	a.must(409, "POST", "/v1/ports", doc{"address": "52:54:00:00:00:01", "node_uuid": id})
	if bmc.PowerCuts() != cuts || len(bmc.DiskWrites()) != 2 || bmc.Power() != fsm.PowerOn {
		t.Errorf("the machine is %s, with %d power cuts and %d writes", bmc.Power(), bmc.PowerCuts(), len(bmc.DiskWrites()))
	}

	// A node that waits for its ramdisk in the copy waits in vain.
	if err := a.sim.SetNode(id, map[string]any{"provision_state": "wait call-back", "target_provision_state": "active"}); err != nil {
		t.Fatal(err)
	}
	a.sim.Restore(a.sim.Snapshot())
	a.settled(path, "deploy failed")
}
