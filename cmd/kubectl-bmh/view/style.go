// SPDX-License-Identifier: Apache-2.0

package view

import (
	"math"
	"strings"
)

// Style is what a terminal can show. The zero value is plain text in UTF-8.
type Style struct {
	// Color allows escape sequences for colours.
	Color bool
	// ASCII forbids characters outside ASCII in what this package draws by itself.
	ASCII bool
}

// A paint is the number of an escape sequence for colours (SGR).
type paint string

const (
	plain  paint = ""
	bold   paint = "1"
	dim    paint = "2"
	red    paint = "31"
	green  paint = "32"
	yellow paint = "33"
	cyan   paint = "36"
	invert paint = "7"
)

func (s Style) paint(p paint, text string) string {
	if !s.Color || p == plain || text == "" {
		return text
	}
	return "\x1b[" + string(p) + "m" + text + "\x1b[0m"
}

// bar draws a bar of that many columns, of which a fraction is filled.
func (s Style) bar(fraction float64, columns int) string {
	full, empty := '█', '░'
	if s.ASCII {
		full, empty = '#', '.'
	}
	filled := int(math.Round(min(1, max(0, fraction)) * float64(columns)))
	runes := make([]rune, columns)
	for i := range runes {
		runes[i] = empty
		if i < filled {
			runes[i] = full
		}
	}
	return string(runes)
}

// ascii replaces the characters outside ASCII that this package draws.
func (s Style) ascii(text string) string {
	if !s.ASCII {
		return text
	}
	return asciiReplacer.Replace(text)
}

var asciiReplacer = strings.NewReplacer("→", "->", "…", "~", "·", "-", "↑", "^", "↓", "v", "▲", "^", "▼", "v")
