// SPDX-License-Identifier: Apache-2.0

package security

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// attacks are the rows of the table that is printed after all tests.
var attacks struct {
	sync.Mutex
	rows []*attackRow
}

type attackRow struct{ name, rights, tries, result string }

// attack, as the first line of a test or subtest, adds it to the table of attacks: the attacker's rights, and what they try.
func attack(t *testing.T, rights, tries string) {
	t.Helper()
	row := &attackRow{strings.TrimPrefix(t.Name(), "Test"), rights, tries, "NOT FINISHED"}
	attacks.Lock()
	defer attacks.Unlock()
	attacks.rows = append(attacks.rows, row)
	t.Cleanup(func() {
		attacks.Lock()
		defer attacks.Unlock()
		row.result = resultOf(t)
	})
}

func resultOf(t *testing.T) string {
	switch {
	case t.Failed():
		return "FAILED"
	case t.Skipped():
		return "skipped"
	}
	return "kept out"
}

// withTable prints the table of attacks after the tests.
type withTable struct{ testbed.Runner }

func (r withTable) Run() (code int) {
	code = r.Runner.Run()
	printAttacks()
	return code
}

func printAttacks() {
	attacks.Lock()
	defer attacks.Unlock()
	slices.SortFunc(attacks.rows, func(a, b *attackRow) int { return strings.Compare(a.name, b.name) })
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nRESULT\tATTACK\tRIGHTS\tWHAT IS TRIED")
	for _, row := range attacks.rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", row.result, row.name, row.rights, row.tries)
	}
	if err := w.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, "the table of attacks:", err)
	}
}
