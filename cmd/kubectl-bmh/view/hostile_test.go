// SPDX-License-Identifier: Apache-2.0

package view

import (
	"strings"
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/hostile"
)

// TestHostileHost: whatever a host says, it is text in one line of its own.
func TestHostileHost(t *testing.T) {
	host := &metal3.BareMetalHost{}
	hostile.Fill(host, hostile.Text)
	row := Row{Host: host, Machine: hostile.Text, Node: hostile.Text}
	waiting := Waiting{Row: row, LastStep: hostile.Text, Usual: "usually 5m"}
	failed := waiting
	failed.Failed = hostile.Text
	for _, style := range []Style{{}, {ASCII: true}} {
		o := Options{Namespaces: true, Wide: true, Width: 200, Now: now, Style: style}
		outputs := map[string][]string{
			"table":    Table([]Row{row, row}, o),
			"waitings": Waitings([]Waiting{waiting, failed}, 200, 20, now, style),
			"plain":    {PlainState(row, true), PlainWaiting(&waiting, now), PlainWaiting(&failed, now), Line(hostile.Text, 100)},
			"wrapped":  Wrap(hostile.Text, 400),
		}
		for _, f := range []*Fleet{
			{Rows: []Row{row}, Options: o}, {Rows: []Row{row}, Options: o, Notice: hostile.Text}, {Rows: []Row{row}, Options: o, Filter: hostile.Text}, {Rows: []Row{row}, Options: o, Filter: "none"},
		} {
			outputs["frame"] = append(outputs["frame"], f.Frame(200, 20, now)...)
		}
		for what, lines := range outputs {
			for _, line := range lines {
				if found := hostile.In(line); found != "" || strings.Contains(line, "\n") {
					t.Errorf("%s has %s: %q", what, found, line)
				}
			}
		}
	}
	if got := CleanLines("a\n  b\x1b[2J\u202e\u009b\x7f \n"); got != "a\n  b^[[2J\n" {
		t.Errorf("cleaned to %q", got)
	}
}
