// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// TestDesiredSettings has what the value of a BIOS setting can be in a request, and what it is taken for.
func TestDesiredSettings(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	word := func(text string) *intstr.IntOrString { return ptr.To(intstr.FromString(text)) }
	for _, c := range []struct {
		value string
		want  *intstr.IntOrString
		err   string
	}{
		{`"Enabled"`, word("Enabled"), ""},
		{`""`, word(""), ""},
		{`" a "`, word(" a "), ""},
		{`"null"`, word("null"), ""},
		{`"false"`, word("false"), ""},
		{`"0x10"`, word("0x10"), ""},
		{`"4294967296"`, word("4294967296"), ""},
		{`0`, ptr.To(intstr.FromInt32(0)), ""},
		{`-1`, ptr.To(intstr.FromInt32(-1)), ""},
		{`2147483647`, ptr.To(intstr.FromInt32(2147483647)), ""},
		{`2147483648`, nil, `spec.settings[Name]: must be text or an integer of at most 32 bits: write 2147483648 as text, "2147483648"`},
		{`4294967296`, nil, `write 4294967296 as text`},
		{`1.5`, nil, `write 1.5 as text`},
		{`1e2`, nil, `write 1e2 as text`},
		{`false`, nil, `spec.settings[Name]: must be text or an integer of at most 32 bits: write false as text, "false"; without quotes, Off and No are false as well: if one of them is meant, write "Off" or "No"`},
		{`true`, nil, `write true as text, "true"; without quotes, On and Yes are true as well: if one of them is meant, write "On" or "Yes"`},
		{`null`, nil, `spec.settings[Name]: must be text or an integer, not null: leave the setting out`},
		{`["a"]`, nil, `spec.settings[Name]: must be text or an integer`},
		{`{}`, nil, `spec.settings[Name]: must be text or an integer`},
		{`1,"Name":2`, nil, `duplicate field "Name"`},
	} {
		obj, _, err := decoder.Decode([]byte(`{"apiVersion":"metal3.io/v1alpha1","kind":"HostFirmwareSettings","spec":{"settings":{"Name":`+c.value+`}}}`), nil, nil)
		switch {
		case c.want == nil && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: %v, want %q", c.value, err, c.err)
		case c.want != nil && err != nil:
			t.Errorf("%s: %v", c.value, err)
		case c.want != nil && obj.(*HostFirmwareSettings).Spec.Settings["Name"] != *c.want:
			t.Errorf("%s is taken for %+v", c.value, obj.(*HostFirmwareSettings).Spec.Settings)
		}
	}
	for text, want := range map[string]bool{`null`: true, `{}`: false} {
		var settings DesiredSettingsMap
		if err := settings.UnmarshalJSON([]byte(text)); err != nil || (settings == nil) != want {
			t.Errorf("%s: %v, %v", text, settings, err)
		}
	}
}
