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
