// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

func TestValidateAnnotations(t *testing.T) {
	disabled := func(h *v1alpha1.BareMetalHost) { h.Spec.InspectionMode = "disabled" }
	path := func(key string) string { return "metadata.annotations[" + key + "]" }
	const (
		reboot  = "reboot.metal3.io"
		inspect = "inspect.metal3.io"
		details = "inspect.metal3.io/hardwaredetails"
		saved   = "baremetalhost.metal3.io/status"
		detach  = "baremetalhost.metal3.io/detached"
	)
	tests := map[string]struct {
		mutations []mutation
		want      []string
	}{
		"others are free":            {mutations: []mutation{annotation("example.org/reboot", "{"), annotation("rebooted.metal3.io", "{")}},
		"reboot":                     {mutations: []mutation{annotation(reboot, "")}},
		"reboot hard":                {mutations: []mutation{annotation(reboot+"/a", `{"mode":"hard","force":true}`)}},
		"reboot with an empty mode":  {mutations: []mutation{annotation(reboot+"/a", `{"mode":""}`)}},
		"reboot with a bad mode":     {mutations: []mutation{annotation(reboot+"/a", `{"mode":"warm"}`)}, want: []string{path(reboot+"/a") + `: unknown mode "warm": must be hard or soft`}},
		"reboot with bad JSON":       {mutations: []mutation{annotation(reboot, "true")}, want: []string{path(reboot) + `: must be empty or JSON such as {"mode":"hard"`}},
		"inspect again":              {mutations: []mutation{annotation(inspect, "")}},
		"inspect never":              {mutations: []mutation{annotation(inspect, "disabled")}},
		"inspect something else":     {mutations: []mutation{annotation(inspect, "now")}, want: []string{path(inspect) + ": must be empty (to inspect the host again) or disabled"}},
		"inspect never, twice":       {mutations: []mutation{annotation(inspect, "disabled"), disabled}},
		"inspect never, yet agent":   {mutations: []mutation{annotation(inspect, "disabled"), func(h *v1alpha1.BareMetalHost) { h.Spec.InspectionMode = "agent" }}, want: []string{path(inspect) + ": contradicts spec.inspectionMode agent"}},
		"details":                    {mutations: []mutation{disabled, annotation(details, `{"cpu":{"arch":"x86_64"}}`)}},
		"details, disabled by annot": {mutations: []mutation{annotation(inspect, "disabled"), annotation(details, `{}`)}},
		"details yet inspection":     {mutations: []mutation{annotation(details, `{}`)}, want: []string{path(details) + ": only with spec.inspectionMode disabled"}},
		"details with unknown field": {mutations: []mutation{disabled, annotation(details, `{"gpu":1}`)}, want: []string{path(details) + `: unknown field "gpu"`}},
		"details with bad JSON":      {mutations: []mutation{disabled, annotation(details, `{`)}, want: []string{path(details) + ": must be JSON in the format of status.hardware"}},
		"details that nothing has":   {mutations: []mutation{disabled, annotation(details, `{"storage":[{"name":"/dev/sda","type":"TAPE"}]}`)}, want: []string{path(details) + ".storage[0].type: "}},
		"status":                     {mutations: []mutation{annotation(saved, `{"operationalStatus":"servicing","errorType":"servicing error","provisioning":{"state":"provisioned","ID":"","image":{"url":""}}}`)}},
		"status with unknown field":  {mutations: []mutation{annotation(saved, `{"power":true}`)}, want: []string{path(saved) + `: unknown field "power"`}},
		"status with bad values": {
			mutations: []mutation{annotation(saved, `{"operationalStatus":"fine","errorType":"oops"}`)},
			want:      []string{path(saved) + `.operationalStatus: "OK"`, path(saved) + `.errorType: "detach error"`},
		},
		"status with bad JSON":    {mutations: []mutation{annotation(saved, strings.Repeat("é", 200))}, want: []string{path(saved) + ": é...\": must be JSON in the format of the status"}},
		"detached":                {mutations: []mutation{annotation(detach, "")}},
		"detached true":           {mutations: []mutation{annotation(detach, "true")}},
		"detached with arguments": {mutations: []mutation{annotation(detach, `{"deleteAction":"delay","force":true}`)}},
		"detached, bad arguments": {mutations: []mutation{annotation(detach, `{"deleteAction":"dealy"}`)}, want: []string{path(detach) + `: unknown deleteAction "dealy": must be delete or delay`}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			expect(t, ValidateBareMetalHost(newHost(test.mutations...)), test.want...)
		})
	}
}
