// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"encoding/json"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"
)

// property is one member of a JSON schema: the types that it may have, and what
// Ironic checks after the schema.
type property struct {
	name      string
	types     []string
	maxLength int
	// uuid and boolean members must look like one; a boolean may be text.
	uuid, boolean bool
}

var (
	typeText   = []string{"string", "null"}
	typeBool   = []string{"string", "boolean", "null"}
	typeObject = []string{"object", "null"}
)

// nodeSchema is what POST /v1/nodes takes, as far as the server and its tests go.
var nodeSchema = func() []property {
	ps := []property{{name: "driver", types: []string{"string"}}}
	for _, n := range []string{"automated_clean", "console_enabled", "disable_power_off", "maintenance", "retired", "secure_boot"} {
		ps = append(ps, property{name: n, types: typeBool, boolean: n != "secure_boot"})
	}
	for _, n := range []string{"chassis_uuid", "instance_uuid", "uuid"} {
		ps = append(ps, property{name: n, types: typeText, uuid: true})
	}
	for _, n := range []string{"driver_info", "extra", "instance_info", "properties", "network_data"} {
		ps = append(ps, property{name: n, types: typeObject})
	}
	for _, n := range []string{"boot_mode", "conductor_group", "lessee", "name", "owner", "retired_reason", "shard"} {
		ps = append(ps, property{name: n, types: typeText})
	}
	for _, kind := range interfaceKinds {
		ps = append(ps, property{name: kind + "_interface", types: typeText})
	}
	return append(ps,
		property{name: "description", types: typeText, maxLength: 4096},
		property{name: "parent_node", types: typeText, maxLength: 36},
		property{name: "resource_class", types: typeText, maxLength: 80})
}()

// nodePatchSchema is what a node must be after a PATCH.
var nodePatchSchema = append(slices.Clip(nodeSchema),
	property{name: "protected", types: typeBool, boolean: true}, property{name: "protected_reason", types: typeText})

// checkSchema validates an object against properties and turns what stands for a
// boolean into one. Its messages are those of Python's jsonschema.
func checkSchema(what string, v any, props []property, required ...string) (map[string]any, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil, badRequest("Schema error for %s: %s is not of type 'object'", what, pyRepr(v, true))
	}
	for _, r := range required {
		if _, ok := m[r]; !ok {
			return nil, badRequest("Schema error for %s: '%s' is a required property", what, r)
		}
	}
	var unexpected []string
	for k := range m {
		if !slices.ContainsFunc(props, func(p property) bool { return p.name == k }) {
			unexpected = append(unexpected, pyRepr(k, true))
		}
	}
	if len(unexpected) > 0 {
		sort.Strings(unexpected)
		verb := "was"
		if len(unexpected) > 1 {
			verb = "were"
		}
		return nil, badRequest("Schema error for %s: Additional properties are not allowed (%s %s unexpected)", what, strings.Join(unexpected, ", "), verb)
	}
	for _, p := range props {
		v, ok := m[p.name]
		if !ok {
			continue
		}
		if !slices.Contains(p.types, jsonType(v)) {
			return nil, badRequest("Schema error for %s: %s is not of type '%s'", what, pyRepr(v, true), strings.Join(p.types, "', '"))
		}
		if s, ok := v.(string); ok && p.maxLength > 0 && utf8.RuneCountInString(s) > p.maxLength {
			return nil, badRequest("Schema error for %s: %s is too long", what, pyRepr(v, true))
		}
	}
	for _, p := range props {
		v, ok := m[p.name]
		if !ok || v == nil {
			continue
		}
		if s, _ := v.(string); p.uuid && !isUUID(s) {
			return nil, badRequest("Expected UUID for %s: %s", p.name, s)
		}
		if p.boolean {
			b, err := boolValue(p.name, v)
			if err != nil {
				return nil, err
			}
			m[p.name] = *b
		}
	}
	return m, nil
}

func jsonType(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case bool:
		return "boolean"
	case json.Number, float64, int:
		return "number"
	case []any:
		return "array"
	}
	return "object"
}
