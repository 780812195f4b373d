// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// machinesOf returns the nodes of a list of machines: the list itself, one below the key hosts, or a single machine.
func machinesOf(root *yaml.Node) []*yaml.Node {
	switch {
	case isList(root):
		return root.Content
	case isMap(root) && len(root.Content) == 2 && isList(child(root, "hosts")):
		return child(root, "hosts").Content
	}
	return []*yaml.Node{root}
}

// isOwnList reports whether a document is a list of machines with the fields of this command. A list in which no machine
// has any of them is something else.
func isOwnList(root *yaml.Node) bool {
	machines := machinesOf(root)
	for _, machine := range machines {
		machine = resolved(machine)
		for i := 0; isMap(machine) && i+1 < len(machine.Content); i += 2 {
			if _, err := fieldByName(machine.Content[i].Value); err == nil {
				return true
			}
		}
	}
	return len(machines) == 0 // of a list, too
}

func readOwnList(roots []*yaml.Node, _ string) (entries []Entry, mistakes []*LineError, err error) {
	for _, root := range roots {
		for _, node := range machinesOf(root) {
			entry, err := readMachine(node)
			if err != nil {
				mistakes = append(mistakes, &LineError{Line: node.Line, Name: entry.Name, Err: err})
				continue
			}
			entries = append(entries, entry)
		}
	}
	return entries, mistakes, nil
}

// mostUnknown is of how many keys that are no fields each is named. With more, the list is not written for this command.
const mostUnknown = 5

func readMachine(node *yaml.Node) (Entry, error) {
	entry := newEntry(node.Line)
	node = resolved(node)
	if node.Kind != yaml.MappingNode {
		return entry, errors.New("must have keys such as name and address")
	}
	var errs, unknown []error
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		field, err := fieldByName(node.Content[i].Value)
		switch {
		case err != nil:
			unknown = append(unknown, err)
		case seen[field.Name]:
			errs = append(errs, fmt.Errorf("%s is there twice", field.Name))
		default:
			seen[field.Name] = true
			errs = append(errs, setNode(&entry, field, resolved(node.Content[i+1])))
		}
	}
	if len(unknown) > mostUnknown {
		unknown = []error{fmt.Errorf("%d of its %d keys are no fields, so that this is hardly a list for this command; kubectl bmh create --help lists the fields", len(unknown), len(node.Content)/2)}
	}
	return entry, join(append(unknown, errs...)...)
}

func setNode(entry *Entry, field *Field, value *yaml.Node) error {
	if value.Kind == yaml.MappingNode && field.Name == "labels" {
		return within("labels", toMap(&entry.Labels)(value))
	}
	text, err := scalar(value)
	if err != nil {
		return within(field.Name, err)
	}
	return field.Set(entry, text)
}
