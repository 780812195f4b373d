// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/hosts"
)

// SortKey is what hosts are sorted by.
type SortKey string

// The sort keys. Hosts that are equal are in the order of their names.
const (
	SortByName    SortKey = "name"
	SortByState   SortKey = "state"
	SortBySince   SortKey = "since"
	SortByPower   SortKey = "power"
	SortByProblem SortKey = "problem"
)

// SortKeys are all sort keys.
var SortKeys = []SortKey{SortByName, SortByState, SortBySince, SortByPower, SortByProblem}

// Sort sorts hosts. By problem, those that have one come first, and then those that are busy; by
// since, those that came into their state last.
func Sort(rows []Row, key SortKey, reverse bool) {
	sign := 1
	if reverse {
		sign = -1
	}
	slices.SortStableFunc(rows, func(a, b Row) int {
		c := 0
		switch key {
		case SortByState:
			c = cmp.Compare(hosts.State(a.Host), hosts.State(b.Host))
		case SortBySince:
			c = hosts.Since(b.Host).Compare(hosts.Since(a.Host))
		case SortByPower:
			c = cmp.Compare(hosts.Power(a.Host), hosts.Power(b.Host))
		case SortByProblem:
			c = cmp.Compare(urgency(a), urgency(b))
		}
		return sign * cmp.Or(c, cmp.Compare(a.Host.Namespace, b.Host.Namespace), cmp.Compare(a.Host.Name, b.Host.Name))
	})
}

func urgency(r Row) int {
	switch {
	case hosts.Problem(r.Host) != "":
		return 0
	case hosts.IsBusy(r.Host):
		return 1
	}
	return 2
}

// Show is which hosts of the fleet the live view shows.
type Show int

// What can be shown.
const (
	ShowAll Show = iota
	ShowProblems
	ShowBusy
)

// Fleet is the live view of a fleet: what it shows, and how.
type Fleet struct {
	// Rows are all hosts.
	Rows []Row
	// Sort and Reverse are the order.
	Sort    SortKey
	Reverse bool
	// Filter keeps the hosts of which a cell contains the text. It is being typed as long as
	// Typing is set.
	Filter string
	Typing bool
	Show   Show
	// Offset is how many hosts are above the first line that is shown.
	Offset int
	// Notice is shown at the top, for example that the connection was lost.
	Notice  string
	Options Options

	// page is how many hosts the last frame had room for, and shown how many there were to
	// show.
	page, shown int
}

// Frame returns the lines that fill a terminal of that size. Each has at most that many columns.
func (f *Fleet) Frame(width, height int, now time.Time) []string {
	o := f.Options
	o.Width, o.Now = max(width, 20), now
	rows := f.visible(o)
	f.page, f.shown = max(1, height-3), len(rows)
	f.Offset = max(0, min(f.Offset, f.shown-f.page))

	l := newLayout(rows, o)
	lines := make([]string, 0, height)
	lines = append(lines, f.summary(o), l.header())
	for i := f.Offset; i < min(len(rows), f.Offset+f.page); i++ {
		lines = append(lines, l.row(i, rows[i]))
	}
	if len(rows) == 0 {
		lines = append(lines, o.Style.paint(dim, o.Style.ascii(cut(f.nothing(), o.Width))))
	}
	for len(lines) < height-1 {
		lines = append(lines, "")
	}
	return append(lines[:max(0, min(len(lines), height-1))], f.footer(o))
}

// visible returns the hosts that the user wants to see, in order.
func (f *Fleet) visible(o Options) []Row {
	var rows []Row
	filter := strings.ToLower(f.Filter)
	for _, row := range f.Rows {
		switch {
		case f.Show == ShowProblems && hosts.Problem(row.Host) == "":
		case f.Show == ShowBusy && !hosts.IsBusy(row.Host):
		case filter != "" && !strings.Contains(strings.ToLower(searchText(row)), filter):
		default:
			rows = append(rows, row)
		}
	}
	Sort(rows, f.Sort, f.Reverse)
	return rows
}

func searchText(r Row) string {
	consumer := ""
	if r.Host.Spec.ConsumerRef != nil {
		consumer = r.Host.Spec.ConsumerRef.Name
	}
	return strings.Join([]string{
		r.Host.Namespace + "/" + r.Host.Name, hosts.State(r.Host), hosts.ProgressOf(r.Host).String(), "power " + hosts.Power(r.Host),
		consumer, r.Machine, r.Node, hosts.Problem(r.Host), r.Host.Spec.BMC.Address,
	}, "\n")
}

// summary counts the hosts by state.
func (f *Fleet) summary(o Options) string {
	if f.Notice != "" {
		return o.Style.paint(red, o.Style.ascii(cut(Clean(f.Notice), o.Width)))
	}
	counts, problems := map[string]int{}, 0
	for _, row := range f.Rows {
		counts[hosts.State(row.Host)]++
		if hosts.Problem(row.Host) != "" {
			problems++
		}
	}
	states := make([]string, 0, len(counts))
	for state := range counts {
		states = append(states, state)
	}
	slices.SortFunc(states, func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	text := Plural(len(f.Rows), "host")
	if problems > 0 {
		text += fmt.Sprintf(" · %d with a problem", problems)
	}
	for _, state := range states {
		text += fmt.Sprintf(" · %d %s", counts[state], Clean(state))
	}
	return o.Style.ascii(cut(text, o.Width))
}

func (f *Fleet) nothing() string {
	switch {
	case len(f.Rows) == 0:
		return "There are no hosts."
	case f.Filter != "":
		return fmt.Sprintf("No host matches %q.", f.Filter)
	case f.Show == ShowProblems:
		return "No host has a problem."
	}
	return "No host is busy."
}

func (f *Fleet) footer(o Options) string {
	if f.Typing {
		return o.Style.ascii(cut("filter: "+Clean(f.Filter)+"_   (Enter to keep, Esc to clear)", o.Width))
	}
	order := string(f.Sort)
	if f.Reverse {
		order += " reversed"
	}
	parts := []string{
		fmt.Sprintf("%d-%d of %d", min(f.Offset+1, f.shown), min(f.Offset+f.page, f.shown), f.shown),
		"q quit", "s sort: " + order, "/ filter" + quoted(f.Filter), "p problems" + mark(f.Show == ShowProblems), "b busy" + mark(f.Show == ShowBusy), "w wide" + mark(o.Wide), "r reverse", "↑↓ scroll",
	}
	text := o.Style.ascii(strings.Join(parts, "  "))
	return o.Style.paint(invert, pad(text, o.Width))
}

func quoted(text string) string {
	if text == "" {
		return ""
	}
	return ": " + Clean(text)
}

func mark(on bool) string {
	if on {
		return "*"
	}
	return ""
}

// Plural returns a number with a noun.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
