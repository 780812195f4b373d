// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
)

// resolved returns what an alias stands for. An alias of an alias cannot be written in YAML.
func resolved(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode && node.Alias != nil {
		return node.Alias
	}
	return node
}

// expandMerges replaces the merge keys of YAML 1.1 (<<: *defaults) by the keys of the mappings that they name, as kubectl does. The
// mapping of an anchor comes before its aliases, so that its own are replaced already.
func expandMerges(node *yaml.Node) {
	for _, content := range node.Content {
		expandMerges(content)
	}
	if node.Kind != yaml.MappingNode || !slices.ContainsFunc(node.Content, isMerge) {
		return
	}
	has := map[string]bool{}
	var content, merged []*yaml.Node
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		from := mergedMaps(value)
		if !isMerge(key) || from == nil {
			has[key.Value] = true
			content = append(content, key, value)
		}
		if isMerge(key) {
			merged = append(merged, from...)
		}
	}
	for _, from := range merged { // of several, the first counts
		for i := 0; i+1 < len(from.Content); i += 2 {
			if key := from.Content[i]; !has[key.Value] && !isMerge(key) {
				has[key.Value] = true
				content = append(content, key, aliasOf(from.Content[i+1]))
			}
		}
	}
	node.Content = content
}

// aliasOf returns an alias of a node: of those, the decoder notices how many there are, and circles.
func aliasOf(node *yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.AliasNode, Alias: resolved(node), Line: node.Line, Column: node.Column}
}

// isMerge reports whether a node is a merge key. In a place that is no key, it means nothing.
func isMerge(key *yaml.Node) bool { return key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge" }

// mergedMaps returns the mappings that the value of a merge key names, or nil if it is none.
func mergedMaps(value *yaml.Node) []*yaml.Node {
	value = resolved(value)
	switch {
	case isMap(value):
		return []*yaml.Node{value}
	case isList(value):
		var all []*yaml.Node
		for _, item := range value.Content {
			if item = resolved(item); !isMap(item) {
				return nil
			}
			all = append(all, item)
		}
		return all
	}
	return nil
}

// child returns the value of a key, or nil. A path has several keys.
func child(node *yaml.Node, path ...string) *yaml.Node {
	for _, key := range path {
		if node == nil || node.Kind != yaml.MappingNode {
			return nil
		}
		var found *yaml.Node
		for i := 0; i+1 < len(node.Content) && found == nil; i += 2 {
			if node.Content[i].Value == key {
				found = resolved(node.Content[i+1])
			}
		}
		node = found
	}
	return node
}

// wordAt returns the value of a key if it is a single one. It is for telling formats apart.
func wordAt(node *yaml.Node, path ...string) string {
	if found := child(node, path...); found != nil && found.Kind == yaml.ScalarNode {
		return found.Value
	}
	return ""
}

// isList and isMap report what kind of node it is, which may be nil.
func isList(node *yaml.Node) bool { return node != nil && node.Kind == yaml.SequenceNode }
func isMap(node *yaml.Node) bool  { return node != nil && node.Kind == yaml.MappingNode }

func isNull(node *yaml.Node) bool {
	return node == nil || node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null"
}

// scalar returns a single value as it is written: 0123 is a password, and not a number.
func scalar(node *yaml.Node) (string, error) {
	switch {
	case isNull(node):
		return "", nil
	case node.Kind != yaml.ScalarNode:
		return "", errors.New("must be a single value")
	case !strings.HasPrefix(node.Tag, "!!") || node.Tag == "!!binary":
		return "", errors.New("must be in quotes if it begins with !")
	}
	return node.Value, nil
}

// setters say what is done with the keys of a mapping. A nil one leaves the key out of account.
type setters map[string]func(value *yaml.Node) error

// fieldsOf calls the setters. Keys without one are mistakes: what the file says and no host can have must not be lost
// unnoticed. noSuch says so.
func fieldsOf(node *yaml.Node, set setters, noSuch string) error {
	if isNull(node) {
		return nil
	}
	if node.Kind != yaml.MappingNode {
		return errors.New("must have keys")
	}
	var errs []error
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i].Value
		setter, known := set[key]
		switch {
		case !known:
			errs = append(errs, fmt.Errorf("%q: %s", key, noSuch))
		case seen[key]:
			errs = append(errs, fmt.Errorf("%s is there twice", key))
		case setter != nil:
			errs = append(errs, within(key, setter(resolved(node.Content[i+1]))))
		}
		seen[key] = true
	}
	return join(errs...)
}

// within puts the name of a field in front of its errors.
func within(name string, err error) error {
	if err == nil {
		return nil
	}
	var named []error
	var several all
	if !errors.As(err, &several) {
		several = all{err}
	}
	for _, one := range several {
		named = append(named, fmt.Errorf("%s: %w", name, one))
	}
	return join(named...)
}

// toText, toBool and toField set a field to a single value.
func toText[T ~string](field *T) func(*yaml.Node) error {
	return func(node *yaml.Node) error {
		value, err := scalar(node)
		if value != "" {
			*field = T(value)
		}
		return err
	}
}

func toBool(field *bool) func(*yaml.Node) error {
	return func(node *yaml.Node) error {
		value, err := scalar(node)
		if err != nil || value == "" {
			return err
		}
		*field, err = parseBool(value)
		return err
	}
}

// toStruct sets a struct of the API. Fields that it does not have are mistakes, as they are for kubectl.
func toStruct(into any) func(*yaml.Node) error {
	return func(node *yaml.Node) error {
		node = withBooleans(node, reflect.TypeOf(into), map[*yaml.Node]bool{})
		var content any
		if err := node.Decode(&content); err != nil {
			return errors.New(yamlQuoted.ReplaceAllString(strings.TrimPrefix(err.Error(), "yaml: "), "..."))
		}
		text, err := json.Marshal(content)
		if err != nil {
			return errors.New("must have keys that are text, and numbers that are finite")
		}
		strict, err := kjson.UnmarshalStrict(text, into)
		if err != nil {
			return typeError(err)
		}
		return join(strict...)
	}
}

// typeError puts an error of the decoder about a type into words of YAML and JSON. The decoder's own has the value of a number.
func typeError(err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err
	}
	is, _, _ := strings.Cut(wrong.Value, " ")
	want := kindWord(wrong.Type.Kind())
	is = cmp.Or(map[string]string{"bool": "true or false", "array": "a list", "object": "a mapping"}[is], "a "+is)
	says := fmt.Errorf("must be %s, and not %s", want, is)
	if want == "a whole number" && is == "a number" {
		says = errors.New("must be a whole number, and not too large")
	}
	if wrong.Field == "" {
		return says
	}
	return within(wrong.Field, says)
}

// kindWord returns what a kind of values is called in YAML.
func kindWord(kind reflect.Kind) string {
	switch {
	case kind == reflect.String:
		return "a string"
	case kind == reflect.Bool:
		return "true or false"
	case kind == reflect.Slice:
		return "a list"
	case kind >= reflect.Int && kind <= reflect.Uint64:
		return "a whole number"
	}
	return "a mapping"
}

// toMap sets labels and the like, whose values are taken as they are written.
func toMap(into *map[string]string) func(*yaml.Node) error {
	return func(node *yaml.Node) error {
		if isNull(node) {
			return nil
		}
		if node.Kind != yaml.MappingNode {
			return errors.New("must have keys")
		}
		values := map[string]string{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			value, err := scalar(resolved(node.Content[i+1]))
			if err != nil {
				return within(node.Content[i].Value, err)
			}
			values[node.Content[i].Value] = value
		}
		*into = values
		return nil
	}
}
