// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// record writes what a run has found, with one suite for each text.
func record(t *testing.T, suites map[string]string) *run {
	t.Helper()
	folder := t.TempDir()
	for suite, events := range suites {
		status := "0"
		if strings.Contains(events, `"fail"`) || events == "" {
			status = "1"
		}
		for name, content := range map[string]string{suite + ".1.json": events, suite + ".ended": status + " 90 60.5\n"} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	r, err := read(folder)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const unit = `{"Action":"run","Package":"github.com/metal3-io/metal3-apiserver/pkg/a","Test":"TestGood"}
{"Action":"pass","Package":"github.com/metal3-io/metal3-apiserver/pkg/a","Test":"TestGood","Elapsed":2.5}
{"Action":"run","Package":"github.com/metal3-io/metal3-apiserver/pkg/a","Test":"TestBad"}
{"Action":"output","Package":"github.com/metal3-io/metal3-apiserver/pkg/a","Test":"TestBad/row","Output":"    a_test.go:7: got 1, want 2\n"}
{"Action":"fail","Package":"github.com/metal3-io/metal3-apiserver/pkg/a","Test":"TestBad/row","Elapsed":0.1}
{"Action":"fail","Package":"github.com/metal3-io/metal3-apiserver/pkg/a","Test":"TestBad","Elapsed":0.1}
{"Action":"output","Package":"github.com/metal3-io/metal3-apiserver/pkg/a","Test":"TestElsewhere","Output":"    a_test.go:9: needs a machine\n"}
{"Action":"skip","Package":"github.com/metal3-io/metal3-apiserver/pkg/a","Test":"TestElsewhere","Elapsed":0}
{"Action":"run","Package":"github.com/metal3-io/metal3-apiserver/pkg/a","Test":"TestHangs"}
{"Action":"fail","Package":"github.com/metal3-io/metal3-apiserver/pkg/a","Elapsed":3}
what a program has printed
{"Action":"output","Package":"github.com/metal3-io/metal3-apiserver/pkg/b","Output":"b.go:1: undefined: c\n"}
{"Action":"fail","Package":"github.com/metal3-io/metal3-apiserver/pkg/b","Elapsed":0}
`

func TestSummary(t *testing.T) {
	var out strings.Builder
	printSummary(&out, record(t, map[string]string{"unit": unit}))
	for _, want := range []string{
		"FAILED: unit pkg/a.TestBad/row\n    a_test.go:7: got 1, want 2\n",
		"NOT ENDED: unit pkg/a.TestHangs\n",
		"FAILED: unit pkg/b\n    b.go:1: undefined: c\n",
		"needs a machine: unit pkg/a.TestElsewhere\n",
		"2.5 s  unit pkg/a.TestGood\n",
		"unit      1.5          1.0",
		"FAILED: unit\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, &out)
		}
	}
	if !strings.HasSuffix(out.String(), "\n1 passed, 3 failed, 1 skipped\n") {
		t.Errorf("the last line of\n%s", &out)
	}
}

// TestSuiteWithoutTests: what fails without a failed test, such as a build, is counted.
func TestSuiteWithoutTests(t *testing.T) {
	if passed, failed, skipped := record(t, map[string]string{"e2e": ""}).counts(); passed != 0 || failed != 1 || skipped != 0 {
		t.Errorf("%d passed, %d failed, %d skipped", passed, failed, skipped)
	}
}

func TestTable(t *testing.T) {
	var out strings.Builder
	good := strings.SplitAfterN(unit, "\n", 3)
	printTable(&out, []*run{record(t, map[string]string{"unit": unit}), record(t, map[string]string{"unit": good[0] + good[1]}), record(t, map[string]string{"unit": unit})})
	for _, want := range []string{"unit   3     2       1.5 1.5 1.5\n", "2 of 3: unit pkg/a.TestBad/row\n    a_test.go:7: got 1, want 2\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, &out)
		}
	}
}
