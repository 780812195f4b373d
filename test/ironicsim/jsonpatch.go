// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// patchOp is one operation of a JSON patch as Ironic takes it: there is no test
// (so no compare-and-swap), no move and no copy.
type patchOp struct {
	op, path string
	value    any
	hasValue bool
	raw      map[string]any // for error messages
}

var patchPath = regexp.MustCompile(`^(/[\w-]+)+$`)

func parsePatch(body any) ([]patchOp, error) {
	list, ok := body.([]any)
	if !ok {
		return nil, badRequest("Schema error for patch: %s is not of type 'array'", pyRepr(body, true))
	}
	var ops []patchOp
	for _, item := range list {
		m, ok := item.(map[string]any)
		if !ok {
			return nil, badRequest("Schema error for patch: %s is not of type 'object'", pyRepr(item, true))
		}
		for _, k := range []string{"op", "path"} {
			if _, ok := m[k]; !ok {
				return nil, badRequest("Schema error for patch: '%s' is a required property", k)
			}
		}
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if k != "op" && k != "path" && k != "value" {
				return nil, badRequest("Schema error for patch: Additional properties are not allowed ('%s' was unexpected)", k)
			}
		}
		p := patchOp{raw: m}
		p.path, ok = m["path"].(string)
		if !ok {
			return nil, badRequest("Schema error for patch: %s is not of type 'string'", pyRepr(m["path"], true))
		}
		if !patchPath.MatchString(p.path) {
			return nil, badRequest(`Schema error for patch: %s does not match '^(/[\\w-]+)+$'`, pyRepr(p.path, true))
		}
		p.op, _ = m["op"].(string)
		if !slices.Contains([]string{"add", "replace", "remove"}, p.op) {
			return nil, badRequest("Schema error for patch: %s is not one of ['add', 'replace', 'remove']", pyRepr(m["op"], true))
		}
		p.value, p.hasValue = m["value"]
		ops = append(ops, p)
	}
	return ops, nil
}

// root is the field that the operation is about.
func (p patchOp) root() string { return strings.Split(p.path, "/")[1] }

// patchValues are the values that a patch gives to a path.
func patchValues(ops []patchOp, path string) []any {
	var values []any
	for _, p := range ops {
		if p.path == path && p.op != "remove" {
			values = append(values, p.value)
		}
	}
	return values
}

// applyPatch changes doc, whose values it copies before it changes them.
func applyPatch(doc map[string]any, ops []patchOp) error {
	for _, p := range ops {
		if p.op == "add" && strings.Count(p.path, "/") == 1 {
			if _, ok := doc[p.root()]; !ok {
				return badRequest("Adding a new attribute (%s) to the root of the resource is not allowed", p.path)
			}
		}
	}
	for _, p := range ops {
		if err := p.apply(doc, strings.Split(p.path, "/")[1:]); err != nil {
			return badRequest("Couldn't apply patch '%s'. Reason: %v", pyRepr(p.raw, true), err)
		}
	}
	return nil
}

// apply does the operation at the path below target. What is below that is copied before it is changed.
func (p patchOp) apply(target map[string]any, path []string) error {
	key, last := path[0], len(path) == 1
	if last && p.op != "remove" && !p.hasValue {
		return pythonError("The operation does not contain a 'value' member")
	}
	child, ok := target[key]
	switch {
	case !last && !ok:
		return pythonError("member '%s' not found in %s", key, pyRepr(target, true))
	case !last:
		below, isObject := child.(map[string]any)
		if !isObject { // nobody patches a list
			return pythonError("unable to apply the operation to %s", pyRepr(child, true))
		}
		below = maps.Clone(below)
		target[key] = below
		return p.apply(below, path[1:])
	case !ok && p.op != "add":
		return pythonError("can't %s a non-existent object '%s'", p.op, key)
	case p.op == "remove":
		delete(target, key)
	default:
		target[key] = p.value
	}
	return nil
}
