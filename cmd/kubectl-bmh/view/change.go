// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/hosts"
)

// PlainState is one line about a host, for output that is no terminal. It has no durations, so
// that it differs only if the host does.
func PlainState(row Row, namespaces bool) string {
	name := row.Host.Name
	if namespaces {
		name = row.Host.Namespace + "/" + name
	}
	parts := []string{Clean(name), Clean(hosts.State(row.Host))}
	if step := hosts.ProgressOf(row.Host).String(); step != "" {
		parts = append(parts, Clean(step))
	}
	if power := hosts.Power(row.Host); power != "" {
		parts = append(parts, "power="+Clean(strings.Replace(power, "→", "->", 1)))
	}
	if problem := hosts.Problem(row.Host); problem != "" {
		parts = append(parts, "problem="+fmt.Sprintf("%q", Clean(problem)))
	}
	return strings.Join(parts, "  ")
}

// PlainTime is the time at the beginning of a plain line.
func PlainTime(now time.Time) string { return now.Format("2006-01-02T15:04:05Z07:00") }

// PlainWaitingKey tells states of a host apart of which each is worth a line.
func PlainWaitingKey(w *Waiting) string {
	return fmt.Sprintf("%s %t %s %t", PlainState(w.Row, false), w.Done, w.Failed, w.Gone)
}

// PlainWaiting is one line about a host that somebody waits for.
func PlainWaiting(w *Waiting, now time.Time) string {
	line := PlainState(w.Row, false)
	switch {
	case w.Failed != "":
		return line + "  failed"
	case w.Gone:
		return Clean(w.Host.Name) + "  deleted  done after " + humanDuration(w.Took)
	case w.Done:
		return line + "  done after " + humanDuration(w.Took)
	}
	if soFar := since(hosts.Since(w.Host), now); soFar != "" && hosts.IsBusy(w.Host) {
		line += "  " + soFar + " so far"
		if w.Usual != "" {
			line += ", " + w.Usual
		}
	}
	if w.LastStep != "" {
		line += fmt.Sprintf("  (%s took %s)", Clean(w.LastStep), humanDuration(w.LastStepTook))
	}
	return line
}

// Line cleans a text and cuts it to a width.
func Line(text string, width int) string { return cut(Clean(text), width) }
