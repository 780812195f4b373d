// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

func steps(ids ...string) []doc {
	var all []doc
	for _, id := range ids {
		kind, name, _ := strings.Cut(id, ".")
		all = append(all, doc{"interface": kind, "step": name})
	}
	return all
}

func biosStep(settings doc) doc {
	var list []doc
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		list = append(list, doc{"name": name, "value": settings[name]})
	}
	return doc{"interface": "bios", "step": "apply_configuration", "args": doc{"settings": list}}
}

// cleaned runs a manual clean.
func (a *api) cleaned(path string, steps ...doc) doc {
	a.t.Helper()
	a.must(202, "PUT", path+"/states/provision", doc{"target": "clean", "clean_steps": steps})
	return a.settled(path, fsm.Manageable)
}

// list returns the rows of a list by a key.
func (a *api) list(path, name, key string) map[string]doc {
	a.t.Helper()
	rows, ok := a.must(200, "GET", path, nil).json[name].([]any)
	if !ok {
		a.t.Fatalf("GET %s has no list %s", path, name)
	}
	all := map[string]doc{}
	for _, row := range rows {
		r := row.(map[string]any)
		all[r[key].(string)] = r
	}
	return all
}

func TestBIOSSettings(t *testing.T) {
	a := reference(t)
	a.fresh(u1, "conf-1", nil)
	a.provision(n1, "manage", fsm.Manageable)
	if got := a.list(n1+"/bios", "bios", "name"); len(got) != 0 {
		t.Errorf("BIOS settings of a new node: %v", got)
	}
	a.cleaned(n1, biosStep(doc{"A": "x", "B": 8, "C": true}))
	settings := a.list(n1+"/bios", "bios", "name")
	for name, value := range map[string]any{"A": "x", "B": "8", "C": "1"} {
		s := settings[name]
		if s["value"] != value || s["created_at"] == nil || s["updated_at"] != nil {
			t.Errorf("setting %s: %v", name, s)
		}
		if diff := cmp.Diff([]string{"created_at", "links", "name", "updated_at", "value"}, slices.Sorted(maps.Keys(s))); diff != "" {
			t.Errorf("fields of setting %s (-want +got):\n%s", name, diff)
		}
	}
	detail := a.list(n1+"/bios?detail=True", "bios", "name")["B"]
	for _, key := range []string{"created_at", "links"} {
		delete(detail, key)
	}
	want := doc{
		"name": "B", "value": "8", "updated_at": nil, "allowable_values": []any{}, "attribute_type": nil, "lower_bound": nil, "upper_bound": nil,
		"min_length": nil, "max_length": nil, "read_only": nil, "reset_required": nil, "unique": nil,
	}
	if diff := cmp.Diff(want, detail); diff != "" {
		t.Errorf("detail (-want +got):\n%s", diff)
	}
	link := a.must(200, "GET", "/v1/nodes/conf-1/bios", nil).json["bios"].([]any)[0].(map[string]any)["links"].([]any)[0].(map[string]any)["href"].(string)
	if !strings.HasSuffix(link, "/v1/nodes/conf-1/bios/A") {
		t.Errorf("link: %s", link)
	}
	a.run([]exchange{
		{"GET", n1 + "/bios?detail=True&fields=name", "", nil, 400, "Can not specify ?detail=True and fields in the same request."},
		{"GET", "/v1/nodes/" + absent + "/bios", "", nil, 404, "Node " + absent + " could not be found."},
	})

	// The fake interface replaces all settings.
	a.cleaned(n1, biosStep(doc{"A": "y", "D": false}))
	settings = a.list(n1+"/bios", "bios", "name")
	if len(settings) != 2 || settings["A"]["value"] != "y" || settings["A"]["updated_at"] == nil || settings["D"]["value"] != "0" {
		t.Errorf("after a second step: %v", settings)
	}
	a.cleaned(n1, steps("bios.factory_reset")...)
	if got := a.list(n1+"/bios", "bios", "name"); len(got) != 0 {
		t.Errorf("after a factory reset: %v", got)
	}
}

func TestFirmwareList(t *testing.T) {
	a := reference(t)
	a.fresh(u1, "conf-1", nil)
	a.provision(n1, "manage", fsm.Manageable)
	update := doc{"interface": "firmware", "step": "update", "args": doc{"settings": []doc{{"component": "bios", "url": "http://192.0.2.1/f"}}}}
	a.cleaned(n1, update)
	if got := a.list(n1+"/firmware", "firmware", "component"); len(got) != 0 {
		t.Errorf("firmware with the fake interface: %v", got)
	}
	a.run([]exchange{
		{"GET", n1 + "/firmware", "1.85", nil, 404, ""},
		{"GET", n1 + "/firmware", "1.86", nil, 200, ""},
		{"GET", n1 + "/firmware?detail=True", "", nil, 200, ""},
		{"GET", n1 + "/firmware?detail=True&fields=component", "", nil, 400, "Can not specify ?detail=True and fields in the same request."},
	})
}

func TestRAIDConfig(t *testing.T) {
	a := reference(t)
	a.fresh(u1, "conf-1", nil)
	a.fresh(u2, "conf-2", doc{"raid_interface": "no-raid"})
	const invalid = "RAID config validation error: "
	put := func(config any, code int, fault string) exchange {
		return exchange{"PUT", n1 + "/states/raid", "", config, code, fault}
	}
	volume := func(fields doc) doc {
		all := doc{"raid_level": "1", "size_gb": 100}
		maps.Copy(all, fields)
		return all
	}
	disks := func(list ...doc) doc { return doc{"logical_disks": append([]doc{}, list...)} }
	a.run([]exchange{
		put(disks(), 400, invalid+"[] is too short"),
		put(doc{"disks": 1, "logical_disks": []doc{volume(nil)}}, 400, invalid+"Additional properties are not allowed ('disks' was unexpected)"),
		put(disks(doc{"size_gb": 1}), 400, invalid+"'raid_level' is a required property"),
		put(disks(doc{"raid_level": "1"}), 400, invalid+"'size_gb' is a required property"),
		put(disks(volume(doc{"raid_level": "7"})), 400, invalid+"'7' is not one of ['JBOD', '0', '1', '2', '5', '6', '1+0', '5+0', '6+0']"),
		put(disks(volume(doc{"size_gb": "all"})), 400, invalid+"'all' is not one of ['MAX']"),
		put(disks(volume(doc{"bogus": 1})), 400, invalid+"Additional properties are not allowed ('bogus' was unexpected)"),
		put(disks(volume(doc{"physical_disks": []string{"a", "b"}})), 400, invalid+"'controller' is a dependency of 'physical_disks'"),
		put(disks(volume(doc{"is_root_volume": true}), volume(doc{"is_root_volume": true})), 400,
			"Raid config cannot have more than one root volume. 2 root volumes were specified"),
		{"PUT", "/v1/nodes/" + u2 + "/states/raid", "", disks(volume(nil)), 404, "Driver fake-hardware does not support raid (disabled or not implemented)."},
		{"PUT", "/v1/nodes/" + u2 + "/states/raid", "", doc{}, 204, ""},
		put(disks(volume(doc{"size_gb": "MAX", "controller": "RAID", "physical_disks": []string{"a", "b"}}), volume(nil)), 204, ""),
	})
	n := a.get(n1)
	want := doc{"logical_disks": []any{
		doc{"raid_level": "1", "size_gb": "MAX", "controller": "RAID", "physical_disks": []any{"a", "b"}}, doc{"raid_level": "1", "size_gb": 100.0},
	}}
	if diff := cmp.Diff(want, n["target_raid_config"]); diff != "" {
		t.Errorf("target_raid_config (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(doc{}, n["raid_config"]); diff != "" {
		t.Errorf("raid_config (-want +got):\n%s", diff)
	}
	// The fake interface has no steps of cleaning.
	a.provision(n1, "manage", fsm.Manageable)
	a.must(202, "PUT", n1+"/states/provision", doc{"target": "clean", "clean_steps": steps("raid.delete_configuration")})
	n = a.settled(n1, fsm.CleanFail)
	text := "Cannot clean node " + u1 + ": node does not support this clean step: {'interface': 'raid', 'step': 'delete_configuration'}"
	if n["last_error"] != text || n["maintenance"] != false {
		t.Errorf("a step of RAID: %v", brief(n))
	}
	a.must(204, "PUT", n1+"/states/raid", doc{})
	if diff := cmp.Diff(doc{}, a.get(n1)["target_raid_config"]); diff != "" {
		t.Errorf("target_raid_config after {} (-want +got):\n%s", diff)
	}
}

func TestServicing(t *testing.T) {
	a := reference(t)
	a.fresh(u1, "conf-1", nil)
	service := func(state string, steps ...doc) doc {
		t.Helper()
		a.must(202, "PUT", n1+"/states/provision", doc{"target": "service", "service_steps": steps})
		return a.settled(n1, state)
	}
	a.provision(n1, "manage", fsm.Manageable)
	r := a.must(400, "PUT", n1+"/states/provision", doc{"target": "service", "service_steps": steps("vendor.log_passthrough")})
	if r.fault != `The requested action "service" can not be performed on node "`+u1+`" while it is in state "manageable".` {
		t.Errorf("service of a node that is manageable: %s", r.fault)
	}
	a.provision(n1, "adopt", fsm.Active)
	a.run([]exchange{
		{"PUT", n1 + "/states/provision", "1.86", doc{"target": "service", "service_steps": steps("vendor.log_passthrough")}, 406, "Request not acceptable."},
		{"PUT", n1 + "/states/provision", "", doc{"target": "service"}, 400, `"service_steps" is required when setting target provision state to service`},
		{"GET", n1 + "?fields=service_step", "1.86", nil, 406, "Request not acceptable."},
	})

	// The steps of cleaning are not those of service.
	n := service(fsm.ServiceFail, biosStep(doc{"A": "x"}))
	if text, _ := n["last_error"].(string); !strings.HasPrefix(text, "Cannot service node "+u1+": node does not support this service step: {") || n["maintenance"] != false {
		t.Errorf("a step that there is not: %v", brief(n))
	}
	refused := `The requested action "abort" can not be performed on node "` + u1 + `" while it is in state "service failed".`
	if r := a.must(400, "PUT", n1+"/states/provision", doc{"target": "abort"}); r.fault != refused {
		t.Errorf("abort of a service that has failed: %s", r.fault)
	}
	if n = service(fsm.Active, steps("vendor.log_passthrough", "vendor.log_passthrough")...); n["last_error"] != nil || n["target_provision_state"] != nil {
		t.Errorf("after a service: %v", brief(n))
	}

	// In the middle.
	n = service(fsm.ServiceWait, steps("vendor.log_passthrough", "vendor.trigger_servicewait")...)
	step, _ := n["service_step"].(map[string]any)
	info, _ := n["driver_internal_info"].(map[string]any)
	all, _ := info["service_steps"].([]any)
	if step["step"] != "trigger_servicewait" || step["interface"] != "vendor" || len(all) != 2 || info["service_step_index"] != 1.0 || n["target_provision_state"] != fsm.Active {
		t.Errorf("in the middle: step %v, %v of %v, %v", step, info["service_step_index"], all, brief(n))
	}
	a.must(202, "PUT", n1+"/states/provision", doc{"target": "abort"})
	n = a.settled(n1, fsm.ServiceFail)
	if n["last_error"] != nil || n["maintenance"] != false || n["fault"] != nil {
		t.Errorf("after an abort: %v", brief(n))
	}
	// A step that Ironic executes itself, whatever the interface, is a way out that needs nothing of the driver.
	if n = service(fsm.Active, steps("power.power_on")...); n["last_error"] != nil {
		t.Errorf("after a service that switches the machine on: %v", brief(n))
	}
}

// TestManualCleanProgress checks where a clean says what it does.
func TestManualCleanProgress(t *testing.T) {
	a := reference(t)
	a.fresh(u1, "conf-1", nil)
	a.provision(n1, "manage", fsm.Manageable)
	n := a.cleaned(n1, steps("bios.factory_reset", "vendor.log_passthrough")...)
	info, _ := n["driver_internal_info"].(map[string]any)
	_, index := info["clean_step_index"]
	if diff := cmp.Diff(doc{}, n["clean_step"]); diff != "" || info["clean_steps"] != nil || index {
		t.Errorf("after a clean: step %v, driver_internal_info %v", n["clean_step"], info)
	}
	a.must(202, "PUT", n1+"/states/provision", doc{"target": "clean", "clean_steps": append(steps("bios.factory_reset"), biosStep(nil), doc{
		"interface": "bios", "step": "apply_configuration", "args": doc{"settings": []doc{{"bad": 1}}},
	})})
	n = a.settled(n1, fsm.CleanFail)
	info, _ = n["driver_internal_info"].(map[string]any)
	all, _ := info["clean_steps"].([]any)
	_, index = info["clean_step_index"]
	if len(all) != 3 || index || len(n["clean_step"].(map[string]any)) != 0 {
		t.Errorf("after a clean that has failed: step %v, driver_internal_info %v", n["clean_step"], info)
	}
}
