// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MaxSize is the largest inventory that is read, in bytes. It has room for 100,000 machines.
const MaxSize = 64 << 20

var errEmpty = errors.New("the inventory is empty: give a list of machines, for example a CSV file that begins with name,address,username,password,bootMACAddress")

// errUnknown does not repeat what the file has: the keys of what is no list of machines may be passwords.
var errUnknown = errors.New("this is YAML or JSON, and no list of machines that is known: docs/plugin.md says which files are read")

// formats are the formats of YAML and JSON, told by the first document. The first that fits counts.
var formats = []struct {
	fits func(*yaml.Node) bool
	read func(roots []*yaml.Node, namespace string) ([]Entry, []*LineError, error)
}{
	{isInstallConfig, readInstallConfig},
	{isNodes, readNodes},
	{isManifest, readManifest},
	{isOwnList, readOwnList},
}

// Read reads an inventory. Its format is found out from what is in it, whatever its name.
// mistakes are the lines that cannot be used; err is returned if none of the inventory can be, and says what the file is.
// namespace is that of objects without one.
func Read(data []byte, namespace string) (entries []Entry, mistakes []*LineError, err error) {
	if len(data) > MaxSize {
		return nil, nil, fmt.Errorf("the inventory has more than %d MiB", MaxSize>>20)
	}
	if err := refuse(refusedFiles, data); err != nil {
		return nil, nil, err
	}
	if data, err = toUTF8(data); err != nil {
		return nil, nil, err
	}
	line := firstLineOf(data)
	if line == "" || line == "---" && len(bytes.TrimSpace(data)) == len(line) {
		return nil, nil, errEmpty
	}
	if err := refuse(refusedFiles, data); err != nil { // now that it is UTF-8
		return nil, nil, err
	}
	if isCSV(line) {
		return readCSV(data)
	}
	return readDocuments(data, namespace)
}

// isCSV reports whether a first line is the heading of a table, or could be nothing else.
func isCSV(line string) bool {
	if _, known := separator(line); known > 1 {
		return true
	}
	return !strings.ContainsAny(line[:1], "{[-%?&!") && !strings.Contains(line, ": ") && !strings.HasSuffix(line, ":")
}

// firstLineOf returns the first line that is neither empty nor a comment.
func firstLineOf(data []byte) string {
	for line := range bytes.Lines(data) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return string(line)
		}
	}
	return ""
}

func readDocuments(data []byte, namespace string) ([]Entry, []*LineError, error) {
	roots, broken := documents(data)
	switch {
	case len(roots) == 0 && len(broken) > 0:
		return nil, nil, broken[0]
	case len(roots) == 0:
		return nil, nil, errEmpty
	}
	if err := refuse(refusedDocuments, roots[0]); err != nil {
		return nil, nil, err
	}
	for _, format := range formats {
		if !format.fits(roots[0]) {
			continue
		}
		entries, mistakes, err := format.read(roots, namespace)
		if err == nil && len(entries)+len(mistakes)+len(broken) == 0 {
			err = errEmpty
		}
		return entries, append(broken, mistakes...), err
	}
	return nil, nil, errUnknown
}
