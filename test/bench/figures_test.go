// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// figure is a row of the table that a run ends with.
type figure struct {
	what string
	// measured is of the server, beside is what it is compared with, measured in the
	// same run, and result is what comes of the two. The latter may be empty.
	measured, beside, result string
	// wanted is what result, or without it measured, should be.
	wanted string
}

// figures are in the order in which they were measured.
var figures []figure

func record(f figure) { figures = append(figures, f) }

// printFigures prints a table for people, which is one in Markdown, too.
func printFigures(w io.Writer) error {
	if len(figures) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	row := func(cells ...string) { fmt.Fprintf(table, "| %s\t|\n", strings.Join(cells, "\t| ")) }
	fmt.Fprintln(table)
	row("what", "measured", "beside", "result", "wanted")
	row("---", "---", "---", "---", "---")
	for _, f := range figures {
		row(f.what, f.measured, f.beside, f.result, f.wanted)
	}
	return table.Flush()
}

// text is a time as it is printed: no more digits than mean something.
func text(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%.0f ms", milliseconds(d))
	}
	return fmt.Sprintf("%.1f ms", milliseconds(d))
}

// times says how many times as long a took as b.
func times(a, b time.Duration) string { return fmt.Sprintf("x %.2f", float64(a)/float64(b)) }
