// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"golang.org/x/text/width"
	"k8s.io/cli-runtime/pkg/printers"
)

// Clean makes text from outside fit for one line of a terminal: an error message of a BMC must
// not be able to move the cursor or change the title of a window. Line breaks and tabs become
// spaces, escape characters are shown as kubectl shows them, and other control characters,
// those that turn the direction of text included, are left out.
func Clean(text string) string { return strings.TrimSpace(printable(text)) }

// CleanLines is Clean for each line of a text that has lines of its own.
func CleanLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(printable(line), " ")
	}
	return strings.Join(lines, "\n")
}

func printable(text string) string {
	return printers.EscapeTerminal(strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t' || r == '\u2028' || r == '\u2029':
			return ' '
		case r == '\x1b':
			return r // shown by EscapeTerminal
		case isHidden(r) || r == unicode.ReplacementChar:
			return -1
		}
		return r
	}, text))
}

// isHidden is of characters that control a terminal, or the direction of text.
func isHidden(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

// JSONWriter returns a writer of JSON that writes those characters as \u, which encoders do for the
// ASCII ones only. What is read from the JSON is the same. Each write must be of whole characters.
func JSONWriter(w io.Writer) io.Writer { return jsonWriter{w} }

type jsonWriter struct{ to io.Writer }

// Write implements io.Writer.
func (w jsonWriter) Write(p []byte) (int, error) {
	var escaped strings.Builder
	for _, r := range string(p) {
		if r >= 0x7f && isHidden(r) { // below are the line breaks of the JSON itself
			fmt.Fprintf(&escaped, `\u%04x`, r)
		} else {
			escaped.WriteRune(r)
		}
	}
	if _, err := io.WriteString(w.to, escaped.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// cells returns how many columns of a terminal a text takes.
func cells(text string) int {
	n := 0
	for _, r := range text {
		n += runeCells(r)
	}
	return n
}

func runeCells(r rune) int {
	if r < 0x300 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// cut shortens a text to a number of columns. What is cut ends in "…".
func cut(text string, columns int) string {
	if cells(text) <= columns {
		return text
	}
	if columns <= 0 {
		return ""
	}
	n := 0
	for i, r := range text {
		n += runeCells(r)
		if n > columns-1 {
			return text[:i] + "…"
		}
	}
	return text
}

// pad cuts or fills a text to a number of columns.
func pad(text string, columns int) string {
	text = cut(text, columns)
	return text + strings.Repeat(" ", max(0, columns-cells(text)))
}

// Wrap cleans a text and breaks it between words into lines of at most that many columns; 0 means
// that it is not broken. A word that is longer gets a line of its own.
func Wrap(text string, columns int) []string {
	text = Clean(text)
	if columns <= 0 {
		return []string{text}
	}
	var lines []string
	line, used := "", 0
	for _, word := range strings.Fields(text) {
		n := cells(word)
		if used > 0 && used+1+n > columns {
			lines = append(lines, line)
			line, used = "", 0
		}
		if used > 0 {
			line += " "
			used++
		}
		line += word
		used += n
	}
	return append(lines, line)
}
