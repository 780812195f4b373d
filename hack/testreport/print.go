// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

// slowestTests is how many of the slowest tests are shown, and failedTests how many of the failed ones: a log may be cut.
const slowestTests, failedTests = 20, 25

func printSummary(w io.Writer, r *run) {
	for _, key := range r.sorted(func(key name, found *result) bool {
		return key.test == "" && found.outcome != "" && found.outcome != "skip"
	}) {
		found := r.results[key]
		fmt.Fprintf(w, "%-4s %-14s %8.1f s  %s\n", map[string]string{"pass": "ok", "fail": "FAIL"}[found.outcome], key.suite, found.seconds, key.pkg)
	}
	fmt.Fprintln(w, "\nthe slowest tests:")
	tests := r.sorted(func(key name, _ *result) bool { return key.test != "" && !strings.Contains(key.test, "/") })
	slices.SortStableFunc(tests, func(a, b name) int { return int(r.results[b].seconds*100 - r.results[a].seconds*100) })
	for _, key := range tests[:min(len(tests), slowestTests)] {
		fmt.Fprintf(w, "%8.1f s  %s\n", r.results[key].seconds, key)
	}
	printSkipped(w, r)
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "suite\tminutes\tCPU minutes\t")
	for _, s := range r.suites {
		fmt.Fprintf(table, "%s\t%.1f\t%.1f\t\n", s.name, s.seconds/60, s.cpu/60)
	}
	_ = table.Flush()
	fmt.Fprintln(w)
	printFailed(w, r)
	for _, s := range r.suites {
		fmt.Fprintf(w, "%s: %s\n", map[bool]string{true: "passed", false: "FAILED"}[s.status == 0], s.name)
	}
	fmt.Fprint(w, r.remarks)
	passed, failed, skipped := r.counts()
	fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", passed, failed, skipped)
}

// position is that of a line that a test has logged.
var position = regexp.MustCompile(`^\s*[a-zA-Z0-9_]+\.go:\d+: `)

// printSkipped prints the reasons for which tests were skipped, and the tests.
func printSkipped(w io.Writer, r *run) {
	var reasons []string
	tests := map[string][]string{}
	for _, key := range r.sorted(func(key name, found *result) bool { return key.test != "" && found.outcome == "skip" }) {
		reason := "no reason"
		for _, line := range r.results[key].output {
			if at := position.FindString(line); at != "" {
				reason = strings.TrimSpace(strings.TrimPrefix(line, at))
			}
		}
		if tests[reason] == nil {
			reasons = append(reasons, reason)
		}
		tests[reason] = append(tests[reason], key.String())
	}
	if len(reasons) > 0 {
		fmt.Fprintln(w, "\nskipped:")
	}
	for _, reason := range reasons {
		of := tests[reason]
		fmt.Fprintf(w, "    %s: %s", reason, strings.Join(of[:min(len(of), 3)], ", "))
		if len(of) > 3 {
			fmt.Fprintf(w, " and %d others", len(of)-3)
		}
		fmt.Fprintln(w)
	}
}

// printFailed prints the tests that failed, and the first lines that each has logged.
func printFailed(w io.Writer, r *run) {
	failed := r.failed()
	for _, key := range failed[:min(len(failed), failedTests)] {
		found, what := r.results[key], "FAILED"
		if found.outcome == "" {
			what = "NOT ENDED"
		}
		fmt.Fprintf(w, "%s: %s\n", what, key)
		for _, line := range firstLines(key, found) {
			fmt.Fprintf(w, "    %.240s\n", line)
		}
	}
	if len(failed) > failedTests {
		fmt.Fprintf(w, "and %d others\n", len(failed)-failedTests)
	}
	if len(failed) > 0 {
		fmt.Fprintln(w)
	}
}

// firstLines returns the first and the last lines that a test has logged, or of a package the last ones that it has printed.
func firstLines(key name, found *result) (lines []string) {
	for _, line := range found.output {
		if line = strings.TrimSpace(line); line != "" && (key.test == "" || position.MatchString(line)) {
			lines = append(lines, line)
		}
	}
	const first, last = 3, 2
	switch {
	case key.test == "":
		return lines[max(0, len(lines)-5*last):]
	case len(lines) > first+last:
		return slices.Concat(lines[:first], lines[len(lines)-last:])
	}
	return lines
}

// printTable prints how often each test and suite failed in the runs, and how long the suites took.
func printTable(w io.Writer, runs []*run) {
	var order []string
	seconds, failures := map[string][]string{}, map[string]int{}
	for _, r := range runs {
		for _, s := range r.suites {
			if seconds[s.name] == nil {
				order = append(order, s.name)
			}
			seconds[s.name] = append(seconds[s.name], fmt.Sprintf("%.1f", s.seconds/60))
		}
		for _, name := range r.failedSuites() {
			failures[name]++
		}
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "suite\truns\tfailed\tminutes")
	for _, name := range order {
		fmt.Fprintf(table, "%s\t%d\t%d\t%s\n", name, len(seconds[name]), failures[name], strings.Join(seconds[name], " "))
	}
	_ = table.Flush()
	times, first := map[string]int{}, map[string][]string{}
	var tests []string
	for _, r := range runs {
		for _, key := range r.failed() {
			test := key.String()
			if times[test]++; times[test] == 1 {
				tests, first[test] = append(tests, test), firstLines(key, r.results[key])
			}
		}
	}
	slices.SortStableFunc(tests, func(a, b string) int { return times[b] - times[a] })
	for _, test := range tests {
		fmt.Fprintf(w, "\n%d of %d: %s\n", times[test], len(runs), test)
		for _, line := range first[test] {
			fmt.Fprintf(w, "    %.240s\n", line)
		}
	}
	if len(tests) == 0 {
		fmt.Fprintln(w, "no test failed")
	}
}
