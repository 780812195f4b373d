// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

func TestValidateHostClean(t *testing.T) {
	step := func(iface, name, args string) v1alpha1.CleanStep {
		step := v1alpha1.CleanStep{Interface: iface, Step: name}
		if args != "" {
			step.Args = &runtime.RawExtension{Raw: []byte(args)}
		}
		return step
	}
	erase := step("deploy", "erase_devices", "")
	many := make([]v1alpha1.CleanStep, maxCleanSteps+1)
	for i := range many {
		many[i] = erase
	}
	const name, args, unknown = "spec.steps[0].step", "spec.steps[0].args", ": is not known to be harmless; use one of deploy.burnin_cpu, "
	type steps = []v1alpha1.CleanStep
	for title, test := range map[string]struct {
		steps steps
		more  []string
		want  []string
	}{
		"none": {want: []string{"spec.steps"}},
		"one":  {steps: steps{erase}},
		"all that are harmless": {steps: steps{
			erase, step("deploy", "erase_devices_metadata", ""), step("deploy", "erase_devices_express", ""), step("deploy", "erase_pstore", ""),
			step("deploy", "burnin_cpu", ""), step("deploy", "burnin_memory", ""), step("management", "clear_job_queue", ""),
		}},
		"too many":                 {steps: many, want: []string{"spec.steps"}},
		"no interface and no name": {steps: steps{{}}, want: []string{"spec.steps[0].interface", name}},
		"no such interface":        {steps: steps{erase, step("disk", "erase", "")}, want: []string{"spec.steps[1].interface"}},
		"a long name":              {steps: steps{step("deploy", strings.Repeat("x", 300), "")}, want: []string{name}},

		"firmware":                             {steps: steps{step("management", "update_firmware", "")}, want: []string{name + unknown}},
		"factory reset of the BIOS":            {steps: steps{step("bios", "factory_reset", "")}, want: []string{name + unknown}},
		"reset of the BMC":                     {steps: steps{step("management", "reset_idrac", ""), step("management", "known_good_state", "")}, want: []string{name + unknown, "spec.steps[1].step" + unknown}},
		"a harmless step of another interface": {steps: steps{step("vendor", "erase_devices", "")}, want: []string{name + unknown}},
		"another case":                         {steps: steps{step("deploy", "Erase_Devices", "")}, want: []string{name + unknown}},
		"a step within a name":                 {steps: steps{step("management", "x,deploy.erase_devices", "")}, want: []string{name + unknown}},
		"what is allowed in addition": {
			steps: steps{step("management", "update_firmware", `{"firmware_images":[{"url":"http://192.0.2.1/x"}]}`), step("bios", "factory_reset", ""), step("management", "reset_idrac", "")},
			more:  []string{"management.update_firmware", "bios.factory_reset"},
			want:  []string{"spec.steps[2].step: is not known to be harmless; use one of bios.factory_reset, "},
		},

		"what spec.raid is for":   {steps: steps{step("raid", "delete_configuration", "")}, want: []string{name + ": set spec.raid of the host"}},
		"what settings are for":   {steps: steps{step("bios", "apply_configuration", "")}, want: []string{name + ": HostFirmwareSettings"}},
		"what components are for": {steps: steps{step("firmware", "update", "")}, want: []string{name + ": HostFirmwareComponents"}},

		"arguments":                     {steps: steps{step("deploy", "erase_devices", `{"passes":3,"on":["/dev/sda","a",null],"from":"https://a/b","sum":"sha256:00"}`)}},
		"arguments that are a list":     {steps: steps{step("deploy", "erase_devices", `["a"]`)}, want: []string{args}},
		"many arguments":                {steps: steps{step("deploy", "erase_devices", `{"a":"`+strings.Repeat("x", maxCleanArgs)+`"}`)}, want: []string{args}},
		"deep arguments":                {steps: steps{step("deploy", "erase_devices", `{"a":`+strings.Repeat("[", 100)+strings.Repeat("]", 100)+`}`)}, want: []string{args + ".a" + strings.Repeat("[0]", maxCleanNesting-1) + ": nested"}},
		"a password in an argument":     {steps: steps{step("deploy", "erase_devices", `{"firmware_images":[{"url":"http://me:secret@192.0.2.1/x"}]}`)}, want: []string{args + ".firmware_images[0].url: user name or password"}},
		"a file in an argument":         {steps: steps{step("deploy", "erase_devices", `{"a":{"b":["file:/x"]}}`)}, want: []string{args + ".a.b[0]: http, https, oci"}},
		"a file as the name of a field": {steps: steps{step("deploy", "erase_devices", `{"file:///x":1}`)}, want: []string{args + ": as the name of a field"}},
		"an argument like a password":   {steps: steps{step("deploy", "erase_devices", `{"a":"me:secret@192.0.2.1"}`)}, want: []string{args + `.a: "***@192.0.2.1"`}},
	} {
		t.Run(title, func(t *testing.T) {
			allowed, err := AllowCleanSteps(test.more)
			if err != nil {
				t.Fatal(err)
			}
			expect(t, ValidateHostClean(&v1alpha1.HostClean{Spec: v1alpha1.HostCleanSpec{Steps: test.steps}}, allowed), test.want...)
		})
	}
}

func TestAllowCleanSteps(t *testing.T) {
	for bad, says := range map[string]string{
		"": "INTERFACE.STEP", "erase_devices": "INTERFACE.STEP", "disk.erase": "INTERFACE.STEP", "deploy.": "INTERFACE.STEP", "deploy.*": "INTERFACE.STEP", "deploy.a.b": "INTERFACE.STEP",
		"raid.delete_configuration": "spec.raid", "firmware.update": "HostFirmwareComponents", "bios.apply_configuration": "HostFirmwareSettings",
	} {
		if _, err := AllowCleanSteps([]string{"vendor.good", bad}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want an error with %q", bad, err, says)
		}
	}
}
