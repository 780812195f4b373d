// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// screen is what a terminal shows. It knows the escape sequences that the plugin uses.
type screen struct {
	cells         [][]cell
	row, column   int
	style         cellStyle
	width, height int
}

type cell struct {
	char  rune
	style cellStyle
}

// cellStyle is how a terminal draws a character: its colour by the number of SGR, 0 for the usual one.
type cellStyle struct {
	color             int
	bold, dim, invert bool
}

func newScreen(width, height int) *screen {
	s := &screen{width: width, height: height}
	s.clear()
	return s
}

func (s *screen) clear() {
	s.cells = make([][]cell, s.height)
	for i := range s.cells {
		s.cells[i] = make([]cell, s.width)
	}
}

// Write draws what a program has written. A sequence must not be split between two calls. What is written
// below the last line is lost.
func (s *screen) Write(output []byte) (int, error) {
	for rest := output; len(rest) > 0; {
		if rest[0] == '\x1b' {
			n := 2
			for n < len(rest) && (rest[n] < '@' || rest[n] > '~') {
				n++
			}
			if n >= len(rest) || rest[1] != '[' {
				return 0, fmt.Errorf("the terminal of this test does not know %q", rest[:min(len(rest), 10)])
			}
			if err := s.control(string(rest[2:n]), rest[n]); err != nil {
				return 0, err
			}
			rest = rest[n+1:]
			continue
		}
		char, n := utf8.DecodeRune(rest)
		rest = rest[n:]
		switch {
		case char == '\r':
			s.column = 0
		case char == '\n':
			s.row++
		case char < ' ':
			return 0, fmt.Errorf("the program writes %q to the terminal", char)
		default:
			if s.column == s.width { // terminals wrap
				s.row, s.column = s.row+1, 0
			}
			if s.row < s.height {
				s.cells[s.row][s.column] = cell{char, s.style}
			}
			s.column++
		}
	}
	return len(output), nil
}

// control does what the sequence CSI parameters final asks for.
func (s *screen) control(parameters string, final byte) error {
	switch {
	case final == 'h' || final == 'l': // modes: the cursor, the other screen, synchronized output
	case final == 'm':
		for _, p := range strings.Split(parameters, ";") {
			switch n, _ := strconv.Atoi(p); {
			case n == 0:
				s.style = cellStyle{}
			case n == 1:
				s.style.bold = true
			case n == 2:
				s.style.dim = true
			case n == 7:
				s.style.invert = true
			case n >= 30 && n < 38:
				s.style.color = n
			default:
				return fmt.Errorf("the terminal of this test does not know the style %q", parameters)
			}
		}
	case final == 'H':
		if _, err := fmt.Sscanf(parameters, "%d;%d", &s.row, &s.column); err != nil {
			return fmt.Errorf("the cursor is to move to %q: %w", parameters, err)
		}
		s.row, s.column = s.row-1, s.column-1
	case final == 'K' && parameters == "":
		if s.row < s.height {
			clear(s.cells[s.row][min(s.column, s.width):])
		}
	case final == 'J' && parameters == "2":
		s.clear()
	default:
		return fmt.Errorf("the terminal of this test does not know CSI %s%c", parameters, final)
	}
	return nil
}

// text returns the lines of the screen.
func (s *screen) text() string {
	var b strings.Builder
	for _, line := range s.cells {
		var l strings.Builder
		for _, c := range line {
			if c.char == 0 {
				c.char = ' '
			}
			l.WriteRune(c.char)
		}
		b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
	return b.String()
}

// The colours of the picture. It has its own background, so it can be read on any page.
const (
	background = "#0d1117"
	foreground = "#e6edf3"
	dimmed     = "#9198a1"
	border     = "#6e7681"
)

var palette = map[int]string{0: foreground, 31: "#ff7b72", 32: "#7ee787", 33: "#f2cc60", 36: "#76e3ea"}

// The size of a cell, in pixels.
const (
	cellWidth, cellHeight = 8.4, 19
	margin                = 16
)

// svg draws the screen as a picture.
func (s *screen) svg(title string) string {
	used := s.height
	for used > 0 && strings.TrimSpace(s.lineText(used-1)) == "" {
		used--
	}
	width, height := int(math.Ceil(float64(s.width)*cellWidth))+2*margin, used*cellHeight+2*margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" role="img">`+"\n", width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n", html.EscapeString(title))
	fmt.Fprintf(&b, `<rect x="0.5" y="0.5" width="%d" height="%d" rx="8" fill="%s" stroke="%s"/>`+"\n", width-1, height-1, background, border)
	fmt.Fprintf(&b, `<g font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="14" xml:space="preserve">`+"\n")
	for row, line := range s.cells[:used] {
		for from := 0; from < s.width; {
			to := from + 1
			for to < s.width && line[to].style == line[from].style {
				to++
			}
			s.drawRun(&b, row, from, line[from:to])
			from = to
		}
	}
	b.WriteString("</g>\n</svg>\n")
	return b.String()
}

func (s *screen) lineText(row int) string { return strings.Split(s.text(), "\n")[row] }

// drawRun draws characters of one style.
func (s *screen) drawRun(b *strings.Builder, row, column int, run []cell) {
	style := run[0].style
	color, weight := palette[style.color], ""
	if style.dim {
		color = dimmed
	}
	x, y := margin+float64(column)*cellWidth, margin+row*cellHeight
	if style.invert {
		fmt.Fprintf(b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n", x, y, float64(len(run))*cellWidth, cellHeight, color)
		color = background
	}
	if style.bold {
		weight = ` font-weight="bold"`
	}
	// Each word is placed by itself, because fonts differ in the width of their characters.
	for from := 0; from < len(run); {
		if run[from].char == 0 || run[from].char == ' ' {
			from++
			continue
		}
		to, word := from, ""
		for to < len(run) && run[to].char != 0 && run[to].char != ' ' {
			word += string(run[to].char)
			to++
		}
		fmt.Fprintf(b, `<text x="%.1f" y="%d" textLength="%.1f" lengthAdjust="spacingAndGlyphs" fill="%s"%s>%s</text>`+"\n",
			x+float64(from)*cellWidth, y+14, float64(to-from)*cellWidth, color, weight, html.EscapeString(word))
		from = to
	}
}
