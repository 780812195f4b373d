// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/hosts"
)

// Waiting is a host that somebody waits for.
type Waiting struct {
	Row
	// Gone is set if the host does not exist any more.
	Gone bool
	// Done and Failed end the waiting for this host. Failed says why it does not get there.
	Done   bool
	Failed string
	// Took is how long the host was waited for, if it is done.
	Took time.Duration
	// Usual says how long others took in the host's present state.
	Usual string
	// LastStep is the step that was finished last, and LastStepTook how long it took. They are
	// empty until a step was finished.
	LastStep     string
	LastStepTook time.Duration
}

// Waitings returns the lines about hosts that somebody waits for, for a terminal of that size.
// If there are more hosts than lines, those that are under way are shown first.
func Waitings(all []Waiting, width, height int, now time.Time, style Style) []string {
	names := 0
	for _, w := range all {
		names = max(names, cells(Clean(w.name())))
	}
	names = min(names, max(24, width/4))
	var underWay, ended []Waiting
	for _, w := range all {
		if w.Done || w.Failed != "" {
			ended = append(ended, w)
		} else {
			underWay = append(underWay, w)
		}
	}
	room := max(1, height-2)
	shown := append(underWay, ended...)
	if len(shown) > room {
		shown = shown[:room-1]
	}
	lines := make([]string, 0, len(shown)+1)
	for _, w := range shown {
		lines = append(lines, w.line(names, width, now, style))
	}
	if more := len(all) - len(shown); more > 0 {
		lines = append(lines, style.ascii(cut(fmt.Sprintf("… %d more, %d of %d done", more, len(ended), len(all)), width)))
	}
	return lines
}

func (w *Waiting) name() string { return w.Host.Name }

func (w *Waiting) line(names, width int, now time.Time, style Style) string {
	color := plain
	var parts []string
	switch {
	case w.Failed != "":
		color, parts = red, []string{w.state(), w.Failed}
	case w.Done:
		color, parts = green, []string{w.state(), "done after " + humanDuration(w.Took)}
	default:
		parts = append([]string{w.state()}, w.progress(now, style)...)
	}
	text := pad(Clean(w.name()), names) + "  " + Clean(strings.Join(parts, "  "))
	return style.paint(color, style.ascii(cut(style.ascii(text), width)))
}

func (w *Waiting) state() string {
	if w.Gone {
		return "deleted"
	}
	return hosts.State(w.Host)
}

// progress says where a host is, how long it has been there, and how long that takes.
func (w *Waiting) progress(now time.Time, style Style) []string {
	var parts []string
	progress := hosts.ProgressOf(w.Host)
	step := progress.String()
	if fraction, known := progress.Fraction(); known {
		step = style.bar(fraction, barColumns) + " " + step
	}
	if step != "" {
		parts = append(parts, step)
	}
	if power := hosts.Power(w.Host); strings.ContainsAny(power, "→?") {
		parts = append(parts, "power "+power)
	}
	if soFar := since(hosts.Since(w.Host), now); soFar != "" {
		text := soFar + " so far"
		if w.Usual != "" {
			text += ", " + w.Usual
		}
		parts = append(parts, text)
	}
	if w.LastStep != "" {
		parts = append(parts, fmt.Sprintf("(%s took %s)", w.LastStep, humanDuration(w.LastStepTook)))
	}
	if problem := hosts.Problem(w.Host); problem != "" {
		parts = append(parts, "problem: "+problem)
	}
	return parts
}
