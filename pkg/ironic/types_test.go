// SPDX-License-Identifier: Apache-2.0

package ironic

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIsAnothers(t *testing.T) {
	for name, want := range map[string]bool{"": false, "host-0": false, "other": false, "metal~host-0": false, "metal~host-1": true, "other~host-0": true} {
		if got := (&Node{Name: name}).IsAnothers("metal", "host-0"); got != want {
			t.Errorf("node %q: %t, want %t", name, got, want)
		}
	}
}

// How far an operation is comes from a field that is no documented interface: whatever is in it,
// the node is readable.
func TestInternals(t *testing.T) {
	for _, test := range []struct {
		info string
		want Internals
	}{
		{`{"clean_steps": [{"step": "a"}, {"step": "b"}, {"step": "c"}], "clean_step_index": 1}`, Internals{Clean: StepPosition{2, 3}}},
		{`{"service_steps": [{}], "service_step_index": 0}`, Internals{Service: StepPosition{1, 1}}},
		// The number of the steps of a deployment is known when the ramdisk has answered.
		{`{"deploy_steps": [{}], "deploy_step_index": 0}`, Internals{Deploy: StepPosition{1, 0}}},
		{`{"deploy_steps": [{}, {}, {}, {}, {}, {}], "deploy_step_index": 0, "steps_validated": true}`, Internals{Deploy: StepPosition{1, 6}}},
		// Before the first step, after the last one, and after a failure.
		{`{"clean_steps": [{}, {}]}`, Internals{Clean: StepPosition{0, 2}}},
		{`{"clean_steps": null, "clean_step_index": null}`, Internals{}},
		{`{"redfish_fw_updates": [{"component": "bios", "task_monitor": "/redfish/v1/TaskService/Tasks/1"}]}`, Internals{HasFirmwareUpdates: true}},
		{`{"redfish_fw_updates": []}`, Internals{}},
		{`{}`, Internals{}},
		// Ironic's answer to those who may not read it, and what it never sends.
		{`"** Redacted - Requires baremetal:node:get:driver_internal_info permission. **"`, Internals{}},
		{`null`, Internals{}},
		{`[]`, Internals{}},
		{`{"clean_steps": "three", "clean_step_index": "second"}`, Internals{}},
		{`{"clean_steps": [{}], "clean_step_index": 7}`, Internals{}},
		{`{"clean_steps": [{}], "clean_step_index": -1}`, Internals{Clean: StepPosition{0, 1}}},
		{`{"clean_step_index": 99999999999999}`, Internals{}},
		{`{"deploy_steps": [{}], "steps_validated": "yes"}`, Internals{}},
	} {
		node := Node{}
		if err := json.Unmarshal([]byte(`{"uuid": "a", "driver_internal_info": `+test.info+`}`), &node); err != nil {
			t.Errorf("%s: %v", test.info, err)
		}
		if diff := cmp.Diff(test.want, node.Internals); diff != "" || node.UUID != "a" {
			t.Errorf("%s (-want +got):\n%s", test.info, diff)
		}
	}
}

// The levels of volumes are those that Ironic reports; whatever else is in the field, the node is readable.
func TestVolumeLevels(t *testing.T) {
	for config, want := range map[string]VolumeLevels{
		`{"logical_disks": [{"id": "1", "name": "a", "controller": "RAID", "size_gb": 100, "raid_level": "1"}, {"raid_level": "5+0"}], "last_updated": "x"}`: "1 5+0",
		`{"logical_disks": [{"raid_level": "1", "size_gb": "MAX", "controller": "software"}]}`:                                                               "1",
		`{"logical_disks": [{}, {"raid_level": "10"}, {"raid_level": 1}, 3, null, {"raid_level": "1"}]}`:                                                     "? ? ? ? ? 1",
		`{"logical_disks": []}`: "",
		`{}`:                    "",
		`null`:                  "",
		`"1 1"`:                 "",
	} {
		node := Node{}
		if err := json.Unmarshal([]byte(`{"uuid": "a", "raid_config": `+config+`}`), &node); err != nil || node.UUID != "a" || node.RAIDVolumes != want {
			t.Errorf("%s: %q, %v", config, node.RAIDVolumes, err)
		}
	}
}
