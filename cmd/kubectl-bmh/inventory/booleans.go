// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// errNoBool does not repeat the value: in a row that has slipped by a column, it is the password.
var errNoBool = errors.New("must be true or false")

// parseBool knows the words of YAML 1.1, which spreadsheets have, too.
func parseBool(value string) (bool, error) {
	switch value = strings.ToLower(value); value {
	case "y", "yes", "on":
		return true, nil
	case "n", "no", "off":
		return false, nil
	}
	is, err := strconv.ParseBool(value)
	if err != nil {
		return false, errNoBool
	}
	return is, nil
}

// withBooleans returns a node of a value of type t in which yes, off and the like are Booleans, as they are for kubectl, which reads
// YAML 1.1. They are only where the type has a Boolean. Elsewhere kubectl refuses them, and here they stay the text that they
// are: "on" can be a name. seen has the mappings and lists that have been looked at: aliases can make circles of them.
func withBooleans(node *yaml.Node, t reflect.Type, seen map[*yaml.Node]bool) *yaml.Node {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	value := resolved(node)
	switch {
	case seen[value]:
	case t.Kind() == reflect.Bool:
		// The decoder knows the words of YAML 1.1 if it has to make a Boolean of them. With quotes, they are text.
		var is bool
		if value.Kind == yaml.ScalarNode && value.Style == 0 && !isNull(value) && value.Decode(&is) == nil {
			return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(is), Line: node.Line, Column: node.Column}
		}
	case t.Kind() == reflect.Struct && isMap(value):
		seen[value] = true
		for i := 0; i+1 < len(value.Content); i += 2 {
			if field, found := jsonField(t, value.Content[i].Value); found {
				value.Content[i+1] = withBooleans(value.Content[i+1], field.Type, seen)
			}
		}
	case t.Kind() == reflect.Slice && isList(value):
		seen[value] = true
		for i, item := range value.Content {
			value.Content[i] = withBooleans(item, t.Elem(), seen)
		}
	}
	return node
}

// jsonField returns the field of a struct that has a name in JSON.
func jsonField(t reflect.Type, name string) (field reflect.StructField, found bool) {
	for _, field := range reflect.VisibleFields(t) {
		if tag, _, _ := strings.Cut(field.Tag.Get("json"), ","); tag == name && name != "" {
			return field, true
		}
	}
	return field, false
}
