// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const module = "github.com/metal3-io/metal3-apiserver/"

// run is what a run of hack/test.sh has found.
type run struct {
	suites  []suite
	results map[name]*result
	remarks string
}

// suite is how a suite ended, and how many seconds it took, of the clock and of the processors.
type suite struct {
	name         string
	status       int
	seconds, cpu float64
}

// name is that of a test, or of a package if test is empty. A package can be in several suites, and in one
// suite several times.
type name struct{ suite, pkg, test string }

func (n name) String() string {
	if n.test == "" {
		return n.suite + " " + n.pkg
	}
	return n.suite + " " + n.pkg + "." + n.test
}

// result is that of a test or a package. Outcome is pass, fail or skip, and empty if there is none: a panic or the time limit of
// the package has ended the test.
type result struct {
	outcome string
	seconds float64
	output  []string
}

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

// read reads the folder of a run.
func read(folder string) (*run, error) {
	r := &run{results: map[name]*result{}}
	ended, err := filepath.Glob(filepath.Join(folder, "*.ended"))
	if err != nil {
		return nil, err
	}
	if len(ended) == 0 {
		return nil, fmt.Errorf("no suite has ended in %s", folder)
	}
	for _, path := range ended {
		s := suite{name: strings.TrimSuffix(filepath.Base(path), ".ended")}
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if _, err := fmt.Sscan(string(content), &s.status, &s.seconds, &s.cpu); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		r.suites = append(r.suites, s)
	}
	written, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil, err
	}
	for _, path := range written {
		suite, _, _ := strings.Cut(filepath.Base(path), ".")
		if err := r.readEvents(path, suite); err != nil {
			return nil, err
		}
	}
	remarks, err := os.ReadFile(filepath.Join(folder, "remarks"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	r.remarks = string(remarks)
	return r, nil
}

func (r *run) readEvents(path, suite string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // a last line that was cut is none
		}
		if err != nil {
			return err
		}
		var e event
		if json.Unmarshal(line, &e) == nil { // other lines are what programs have printed
			r.add(suite, e)
		}
	}
}

func (r *run) add(suite string, e event) {
	key := name{suite, strings.TrimPrefix(cmp.Or(e.Package, e.ImportPath), module), e.Test}
	found := r.results[key]
	if found == nil {
		found = &result{}
		r.results[key] = found
	}
	switch e.Action {
	case "output", "build-output":
		found.output = append(found.output, e.Output)
	case "pass", "fail", "skip":
		found.outcome, found.seconds = e.Action, e.Elapsed
	case "build-fail":
		found.outcome = "fail"
	}
}

// sorted returns the names for which keep is true.
func (r *run) sorted(keep func(name, *result) bool) (names []name) {
	for key, found := range r.results {
		if keep(key, found) {
			names = append(names, key)
		}
	}
	slices.SortFunc(names, func(a, b name) int {
		return cmp.Or(cmp.Compare(a.suite, b.suite), cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.test, b.test))
	})
	return names
}

// failed returns what failed: tests, in place of a test its subtests, and packages that failed without a failed test. A
// test that has not ended has failed, too.
func (r *run) failed() []name {
	blamed := map[name]bool{}
	isFailed := func(found *result) bool { return found.outcome == "fail" || found.outcome == "" }
	for key, found := range r.results {
		if key.test == "" || !isFailed(found) {
			continue
		}
		blamed[name{key.suite, key.pkg, ""}] = true
		for i, c := range key.test {
			if c == '/' {
				blamed[name{key.suite, key.pkg, key.test[:i]}] = true
			}
		}
	}
	return r.sorted(func(key name, found *result) bool {
		// What was printed outside of any package has no outcome.
		return isFailed(found) && !blamed[key] && (key.test != "" || found.outcome == "fail")
	})
}

// counts returns how many tests passed, failed and were skipped. A suite can fail without a failed test, for example because
// something does not build.
func (r *run) counts() (passed, failed, skipped int) {
	for key, found := range r.results {
		switch {
		case key.test == "":
		case found.outcome == "pass":
			passed++
		case found.outcome == "skip":
			skipped++
		}
	}
	failed = len(r.failed())
	ended := 0
	for _, s := range r.suites {
		if s.status != 0 {
			ended++
		}
	}
	return passed, max(failed, ended), skipped
}

// failedSuites returns the names of the suites in which something failed.
func (r *run) failedSuites() []string {
	found := map[string]bool{}
	for _, s := range r.suites {
		if s.status != 0 {
			found[s.name] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}
