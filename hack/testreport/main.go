// SPDX-License-Identifier: Apache-2.0

// Command testreport prints what runs of hack/test.sh have found:
//
//	go run ./hack/testreport FOLDER           the summary of one run
//	go run ./hack/testreport -table FOLDER... how often each test failed in several runs
//
// A folder has, of each suite, what `go test -json` has written (SUITE.N.json), and how the suite ended (SUITE.ended: exit
// status, seconds, seconds of CPU time). It may have remarks for the end of the summary (remarks).
package main

import (
	"fmt"
	"os"
)

func main() {
	args := os.Args[1:]
	table := len(args) > 1 && args[0] == "-table"
	if table {
		args = args[1:]
	}
	if len(args) == 0 || !table && len(args) > 1 {
		fmt.Fprintln(os.Stderr, "usage: testreport [-table] FOLDER...")
		os.Exit(2)
	}
	var runs []*run
	for _, folder := range args {
		r, err := read(folder)
		if err != nil {
			fmt.Fprintln(os.Stderr, "testreport:", err)
			os.Exit(2)
		}
		runs = append(runs, r)
	}
	if table {
		printTable(os.Stdout, runs)
	} else {
		printSummary(os.Stdout, runs[0])
	}
	for _, r := range runs {
		if _, failed, _ := r.counts(); failed > 0 {
			os.Exit(1)
		}
	}
}
