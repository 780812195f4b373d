// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

func TestFrame(t *testing.T) {
	for name, c := range map[string]struct {
		keys          []Key
		width, height int
	}{
		"frame":          {nil, 120, 12},
		"frame-80":       {nil, 80, 12},
		"frame-small":    {nil, 40, 6},
		"frame-problems": {[]Key{"p"}, 100, 8},
		"frame-busy":     {[]Key{"b"}, 100, 8},
		"frame-sorted":   {[]Key{"s", "s", "s", "s"}, 100, 12},
		"frame-typing":   {[]Key{"/", "w", "o", "x", KeyBackspace, "r"}, 100, 12},
		"frame-filtered": {[]Key{"/", "n", "o", "d", "e", "-", "a", KeyEnter}, 100, 8},
		"frame-nothing":  {[]Key{"/", "?", KeyEnter}, 100, 6},
		"frame-scrolled": {[]Key{KeyDown, KeyDown}, 100, 6},
	} {
		t.Run(name, func(t *testing.T) {
			f := &Fleet{Rows: fleet(), Sort: SortByName}
			f.Frame(c.width, c.height, now)
			for _, key := range c.keys {
				if !f.Press(key) {
					t.Fatalf("%q ended the view", key)
				}
			}
			lines := f.Frame(c.width, c.height, now)
			fits(t, lines, c.width, c.height)
			golden(t, name+".txt", lines)
		})
	}
}

func TestKeysThatEndTheView(t *testing.T) {
	f := &Fleet{Rows: fleet()}
	if f.Press("q") || f.Press(KeyInterrupt) {
		t.Error("the view goes on")
	}
	f.Press("/")
	if !f.Press("q") || f.Filter != "q" {
		t.Error("q ends the view while a filter is typed")
	}
	if f.Press(KeyInterrupt) {
		t.Error("Ctrl-C does not end the view while a filter is typed")
	}
}

// TestScrolling: the view stays within the hosts, however many there are of a sudden.
func TestScrolling(t *testing.T) {
	f := &Fleet{Rows: many(1000), Sort: SortByName}
	f.Frame(80, 24, now)
	f.Press(KeyEnd)
	lines := f.Frame(80, 24, now)
	if !strings.Contains(lines[len(lines)-2], "host-0999") {
		t.Errorf("the last line is %q", lines[len(lines)-2])
	}
	f.Rows = many(5)
	if lines := f.Frame(80, 24, now); !strings.Contains(lines[2], "host-0000") {
		t.Errorf("the first line is %q", lines[2])
	}
	for range 10 {
		f.Press(KeyPageUp)
	}
	if f.Offset != 0 {
		t.Errorf("the offset is %d", f.Offset)
	}
}

func TestFrameNeverPanics(t *testing.T) {
	for width := range 50 {
		for height := range 6 {
			(&Fleet{Rows: fleet(), Sort: SortByName}).Frame(width, height, now)
			(&Fleet{}).Frame(width, height, now)
		}
	}
}

// BenchmarkFrame draws 1,000 hosts. A frame has to be much quicker than the 150 ms between two.
func BenchmarkFrame(b *testing.B) {
	f := &Fleet{Rows: many(1000), Sort: SortByProblem}
	for b.Loop() {
		f.Frame(160, 50, now)
	}
}

func many(n int) []Row {
	rows := make([]Row, n)
	for i := range rows {
		rows[i].Host = host(fmt.Sprintf("host-%04d", i), metal3.StateProvisioning, ironic("clean wait", "power on", "", "deploy.erase_devices"))
	}
	return rows
}

func TestWaitings(t *testing.T) {
	rows := fleet()
	all := []Waiting{
		{Row: rows[0], Done: true, Took: 6 * time.Minute},
		{Row: rows[1], Usual: "the last 3 deployments took 6m to 9m", LastStep: "clean erase_devices_metadata", LastStepTook: 4 * time.Second},
		{Row: rows[2]},
		{Row: rows[3], Failed: rows[3].Host.Status.ErrorMessage},
		{Row: rows[5]},
		{Row: rows[6], Gone: true, Done: true, Took: time.Minute},
	}
	for _, size := range [][2]int{{120, 24}, {80, 24}, {60, 5}} {
		lines := Waitings(all, size[0], size[1], now, Style{})
		fits(t, lines, size[0], size[1]-1)
		golden(t, fmt.Sprintf("waiting-%d.txt", size[0]), lines)
	}
	var plain []string
	for i := range all {
		plain = append(plain, PlainWaiting(&all[i], now))
	}
	golden(t, "waiting-plain.txt", plain)
}
