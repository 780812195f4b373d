// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// listed is what Ironic says of a machine with one setting of each type.
var listed = []ironic.BIOSSetting{
	{Name: "ProcTurboMode", Value: "Enabled", AttributeType: "Enumeration", AllowableValues: []ironic.Text{"Enabled", "Disabled"}, ReadOnly: ptr.To(false)},
	{Name: "BootDelay", Value: "10", AttributeType: "Integer", LowerBound: ptr.To(0), UpperBound: ptr.To(60)},
	{Name: "QuietBoot", Value: "True", AttributeType: "Boolean"},
	{Name: "NumLock", Value: "0", AttributeType: "Boolean"}, // as Ironic 29.0 has it
	{Name: "AssetTag", Value: "abc", AttributeType: "String", MinLength: ptr.To(1), MaxLength: ptr.To(8), Unique: ptr.To(true)},
	{Name: "SerialNumber", Value: "Q1", AttributeType: "String", ReadOnly: ptr.To(true)},
	{Name: "FanSpeed", Value: "50", AttributeType: "Integer", LowerBound: ptr.To(0), UpperBound: ptr.To(100), ReadOnly: ptr.To(true)},
	{Name: "Timestamp", Value: "0", AttributeType: "Integer"},
	{Name: "Untyped", Value: "1"},
	{Name: "AdminPassword", Value: "", AttributeType: "Password"},
	{Name: "SetupSecret", Value: "s", AttributeType: "Password"},
	{Name: "C7State", Value: "Enabled", AttributeType: "Enumeration"}, // whose values have no names in the registry
}

// firmwareOf is a HostFirmwareSettings that has read listed.
func firmwareOf(wanted metal3.DesiredSettingsMap) (*metal3.HostFirmwareSettings, *metal3.FirmwareSchema) {
	firmware := &metal3.HostFirmwareSettings{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "h", Generation: 3}, Spec: metal3.HostFirmwareSettingsSpec{Settings: wanted}}
	schema := SchemaOf(&metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "n"}}, listed)
	RecordBIOS(firmware, listed, schema, nil)
	return firmware, schema
}

func TestSchema(t *testing.T) {
	host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "n"}}
	host.Status.HardwareDetails = &metal3.HardwareDetails{SystemVendor: metal3.HardwareSystemVendor{Manufacturer: "ACME", ProductName: "R1"}}
	// Names of the Bare Metal Operator: of no settings, and of a list of which the text is known.
	if got := SchemaOf(host, nil).Name; got != "schema-4f53cda1" {
		t.Errorf("without settings, the name is %s", got)
	}
	schema := SchemaOf(host, listed)
	if schema.Spec.HardwareVendor != "ACME" || schema.Spec.HardwareModel != "R1" || schema.Namespace != "n" {
		t.Errorf("the schema is %+v", schema)
	}
	if _, has := schema.Spec.Schema["AdminPassword"]; has || len(schema.Spec.Schema) != 10 {
		t.Errorf("the schema has %v", schema.Spec.Schema)
	}
	same := append([]ironic.BIOSSetting{}, listed...)
	same[0], same[4] = same[4], same[0] // the order does not matter, nor do values
	same[0].Value, same[0].Unique = "xyz", nil
	if got := SchemaOf(host, same).Name; got != schema.Name {
		t.Errorf("%s and %s", got, schema.Name)
	}
	same[9].AttributeType = "" // but passwords do
	if got := SchemaOf(host, same).Name; got == schema.Name {
		t.Error("another list has the same name")
	}
}

// TestJudge has the conditions for each spec.
func TestJudge(t *testing.T) {
	number, word := intstr.FromInt32, intstr.FromString
	for name, tt := range map[string]struct {
		wanted metal3.DesiredSettingsMap
		want   string // ChangeDetected, Valid
		fault  string
	}{
		"nothing":                            {nil, "False True", ""},
		"as it is":                           {metal3.DesiredSettingsMap{"ProcTurboMode": word("Enabled"), "BootDelay": number(10), "QuietBoot": word("true")}, "False True", ""},
		"an integer as text":                 {metal3.DesiredSettingsMap{"BootDelay": word("10")}, "False True", ""},
		"changed":                            {metal3.DesiredSettingsMap{"ProcTurboMode": word("Disabled")}, "True True", ""},
		"boolean as it is":                   {metal3.DesiredSettingsMap{"NumLock": word("false"), "QuietBoot": word("True")}, "False True", ""},
		"boolean":                            {metal3.DesiredSettingsMap{"QuietBoot": word("false")}, "True True", ""},
		"untyped":                            {metal3.DesiredSettingsMap{"Untyped": word("anything")}, "True True", ""},
		"untyped, a number":                  {metal3.DesiredSettingsMap{"Untyped": number(1)}, "False True", ""},
		"password":                           {metal3.DesiredSettingsMap{"AdminPassword": word("x")}, "True False", "cannot set Password field"},
		"unknown":                            {metal3.DesiredSettingsMap{"NoSuch": word("x")}, "True False", "setting NoSuch is not in the Status field"},
		"read-only":                          {metal3.DesiredSettingsMap{"SerialNumber": word("x")}, "True False", "Setting SerialNumber is invalid, it is ReadOnly"},
		"no such value":                      {metal3.DesiredSettingsMap{"ProcTurboMode": word("x")}, "True False", "Setting ProcTurboMode is invalid, unknown enumeration value - x"},
		"read-only, as it is":                {metal3.DesiredSettingsMap{"SerialNumber": word("Q1"), "BootDelay": number(20)}, "True True", ""},
		"read-only, with others":             {metal3.DesiredSettingsMap{"SerialNumber": word("x"), "BootDelay": number(20)}, "True True", ""},
		"read-only, with others as they are": {metal3.DesiredSettingsMap{"SerialNumber": word("x"), "BootDelay": number(10)}, "True False", "Setting SerialNumber is invalid, it is ReadOnly"},
		"read-only, with a bad value":        {metal3.DesiredSettingsMap{"FanSpeed": number(101), "BootDelay": number(20)}, "True False", "Setting FanSpeed is invalid, integer 101 is above maximum value 100"},
		"a password by its type":             {metal3.DesiredSettingsMap{"SetupSecret": word("x")}, "True False", "setting SetupSecret is not in the Status field"},
		"hexadecimal":                        {metal3.DesiredSettingsMap{"BootDelay": word("0x10")}, "True False", "Setting BootDelay is invalid, String 0x10 entered while integer expected"},
		"a fraction":                         {metal3.DesiredSettingsMap{"BootDelay": word("1.5")}, "True False", "Setting BootDelay is invalid, String 1.5 entered while integer expected"},
		"empty, for an integer":              {metal3.DesiredSettingsMap{"BootDelay": word("")}, "True False", "Setting BootDelay is invalid, String  entered while integer expected"},
		"integer with spaces and a sign":     {metal3.DesiredSettingsMap{"BootDelay": word(" +10 ")}, "False True", ""},
		"beyond 32 bits":                     {metal3.DesiredSettingsMap{"BootDelay": word("4294967306")}, "True False", "Setting BootDelay is invalid, integer 4294967306 is above maximum value 60"},
		"beyond 32 bits, without bounds":     {metal3.DesiredSettingsMap{"Timestamp": word("4294967306")}, "True True", ""},
		"beyond 64 bits":                     {metal3.DesiredSettingsMap{"Timestamp": word("18446744073709551616")}, "True False", "Setting Timestamp is invalid, String 18446744073709551616 entered while integer expected"},
		"a number for a boolean":             {metal3.DesiredSettingsMap{"QuietBoot": number(1)}, "True False", "Setting QuietBoot is invalid, 1 is not a boolean"},
		"a number for another boolean":       {metal3.DesiredSettingsMap{"QuietBoot": number(0)}, "True False", "Setting QuietBoot is invalid, 0 is not a boolean"},
		"value with a space":                 {metal3.DesiredSettingsMap{"ProcTurboMode": word("Disabled ")}, "True False", "Setting ProcTurboMode is invalid, unknown enumeration value - Disabled "},
		"enumeration in lower case":          {metal3.DesiredSettingsMap{"ProcTurboMode": word("disabled")}, "True False", "Setting ProcTurboMode is invalid, unknown enumeration value - disabled"},
		"enumeration without values":         {metal3.DesiredSettingsMap{"C7State": word("Disabled")}, "True True", ""},
		"one without values, as it is":       {metal3.DesiredSettingsMap{"C7State": word("Enabled")}, "False True", ""},
		"no integer":                         {metal3.DesiredSettingsMap{"BootDelay": word("x")}, "True False", "Setting BootDelay is invalid, String x entered while integer expected"},
		"integer too small":                  {metal3.DesiredSettingsMap{"BootDelay": number(-1)}, "True False", "Setting BootDelay is invalid, integer -1 is below minimum value 0"},
		"integer too large":                  {metal3.DesiredSettingsMap{"BootDelay": number(61)}, "True False", "Setting BootDelay is invalid, integer 61 is above maximum value 60"},
		"string too short":                   {metal3.DesiredSettingsMap{"AssetTag": word("")}, "True False", "Setting AssetTag is invalid, string  length is below minimum length 1"},
		"string too long":                    {metal3.DesiredSettingsMap{"AssetTag": word("123456789")}, "True False", "Setting AssetTag is invalid, string 123456789 length is above maximum length 8"},
		"no boolean":                         {metal3.DesiredSettingsMap{"QuietBoot": word("yes")}, "True False", "Setting QuietBoot is invalid, yes is not a boolean"},
		"one of two is invalid":              {metal3.DesiredSettingsMap{"QuietBoot": word("false"), "BootDelay": word("x")}, "True False", "Setting BootDelay is invalid, String x entered while integer expected"},
	} {
		t.Run(name, func(t *testing.T) {
			firmware, schema := firmwareOf(tt.wanted)
			before := firmware.DeepCopy()
			began := metav1.NewTime(time.Unix(1000, 0))
			if !UpdateBIOSConditions(firmware, before, schema, began) {
				t.Error("nothing has changed")
			}
			detected, valid := meta.FindStatusCondition(firmware.Status.Conditions, ChangeDetectedCondition), meta.FindStatusCondition(firmware.Status.Conditions, ValidCondition)
			if got := string(detected.Status + " " + valid.Status); got != tt.want {
				t.Errorf("ChangeDetected and Valid are %s, not %s", got, tt.want)
			}
			if detected.ObservedGeneration != 3 || valid.ObservedGeneration != 3 || detected.Reason != "Success" {
				t.Errorf("conditions: %+v", firmware.Status.Conditions)
			}
			if tt.fault != "" && (valid.Message != "Invalid BIOS setting: "+tt.fault || valid.Reason != "ConfigurationError") {
				t.Errorf("%s: %q", valid.Reason, valid.Message)
			}
			// The machine is not touched for settings that are not valid, nor for none.
			m := Machine{Host: hostWith(redfish, nil, nil, nil), Firmware: firmware, Schema: schema}
			if differs := Differ(m); differs != (tt.want == "True True") {
				t.Errorf("it differs: %v", differs)
			}
			// Judged again, nothing changes.
			before = firmware.DeepCopy()
			if UpdateBIOSConditions(firmware, before, schema, metav1.Now()) {
				t.Errorf("it changes: %s", cmp.Diff(before, firmware))
			}
			// A new spec is judged, and transitions keep their time.
			firmware.Generation = 4
			if !UpdateBIOSConditions(firmware, before, schema, metav1.Now()) || !meta.FindStatusCondition(firmware.Status.Conditions, ValidCondition).LastTransitionTime.Equal(&began) {
				t.Errorf("conditions: %+v", firmware.Status.Conditions)
			}
		})
	}
}

// TestBIOSClean has what Ironic is asked for: by type, and only what differs.
func TestBIOSClean(t *testing.T) {
	firmware, schema := firmwareOf(metal3.DesiredSettingsMap{
		"ProcTurboMode": intstr.FromString("Disabled"), "BootDelay": intstr.FromString("20"), "QuietBoot": intstr.FromString("False"),
		"AssetTag": intstr.FromInt32(7), "Untyped": intstr.FromInt32(2),
	})
	m := Machine{Host: hostWith(redfish, nil, nil, nil), Firmware: firmware, Schema: schema}
	clean, err := NextClean(m)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(clean.Steps)
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"interface":"bios","step":"apply_configuration","args":{"settings":[{"name":"AssetTag","value":"7"},{"name":"BootDelay","value":20},{"name":"ProcTurboMode","value":"Disabled"},{"name":"QuietBoot","value":false},{"name":"Untyped","value":2}]}}]`
	if string(got) != want {
		t.Errorf("the steps are %s", got)
	}
	// RAID goes first, in the same clean.
	m.Host.Spec.RAID = layoutOf(mirror, nil)
	if clean, err = NextClean(m); err != nil || len(clean.Steps) != 3 || clean.Steps[2].Interface != "bios" {
		t.Errorf("the steps are %+v, %v", clean, err)
	}
	// With an old Ironic, it has a clean of its own.
	m.RAIDAlone = true
	if clean, err = NextClean(m); err != nil || len(clean.Steps) != 2 || clean.Steps[1].Interface != "raid" || clean.FirmwareSettings != nil {
		t.Errorf("the steps are %+v, %v", clean, err)
	}
	m.Host.Spec.RAID = nil
	if clean, err = NextClean(m); err != nil || len(clean.Steps) != 1 || clean.Steps[0].Interface != "bios" {
		t.Errorf("the steps are %+v, %v", clean, err)
	}
}

// TestBIOSNotTaken: a machine that does not take a value is not rebooted again and again.
func TestBIOSNotTaken(t *testing.T) {
	firmware, schema := firmwareOf(metal3.DesiredSettingsMap{"BootDelay": intstr.FromInt32(20)})
	m := Machine{Host: hostWith(redfish, nil, nil, nil), Firmware: firmware, Schema: schema}
	clean, err := NextClean(m)
	if err != nil {
		t.Fatal(err)
	}
	status := &m.Host.Status
	status.Record.Preparation = Request(clean, recordOf(manageable()), metav1.Time{})
	Observe(status, nil, cleaning(), metav1.Time{})
	Observe(status, nil, manageable(), metav1.Time{})
	if _, err := NextClean(m); err == nil || !strings.Contains(err.Error(), `BootDelay is "10", and not "20"`) {
		t.Errorf("not taken: %v", err)
	}
	m.Reported = true // after the back-off
	if clean, err := NextClean(m); err != nil || clean == nil {
		t.Errorf("tried again: %v, %v", clean, err)
	}
	m.Reported = false
	firmware.Spec.Settings["BootDelay"] = intstr.FromInt32(30)
	if clean, err := NextClean(m); err != nil || clean == nil {
		t.Errorf("another value: %v, %v", clean, err)
	}
	firmware.Spec.Settings["BootDelay"], firmware.Status.Settings["BootDelay"] = intstr.FromInt32(20), "20"
	if clean, err := NextClean(m); err != nil || clean != nil {
		t.Errorf("taken: %v, %v", clean, err)
	}
	Arrived(status, m)
	firmware.Status.Settings["BootDelay"] = "10" // somebody has changed it by hand
	if clean, err := NextClean(m); err != nil || clean == nil {
		t.Errorf("changed by hand: %v, %v", clean, err)
	}
}

// recordOf returns what an observation records of a node.
func recordOf(node *ironic.Node) *metal3.IronicStatus {
	return &metal3.IronicStatus{NodeUUID: node.UUID, StateChangedAt: stateChangedAt(node)}
}
