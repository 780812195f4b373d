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
	for name, test := range map[string]struct {
		steps []v1alpha1.CleanStep
		want  []string
	}{
		"none":                        {nil, []string{"spec.steps"}},
		"one":                         {[]v1alpha1.CleanStep{erase}, nil},
		"with arguments":              {[]v1alpha1.CleanStep{erase, step("management", "update_firmware", `{"firmware_images":[{"url":"http://192.0.2.1/x"}]}`)}, nil},
		"factory reset of the BIOS":   {[]v1alpha1.CleanStep{step("bios", "factory_reset", "")}, nil},
		"too many":                    {many, []string{"spec.steps"}},
		"no interface and no name":    {[]v1alpha1.CleanStep{{}}, []string{"spec.steps[0].interface", "spec.steps[0].step"}},
		"no such interface":           {[]v1alpha1.CleanStep{erase, step("disk", "erase", "")}, []string{"spec.steps[1].interface"}},
		"a long name":                 {[]v1alpha1.CleanStep{step("deploy", strings.Repeat("x", 300), "")}, []string{"spec.steps[0].step"}},
		"what spec.raid is for":       {[]v1alpha1.CleanStep{step("raid", "delete_configuration", "")}, []string{"spec.steps[0].step"}},
		"what settings are for":       {[]v1alpha1.CleanStep{step("bios", "apply_configuration", "")}, []string{"spec.steps[0].step"}},
		"what components are for":     {[]v1alpha1.CleanStep{step("firmware", "update", "")}, []string{"spec.steps[0].step"}},
		"arguments that are a list":   {[]v1alpha1.CleanStep{step("deploy", "erase_devices", `["a"]`)}, []string{"spec.steps[0].args"}},
		"many arguments":              {[]v1alpha1.CleanStep{step("deploy", "erase_devices", `{"a":"`+strings.Repeat("x", maxCleanArgs)+`"}`)}, []string{"spec.steps[0].args"}},
		"a password in an argument":   {[]v1alpha1.CleanStep{step("management", "update_firmware", `{"firmware_images":[{"url":"http://me:secret@192.0.2.1/x"}]}`)}, []string{"spec.steps[0].args"}},
		"an argument like a password": {[]v1alpha1.CleanStep{step("deploy", "erase_devices", `{"a":"me:secret@192.0.2.1"}`)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, ValidateHostClean(&v1alpha1.HostClean{Spec: v1alpha1.HostCleanSpec{Steps: test.steps}}), test.want...)
		})
	}
}
