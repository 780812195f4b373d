// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// machine is a node with a Redfish BMC that boots a ramdisk.
func machine(t *testing.T, more doc, change func(*Options)) (a *api, path string, b *BMC) {
	t.Helper()
	o := noSync()
	o.AutoInspect, o.AutoDeploy, o.DefaultRamdisk = true, true, true
	if change != nil {
		change(&o)
	}
	a = start(t, o)
	b = a.sim.AddBMC("http://127.0.0.1:8000", "admin", "password")
	fields := doc{"driver": "redfish", "driver_info": doc{
		"redfish_address": "http://127.0.0.1:8000", "redfish_username": "admin", "redfish_password": "password", "has_dedicated_power_supply": true,
	}}
	maps.Copy(fields, more)
	path = a.node(fields)
	a.must(201, "POST", "/v1/ports", doc{"node_uuid": strings.TrimPrefix(path, "/v1/nodes/"), "address": "52:54:00:00:00:01"})
	a.provision(path, "manage", fsm.Manageable)
	return a, path, b
}

// deployed makes a node active.
func (a *api) deployed(path string) {
	a.t.Helper()
	a.provision(path, "provide", fsm.Available)
	a.must(200, "PATCH", path, []doc{{"op": "add", "path": "/instance_info", "value": doc{"image_source": "http://192.0.2.1/i", "image_checksum": "x"}}})
	a.provision(path, "active", fsm.Active)
}

func firmwareStep(component, url string) doc {
	return doc{"interface": "firmware", "step": "update", "args": doc{"settings": []doc{{"component": component, "url": url}}}}
}

func TestBIOSSettingsOfMachine(t *testing.T) {
	a, path, b := machine(t, nil, nil)
	registry := cmpopts.IgnoreMapEntries(func(key string, _ any) bool { return key == "created_at" || key == "updated_at" || key == "links" })
	settings := a.list(path+"/bios?detail=True", "bios", "name")
	want := doc{
		"name": "NumCores", "value": "16", "allowable_values": []any{}, "attribute_type": "Integer", "lower_bound": 1.0, "upper_bound": 64.0,
		"min_length": nil, "max_length": nil, "read_only": false, "reset_required": true, "unique": false,
	}
	if diff := cmp.Diff(want, settings["NumCores"], registry); diff != "" || len(settings) != len(bmcsim.BIOSAttributes) {
		t.Errorf("%d settings, NumCores (-want +got):\n%s", len(settings), diff)
	}

	// Ironic does not notice what another client changes until it cleans the next time.
	if err := b.SetBIOS("LogicalProc", "Disabled"); err != nil {
		t.Fatal(err)
	}
	if got := a.list(path+"/bios", "bios", "name")["LogicalProc"]["value"]; got != "Enabled" {
		t.Errorf("LogicalProc before a clean: %v", got)
	}
	n := a.cleaned(path, biosStep(doc{"NumCores": 8, "QuietBoot": false}))
	if n["power_state"] != fsm.PowerOff {
		t.Errorf("after a clean: %v", brief(n))
	}
	settings = a.list(path+"/bios", "bios", "name")
	for name, value := range map[string]any{"NumCores": "8", "QuietBoot": "0", "LogicalProc": "Disabled", "SetupPassword": nil, "BootMode": "Uefi"} {
		if got := settings[name]["value"]; got != value {
			t.Errorf("%s after a clean: %v, want %v", name, got, value)
		}
	}

	for _, value := range []any{"8", 65, true} {
		a.must(202, "PUT", path+"/states/provision", doc{"target": "clean", "clean_steps": []doc{biosStep(doc{"NumCores": value})}})
		n = a.settled(path, fsm.CleanFail)
		if text, _ := n["last_error"].(string); !strings.Contains(text, "BIOS attribute NumCores cannot be") || n["fault"] != "clean failure" {
			t.Errorf("NumCores %v: %v", value, brief(n))
		}
		a.must(202, "DELETE", path+"/maintenance", nil)
		a.provision(path, "manage", fsm.Manageable)
	}

	a.cleaned(path, steps("bios.factory_reset")...)
	if got := b.BIOS(); got["NumCores"] != 16 || got["QuietBoot"] != true {
		t.Errorf("after a factory reset: %v", got)
	}
}

func TestFirmwareOfMachine(t *testing.T) {
	a, path, b := machine(t, nil, nil)
	a.cleaned(path, firmwareStep("bios", "http://192.0.2.1/firmware/bios/2.18.0"))
	row := a.list(path+"/firmware", "firmware", "component")["bios"]
	if row["initial_version"] != "2.17.1" || row["current_version"] != "2.18.0" || row["last_version_flashed"] != "2.18.0" || b.Firmware()["bios"] != "2.18.0" {
		t.Errorf("firmware: %v, of the machine %v", row, b.Firmware())
	}
	a.must(202, "PUT", path+"/states/provision", doc{"target": "clean", "clean_steps": []doc{firmwareStep("nic:1", "http://192.0.2.1/1")}})
	if n := a.settled(path, fsm.CleanFail); n["fault"] != "clean failure" {
		t.Errorf("a component that there is not: %v", brief(n))
	}
}

func TestRAIDOfMachine(t *testing.T) {
	build := steps("raid.delete_configuration", "raid.create_configuration")
	volume := func(fields doc) doc {
		all := doc{"raid_level": "1", "size_gb": 100}
		maps.Copy(all, fields)
		return all
	}
	target := func(a *api, path string, disks ...doc) {
		t.Helper()
		a.must(204, "PUT", path+"/states/raid", doc{"logical_disks": disks})
	}
	built := func(a *api, path string) []any {
		t.Helper()
		disks, _ := a.get(path)["raid_config"].(map[string]any)["logical_disks"].([]any)
		return disks
	}
	t.Run("hardware", func(t *testing.T) {
		a, path, b := machine(t, doc{"raid_interface": "redfish"}, nil)
		target(a, path, volume(doc{"volume_name": "system"}), volume(nil))
		a.cleaned(path, build...)
		want := []any{
			doc{"id": "1", "name": "system", "controller": "RAID", "size_gb": 100.0, "raid_level": "1"},
			doc{"id": "2", "name": "Virtual disk 2", "controller": "RAID", "size_gb": 100.0, "raid_level": "1"},
		}
		if diff := cmp.Diff(want, built(a, path)); diff != "" || len(b.Volumes()) != 2 {
			t.Errorf("raid_config (-want +got):\n%s", diff)
		}
		a.cleaned(path, build[0])
		if len(b.Volumes()) != 0 || len(built(a, path)) != 0 {
			t.Errorf("after deletion: %v, raid_config %v", b.Volumes(), built(a, path))
		}
		target(a, path, volume(doc{"size_gb": "MAX"}))
		a.must(202, "PUT", path+"/states/provision", doc{"target": "clean", "clean_steps": build})
		n := a.settled(path, fsm.CleanFail)
		if text, _ := n["last_error"].(string); !strings.Contains(text, "'physical_disks' is missing from logical_disk") {
			t.Errorf("a volume of neither a size nor disks: %v", brief(n))
		}
	})
	t.Run("hardware, on disks that there are not", func(t *testing.T) {
		a, path, b := machine(t, doc{"raid_interface": "redfish"}, nil)
		target(a, path, volume(doc{"controller": "RAID", "physical_disks": []string{"Disk.Bay.4", "Disk.Bay.5"}}))
		a.cleaned(path, build...)
		target(a, path, volume(doc{"controller": "RAID", "physical_disks": []string{"Bay 4", "Bay 5"}}))
		a.must(202, "PUT", path+"/states/provision", doc{"target": "clean", "clean_steps": build})
		n := a.settled(path, fsm.CleanFail)
		if text, _ := n["last_error"].(string); !strings.HasSuffix(text, ": min() iterable argument is empty") || len(b.Volumes()) != 0 {
			t.Errorf("%v, and the machine has %v", brief(n), b.Volumes())
		}
	})
	t.Run("software", func(t *testing.T) {
		a, path, b := machine(t, doc{"raid_interface": "agent"}, nil)
		disk := volume(doc{"controller": "software", "is_root_volume": true})
		target(a, path, disk)
		a.cleaned(path, build[0], steps("deploy.erase_devices_metadata")[0], build[1])
		disk["size_gb"] = 100.0
		if diff := cmp.Diff([]any{disk}, built(a, path)); diff != "" || len(b.SoftwareRAID()) != 1 || len(b.Volumes()) != 0 {
			t.Errorf("raid_config (-want +got):\n%s", diff)
		}
		a.cleaned(path, build[0])
		if len(b.SoftwareRAID()) != 0 || len(a.get(path)["raid_config"].(map[string]any)) != 0 {
			t.Errorf("after deletion: %v", b.SoftwareRAID())
		}
	})
}

func TestServicingOfMachine(t *testing.T) {
	a, path, b := machine(t, nil, nil)
	a.deployed(path)
	writes := len(b.DiskWrites())
	service := doc{"target": "service", "service_steps": []doc{biosStep(doc{"LogicalProc": "Disabled"}), firmwareStep("bmc", "http://192.0.2.1/1.46.0")}}
	a.must(202, "PUT", path+"/states/provision", service)
	n := a.settled(path, fsm.Active)
	if b.BIOS()["LogicalProc"] != "Disabled" || b.Firmware()["bmc"] != "1.46.0" || n["power_state"] != fsm.PowerOn || len(b.DiskWrites()) != writes {
		t.Errorf("after servicing: %v %v %v", b.BIOS(), b.Firmware(), brief(n))
	}
	if got := a.list(path+"/bios", "bios", "name")["LogicalProc"]["value"]; got != "Disabled" {
		t.Errorf("Ironic's LogicalProc is %v", got)
	}

	id := strings.TrimPrefix(path, "/v1/nodes/")
	if err := a.sim.FailNext(id, "firmware.update", "the signature is wrong"); err != nil {
		t.Fatal(err)
	}
	a.must(202, "PUT", path+"/states/provision", service)
	n = a.settled(path, fsm.ServiceFail)
	if text, _ := n["last_error"].(string); !strings.HasSuffix(text, "the signature is wrong") || n["maintenance"] != true || n["fault"] != "service failure" {
		t.Errorf("a step that fails: %v", brief(n))
	}
	// A step that Ironic executes itself is a way out that changes nothing.
	a.must(202, "DELETE", path+"/maintenance", nil)
	a.must(202, "PUT", path+"/states/provision", doc{"target": "service", "service_steps": steps("power.power_on")})
	if n = a.settled(path, fsm.Active); n["power_state"] != fsm.PowerOn || b.BIOS()["LogicalProc"] != "Disabled" {
		t.Errorf("after a service that changes nothing: %v", brief(n))
	}
}

// Ironic 32 and later can abort a service.
func TestServiceAbort(t *testing.T) {
	a, path, b := machine(t, nil, func(o *Options) { o.MaxVersion = "1.115" })
	a.deployed(path)
	id := strings.TrimPrefix(path, "/v1/nodes/")
	service := doc{"target": "service", "service_steps": []doc{biosStep(doc{"LogicalProc": "Disabled"}), biosStep(doc{"NumCores": 2})}}
	if err := a.sim.FailNext(id, "service", "it is too hot"); err != nil {
		t.Fatal(err)
	}
	a.must(202, "PUT", path+"/states/provision", service)
	a.settled(path, fsm.ServiceFail)
	r := a.must(409, "PUT", path+"/states/provision", doc{"target": "abort"})
	if !strings.Contains(r.fault, "while it is in maintenance mode") {
		t.Errorf("abort in maintenance: %s", r.fault)
	}
	a.must(202, "DELETE", path+"/maintenance", nil)
	a.must(202, "PUT", path+"/states/provision", doc{"target": "abort"})
	if n := a.settled(path, fsm.Active); n["power_state"] != fsm.PowerOn {
		t.Errorf("after an abort: %v", brief(n))
	}

	// The first step is the BMC's and cannot be aborted: it ends, and the second one does not begin.
	if err := a.sim.HoldRamdisk(id); err != nil {
		t.Fatal(err)
	}
	a.must(202, "PUT", path+"/states/provision", service)
	n := a.settled(path, fsm.ServiceWait)
	if step := n["service_step"].(map[string]any); step["step"] != "apply_configuration" || b.BIOS()["LogicalProc"] != "Disabled" {
		t.Errorf("in the first step: %v", step)
	}
	a.must(202, "PUT", path+"/states/provision", doc{"target": "abort"})
	if err := a.sim.CallBack(id); err != nil {
		t.Fatal(err)
	}
	n = a.settled(path, fsm.Active)
	if text, _ := n["last_error"].(string); !strings.Contains(text, "By request, the service operation was aborted") || b.BIOS()["NumCores"] != 16 {
		t.Errorf("after an abort: %v, BIOS %v", brief(n), b.BIOS())
	}
}
