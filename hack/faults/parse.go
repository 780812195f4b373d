// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// fault is a small change of the code that harms a user.
type fault struct {
	id      string
	tags    []string // what it is about: safety, concurrency, secret
	pkg     string   // directory of the package, from the root of the repository
	harm    string
	old     string
	changed string
}

// needsRace reports whether only the race detector can notice the fault.
func (f *fault) needsRace() bool { return slices.Contains(f.tags, "race") }

// parseFaults reads faults in the form that the data file explains.
func parseFaults(text string) ([]*fault, error) {
	var all []*fault
	known := map[string]bool{}
	for n, line := range strings.Split(text, "\n") {
		fail := func(why string) error { return fmt.Errorf("line %d: %s: %q", n+1, why, line) }
		if header, ok := strings.CutPrefix(line, "== "); ok {
			words := strings.Fields(header)
			if len(words) < 2 || known[words[0]] {
				return nil, fail("not == ID PACKAGE [TAG...] with an ID of its own")
			}
			known[words[0]] = true
			all = append(all, &fault{id: words[0], pkg: words[1], tags: words[2:]})
			continue
		}
		if len(all) == 0 || line == "" {
			continue // the explanation at the beginning, and what separates faults
		}
		f := all[len(all)-1]
		switch rest := line[1:]; line[0] {
		case ' ':
			f.harm += strings.TrimSpace(rest)
		case '-':
			f.old += rest + "\n"
		case '+':
			f.changed += rest + "\n"
		case '=':
			f.old += rest + "\n"
			f.changed += rest + "\n"
		default:
			return nil, fail("does not begin with a blank, -, + or =")
		}
	}
	for _, f := range all {
		if f.harm == "" || f.old == "" || f.old == f.changed {
			return nil, fmt.Errorf("fault %s has no description, or changes nothing", f.id)
		}
	}
	return all, nil
}

// plant returns the path of the file that the fault changes, and what is in it then. The lines to
// be changed must be in the package exactly once.
func (f *fault) plant(root string) (path string, content []byte, err error) {
	files, err := filepath.Glob(filepath.Join(root, f.pkg, "*.go"))
	if err != nil {
		return "", nil, err
	}
	found := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return "", nil, err
		}
		// All that is compared are whole lines.
		whole := append([]byte("\n"), text...)
		if n := bytes.Count(whole, []byte("\n"+f.old)); n > 0 {
			found += n
			path, content = file, bytes.Replace(whole, []byte("\n"+f.old), []byte("\n"+f.changed), 1)[1:]
		}
	}
	switch found {
	case 0:
		return "", nil, errors.New("the lines to be changed are not there")
	case 1:
		return path, content, nil
	}
	return "", nil, fmt.Errorf("the lines to be changed are there %d times", found)
}
