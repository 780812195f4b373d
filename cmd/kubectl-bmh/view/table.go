// SPDX-License-Identifier: Apache-2.0

package view

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/hosts"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/failure"
)

// Row is a host, and what runs on it.
type Row struct {
	Host *metal3.BareMetalHost
	// Machine and Node are the names of the Machine and of the Node that the host's consumer
	// stands for. They are empty if there are none, or if they cannot be read.
	Machine, Node string
}

// Options choose the columns of a table.
type Options struct {
	// Namespaces adds the namespaces of the hosts.
	Namespaces bool
	// Wide adds the BMC, which of several Ironics has the host, Ironic's state, the UUID of the node and the age.
	Wide bool
	// NoHeaders leaves out the heading.
	NoHeaders bool
	// Width is the width of the terminal in columns. 0 means that nothing is cut or left out.
	Width int
	// Now is the time that durations are measured to.
	Now   time.Time
	Style Style
}

// column is a column of the table of hosts.
type column struct {
	header string
	text   func(Row, Options) string
	// paint returns the colour of a cell, plain if it is nil.
	paint func(Row) paint
	// most is the greatest width of the column, 0 if there is none.
	most int
	// least is the width that the column can be cut to if the terminal is narrow.
	least int
	// keep says how long the column is kept in a narrow terminal: columns with lower values are
	// left out first. Those with 0 always stay.
	keep int
	// evenIfEmpty keeps the column if none of the hosts has anything in it.
	evenIfEmpty bool
}

const barColumns = 6

var columns = []column{
	{header: "NAMESPACE", keep: 7, least: 8, text: func(r Row, o Options) string {
		if !o.Namespaces {
			return ""
		}
		return r.Host.Namespace
	}},
	{header: "NAME", least: 20, evenIfEmpty: true, text: func(r Row, _ Options) string { return r.Host.Name }},
	{header: "STATE", least: 14, evenIfEmpty: true, text: func(r Row, _ Options) string { return hosts.State(r.Host) }, paint: statePaint},
	{header: "STEP", least: 10, most: 44, keep: 9, text: stepText, paint: func(Row) paint { return cyan }},
	{header: "FOR", keep: 5, least: 4, text: forText},
	{header: "POWER", keep: 8, least: 6, evenIfEmpty: true, text: func(r Row, _ Options) string { return hosts.Power(r.Host) }, paint: powerPaint},
	{header: "CONSUMER", keep: 3, least: 10, text: func(r Row, _ Options) string {
		if r.Host.Spec.ConsumerRef == nil {
			return ""
		}
		return r.Host.Spec.ConsumerRef.Name
	}},
	{header: "MACHINE", keep: 2, least: 10, text: func(r Row, _ Options) string { return r.Machine }},
	{header: "NODE", keep: 4, least: 10, text: func(r Row, _ Options) string { return r.Node }},
	{header: "BMC", keep: 1, least: 10, text: wide(func(r Row, _ Options) string { return r.Host.Spec.BMC.Address })},
	{header: "IRONIC", keep: 1, least: 6, text: wide(instanceText)},
	{header: "IRONIC STATE", keep: 1, least: 12, text: wide(ironicText)},
	{header: "NODE UUID", keep: 1, least: 36, text: wide(func(r Row, _ Options) string { return r.Host.Status.Provisioning.ID })},
	{header: "AGE", keep: 1, least: 3, text: wide(func(r Row, o Options) string { return since(r.Host.CreationTimestamp.Time, o.Now) })},
	{header: "PROBLEM", keep: 10, least: 20, text: func(r Row, _ Options) string { return failure.First(hosts.Problem(r.Host)) }, paint: func(Row) paint { return red }},
}

func wide(text func(Row, Options) string) func(Row, Options) string {
	return func(r Row, o Options) string {
		if !o.Wide {
			return ""
		}
		return text(r, o)
	}
}

func statePaint(r Row) paint {
	switch {
	case hosts.Problem(r.Host) != "":
		return yellow
	case hosts.IsBusy(r.Host):
		return cyan
	case r.Host.Status.Provisioning.State.RunsSomething():
		return green
	}
	return plain
}

func powerPaint(r Row) paint {
	power := hosts.Power(r.Host)
	switch {
	case strings.HasSuffix(power, "!"), strings.HasSuffix(power, "?"):
		return yellow
	case power == "off":
		return dim
	}
	return plain
}

func stepText(r Row, o Options) string {
	progress := hosts.ProgressOf(r.Host)
	text := progress.String()
	if fraction, known := progress.Fraction(); known {
		text = o.Style.bar(fraction, barColumns) + " " + text
	}
	return text
}

func forText(r Row, o Options) string { return since(hosts.Since(r.Host), o.Now) }

func instanceText(r Row, _ Options) string {
	if r.Host.Status.Ironic == nil {
		return ""
	}
	return r.Host.Status.Ironic.Instance
}

func ironicText(r Row, _ Options) string {
	ironic := r.Host.Status.Ironic
	if ironic == nil {
		return ""
	}
	if ironic.TargetProvisionState != "" {
		return ironic.ProvisionState + "→" + ironic.TargetProvisionState
	}
	return ironic.ProvisionState
}

// since returns how long ago something was, in the form of kubectl's AGE. Clocks differ: a time
// in the future counts as now.
func since(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return humanDuration(now.Sub(t))
}

func humanDuration(d time.Duration) string { return duration.HumanDuration(max(0, d)) }

// layout is the table of some hosts: which columns it has, and how wide they are.
type layout struct {
	columns []column
	widths  []int
	options Options
	// texts are the cells by row and by column.
	texts [][]string
}

const gap = 2

// newLayout chooses the columns for all of the rows, so that they do not change as the user
// scrolls through them.
func newLayout(rows []Row, o Options) *layout {
	l := &layout{options: o, texts: make([][]string, len(rows))}
	for _, c := range columns {
		width, isEmpty := cells(c.header), true
		texts := make([]string, len(rows))
		for i, row := range rows {
			texts[i] = o.Style.ascii(Clean(c.text(row, o)))
			if c.most > 0 && o.Width > 0 {
				texts[i] = o.Style.ascii(cut(texts[i], c.most))
			}
			if n := cells(texts[i]); n > 0 {
				isEmpty = false
				width = max(width, n)
			}
		}
		if isEmpty && !c.evenIfEmpty {
			continue
		}
		l.columns, l.widths = append(l.columns, c), append(l.widths, width)
		for i, text := range texts {
			l.texts[i] = append(l.texts[i], text)
		}
	}
	if o.Width > 0 {
		l.fit(o.Width)
	}
	return l
}

// fit makes the table fit into a number of columns: it leaves out columns until the rest fits
// when they are cut as far as they may be, and then cuts the last one, and those that are widest.
func (l *layout) fit(width int) {
	least := func(i int) int { return min(l.widths[i], max(l.columns[i].least, cells(l.columns[i].header))) }
	for {
		needed, first := -gap, -1
		for i, c := range l.columns {
			needed += least(i) + gap
			if c.keep > 0 && (first < 0 || c.keep < l.columns[first].keep) {
				first = i
			}
		}
		if needed <= width || first < 0 {
			break
		}
		l.remove(first)
	}
	total := -gap
	for i := range l.columns {
		total += l.widths[i] + gap
	}
	shrink := func(i, by int) {
		by = max(0, min(by, total-width, l.widths[i]-least(i)))
		l.widths[i] -= by
		total -= by
	}
	shrink(len(l.columns)-1, total)
	for total > width {
		widest := 0
		for i := range l.columns {
			if l.widths[i]-least(i) > l.widths[widest]-least(widest) {
				widest = i
			}
		}
		if l.widths[widest] <= least(widest) {
			return
		}
		shrink(widest, 1)
	}
}

func (l *layout) remove(column int) {
	l.columns = append(l.columns[:column:column], l.columns[column+1:]...)
	l.widths = append(l.widths[:column:column], l.widths[column+1:]...)
	for i, texts := range l.texts {
		l.texts[i] = append(texts[:column:column], texts[column+1:]...)
	}
}

func (l *layout) header() string {
	headers := make([]string, len(l.columns))
	for i, c := range l.columns {
		headers[i] = c.header
	}
	return l.line(headers, func(int) paint { return bold })
}

func (l *layout) row(i int, row Row) string {
	return l.line(l.texts[i], func(column int) paint {
		if p := l.columns[column].paint; p != nil {
			return p(row)
		}
		return plain
	})
}

func (l *layout) line(texts []string, paintOf func(column int) paint) string {
	var b strings.Builder
	used, wanted := 0, 0 // columns that were written, and where the next cell begins
	for i, text := range texts {
		if l.options.Width > 0 {
			text = l.options.Style.ascii(cut(text, l.widths[i]))
		}
		if text != "" {
			b.WriteString(strings.Repeat(" ", wanted-used))
			b.WriteString(l.options.Style.paint(paintOf(i), text))
			used = wanted + cells(text)
		}
		wanted += l.widths[i] + gap
	}
	return b.String()
}

// Table returns the lines of a table of hosts.
func Table(rows []Row, o Options) []string {
	l := newLayout(rows, o)
	lines := make([]string, 0, len(rows)+1)
	if !o.NoHeaders {
		lines = append(lines, l.header())
	}
	for i, row := range rows {
		lines = append(lines, l.row(i, row))
	}
	return lines
}
