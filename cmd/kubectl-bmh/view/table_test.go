// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	for _, width := range []int{0, 160, 120, 80, 40} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			lines := Table(fleet(), Options{Width: width, Now: now})
			golden(t, fmt.Sprintf("table-%d.txt", width), lines)
			if width > 0 {
				fits(t, lines, width, len(lines))
			}
		})
	}
	golden(t, "table-wide.txt", Table(fleet(), Options{Namespaces: true, Wide: true, Now: now}))
	golden(t, "table-ascii.txt", Table(fleet(), Options{Width: 80, Now: now, Style: Style{ASCII: true}}))
}

// TestTableColor: colours take no columns, and are left out where they are not wanted.
func TestTableColor(t *testing.T) {
	colored := Table(fleet(), Options{Width: 100, Now: now, Style: Style{Color: true}})
	plain := Table(fleet(), Options{Width: 100, Now: now})
	for i := range plain {
		if got := withoutColors(colored[i]); got != plain[i] {
			t.Errorf("without colours %q, want %q", got, plain[i])
		}
		if !strings.Contains(colored[0], "\x1b[1m") {
			t.Errorf("the heading is not bold: %q", colored[0])
		}
	}
}

func withoutColors(line string) string {
	var b strings.Builder
	for i := 0; i < len(line); i++ {
		if line[i] == '\x1b' {
			i += strings.IndexByte(line[i:], 'm')
			continue
		}
		b.WriteByte(line[i])
	}
	return b.String()
}

// TestTableNeverPanics: any width will do.
func TestTableNeverPanics(t *testing.T) {
	for width := range 60 {
		Table(fleet(), Options{Width: width, Now: now})
		Table(nil, Options{Width: width, Now: now})
	}
}

func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"plain":                   "plain",
		"a\nb\r\nc\td":            "a b  c d",
		"\x1b[31mred":             "^[[31mred",
		"bell\a and \u009b31m":    "bell and 31m",
		"\u202eevil":              "evil",
		" space ":                 "space",
		"日本語":                     "日本語",
		string([]byte{0xff, 'x'}): "x",
	} {
		if got := Clean(text); got != want {
			t.Errorf("Clean(%q) is %q, want %q", text, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		text    string
		columns int
		want    string
	}{
		{"worker", 6, "worker"}, {"worker", 5, "work…"}, {"worker", 1, "…"}, {"worker", 0, ""}, {"日本語", 5, "日本…"}, {"日本語", 4, "日…"}, {"e\u0301e\u0301", 2, "e\u0301e\u0301"},
	} {
		if got := cut(c.text, c.columns); got != c.want {
			t.Errorf("cut(%q, %d) is %q, want %q", c.text, c.columns, got, c.want)
		}
	}
}

func TestWrap(t *testing.T) {
	got := strings.Join(Wrap("one two  three four-is-long five", 9), "|")
	if want := "one two|three|four-is-long|five"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
