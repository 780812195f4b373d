// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
	kjson "sigs.k8s.io/json"
)

// UnmarshalJSON decodes BIOS settings. It refuses values that are neither text nor integers with the name of the setting, and null,
// which the type of the values takes for the integer 0.
func (m *DesiredSettingsMap) UnmarshalJSON(text []byte) error {
	var values map[string]json.RawMessage
	// A decoder does not look for duplicates in what decodes itself.
	duplicates, err := kjson.UnmarshalStrict(text, &values, kjson.DisallowDuplicateFields)
	switch {
	case err != nil:
		return &wrongTypeError{"spec.settings", "must have the settings by name"}
	case len(duplicates) > 0:
		return fmt.Errorf("spec.settings: %w", duplicates[0])
	case values == nil:
		*m = nil
		return nil
	}
	settings := DesiredSettingsMap{}
	for name, value := range values {
		var setting intstr.IntOrString
		if err := setting.UnmarshalJSON(value); err != nil || string(value) == "null" {
			return &wrongTypeError{"spec.settings[" + name + "]", refusalOf(string(value))}
		}
		settings[name] = setting
	}
	*m = settings
	return nil
}

// wrongTypeError is about a value of a type that its field cannot have.
// +k8s:openapi-gen=false
type wrongTypeError struct{ field, message string }

func (e *wrongTypeError) Error() string { return e.field + ": " + e.message }

// Unwrap returns the error of a JSON decoder for the same fault.
func (e *wrongTypeError) Unwrap() error { return &json.UnmarshalTypeError{Field: e.field} }

// refusalOf says what to write instead of a JSON value that is neither text nor an integer of 32 bits.
func refusalOf(value string) string {
	const accepted = "must be text or an integer"
	switch {
	case value == "null":
		return accepted + ", not null: leave the setting out if it is not to be changed"
	case len(value) > 100 || strings.ContainsAny(value, `"{[`):
		return accepted
	}
	// true, false, or a number.
	refusal := fmt.Sprintf("%s of at most 32 bits: write %s as text, %q", accepted, value, value)
	switch value { // YAML 1.1, which kubectl reads, has other words for both
	case "true":
		refusal += `; without quotes, On and Yes are true as well: if one of them is meant, write "On" or "Yes"`
	case "false":
		refusal += `; without quotes, Off and No are false as well: if one of them is meant, write "Off" or "No"`
	}
	return refusal
}
