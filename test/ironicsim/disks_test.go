// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// What writes to disks is accounted for, and nothing else is.
func TestDiskWrites(t *testing.T) {
	o := noSync()
	o.AutoInspect, o.AutoDeploy, o.DefaultRamdisk, o.WithoutDefects = true, true, true, true
	a := start(t, o)
	a.sim.AddBMC("127.0.0.1:6230", "admin", "password")
	fields := ipmi(6230, "password")
	fields["raid_interface"] = "agent"
	path := a.node(fields)
	id := strings.TrimPrefix(path, "/v1/nodes/")
	began := time.Now()
	expect := func(want ...string) {
		t.Helper()
		var got []string
		for _, w := range a.sim.DiskWrites(id) {
			got = append(got, w.Step+" while "+w.State)
			if w.At.Before(began) || w.At.After(time.Now()) {
				t.Errorf("%s at %v", w.Step, w.At)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("written to disks: %q, want %q", got, want)
		}
	}
	a.provision(path, "manage", "manageable")
	a.provision(path, "inspect", "manageable")
	expect()
	a.provision(path, "provide", "available")
	want := []string{"deploy.erase_devices_metadata while cleaning"}
	expect(want...)
	a.must(200, "PATCH", path, []doc{{"op": "add", "path": "/instance_info", "value": doc{"image_source": "http://192.0.2.1/i", "image_checksum": "x"}}})
	a.provision(path, "active", "active")
	want = append(want, "deploy.write_image while deploying")
	expect(want...)
	a.must(200, "PATCH", path, []doc{{"op": "add", "path": "/automated_clean", "value": false}})
	a.provision(path, "deleted", "available")
	expect(want...)
	a.provision(path, "manage", "manageable")
	a.must(202, "PUT", path+"/states/provision", doc{"target": "clean", "clean_steps": []doc{{"interface": "raid", "step": "delete_configuration"}}})
	a.settled(path, "manageable")
	expect(append(want, "raid.delete_configuration while cleaning")...)
	if err := a.sim.LoseNode(id); err != nil {
		t.Fatal(err)
	}
	if got := a.sim.DiskWrites(id); len(got) != 3 {
		t.Errorf("after the node was lost: %v", got)
	}
}
