// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// TestValidate: GET validate names what a deployment still lacks, one thing at a
// time, for each way of deploying.
func TestValidate(t *testing.T) {
	a := reference(t)
	node := doc{"driver": "ipmi", "driver_info": doc{"ipmi_address": "127.0.0.1", "ipmi_port": "9"}}
	a.fresh(u1, "conf-1", node)
	const (
		noPort     = "Node " + u1 + " does not have any port associated with it"
		noRamdisk  = "Cannot validate PXE bootloader. Some parameters were missing in node's driver_info and configuration. Missing are: ['deploy_kernel', 'deploy_ramdisk']"
		noImage    = "Node " + u1 + " failed to validate deploy image info. Some parameters were missing. Missing are: ['instance_info.image_source']"
		noChecksum = `image_source's "image_checksum", or "image_os_hash_algo" and "image_os_hash_value" must be provided in instance_info for node ` + u1
		noISO      = "Cannot validate image information for node " + u1 + " because one or more parameters are missing from its instance_info and insufficient information is present to boot from a remote volume. Missing are: ['kernel', 'ramdisk']"
	)
	set := func(path string, value any) func() {
		return func() {
			op := "add"
			if value == nil {
				op = "remove"
			}
			a.must(200, "PATCH", n1, []doc{{"op": op, "path": path, "value": value}})
		}
	}
	for _, step := range []struct {
		what         string
		do           func()
		boot, deploy string // why not; empty when all is well
	}{
		{"a new node", func() {}, noPort, noPort},
		{"a port", func() { a.must(201, "POST", "/v1/ports", doc{"node_uuid": u1, "address": mac}) }, noRamdisk, noRamdisk},
		{"a ramdisk", set("/driver_info", doc{"ipmi_address": "127.0.0.1", "deploy_kernel": "http://192.0.2.1/k", "deploy_ramdisk": "http://192.0.2.1/r"}), "", noImage},
		{"an image", set("/instance_info/image_source", "http://192.0.2.1/image"), "", noChecksum},
		{"a checksum", set("/instance_info/image_checksum", "http://192.0.2.1/image.sha256"), "", ""},
		{"half of another checksum", set("/instance_info/image_os_hash_algo", "sha512"), "", noChecksum},
		{"all of it", set("/instance_info/image_os_hash_value", "00"), "", ""},
		{"an image in a registry", set("/instance_info", doc{"image_source": "oci://192.0.2.1/image"}), "", ""},
		{"deployment by ISO", set("/deploy_interface", "ramdisk"), noISO, noISO},
		{"an ISO", set("/instance_info", doc{"boot_iso": "http://192.0.2.1/iso"}), "", ""},
		{"a custom procedure", set("/deploy_interface", "custom-agent"), "", ""},
		{"a custom procedure alone", set("/instance_info", doc{}), "", ""},
		{"the default again", set("/deploy_interface", nil), "", noImage},
	} {
		step.do()
		got := a.must(200, "GET", n1+"/validate", nil).json
		for name, want := range map[string]string{"boot": step.boot, "deploy": step.deploy} {
			result := got[name].(map[string]any)
			reason, _ := result["reason"].(string)
			if result["result"] != (want == "") || reason != want {
				t.Errorf("%s: %s is %v\nwant %q", step.what, name, result, want)
			}
		}
	}
}

// TestDeployByISO: a node that boots an ISO waits for no ramdisk, and cannot be
// adopted without its ISO, while one that boots from its disk can.
func TestDeployByISO(t *testing.T) {
	o := noSync()
	o.DefaultRamdisk = true
	a := start(t, o)
	bmc := a.sim.AddBMC("127.0.0.1:6230", "admin", "password")
	node := ipmi(6230, "password")
	node["automated_clean"] = false
	path := a.node(node)
	id := strings.TrimPrefix(path, "/v1/nodes/")
	a.must(201, "POST", "/v1/ports", doc{"node_uuid": id, "address": mac})
	a.provision(path, "manage", fsm.Manageable)
	a.provision(path, "adopt", fsm.Active)
	a.provision(path, "deleted", fsm.Available)

	set := doc{"deploy_interface": "ramdisk", "instance_info": doc{"boot_iso": "http://192.0.2.1/iso"}}
	if err := a.sim.SetNode(id, set); err != nil {
		t.Fatal(err)
	}
	a.provision(path, "active", fsm.Active)
	if bmc.Power() != fsm.PowerOn {
		t.Errorf("the machine is %s after its deployment", bmc.Power())
	}
	a.provision(path, "deleted", fsm.Available)
	a.provision(path, "manage", fsm.Manageable)
	n := a.provision(path, "adopt", fsm.AdoptFail)
	if text, _ := n["last_error"].(string); !strings.HasPrefix(text, "Error while attempting to adopt node "+id+": Cannot validate image information for node") {
		t.Errorf("adopted without an ISO: %v", brief(n))
	}
	if err := a.sim.SetNode(id, set); err != nil {
		t.Fatal(err)
	}
	a.provision(path, "adopt", fsm.Active)
	want := []string{"manage", "adopt", "deleted", "active", "deleted", "manage", "adopt", "adopt"}
	if diff := cmp.Diff(want, a.sim.ProvisionTargets(id)); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
}
