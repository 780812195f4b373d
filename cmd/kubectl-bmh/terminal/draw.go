// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"fmt"
	"io"
	"strings"
)

// Escape sequences of all terminals in use. Terminals that do not know synchronized output
// ignore it; the others show a frame only when it is complete.
const (
	hideCursor   = "\x1b[?25l"
	showCursor   = "\x1b[?25h"
	otherScreen  = "\x1b[?1049h"
	usualScreen  = "\x1b[?1049l"
	beginFrame   = "\x1b[?2026h"
	endFrame     = "\x1b[?2026l"
	clearScreen  = "\x1b[2J"
	clearToRight = "\x1b[K"
	clearBelow   = "\x1b[J"
)

// Screen draws frames that fill a terminal. Only lines that have changed are written, each
// frame with one write, so that nothing flickers. Close restores what was on the terminal before.
type Screen struct {
	out           io.Writer
	last          []string
	width, height int
}

// NewScreen switches the terminal to a screen of its own, without a cursor.
func NewScreen(out io.Writer) (*Screen, error) {
	_, err := io.WriteString(out, otherScreen+hideCursor+clearScreen)
	return &Screen{out: out}, err
}

// Draw draws a frame: no more lines than the height, none longer than the width.
func (s *Screen) Draw(lines []string, width, height int) error {
	var b strings.Builder
	b.WriteString(beginFrame)
	if width != s.width || height != s.height {
		b.WriteString(clearScreen) // the terminal may have moved the lines
		s.last, s.width, s.height = nil, width, height
	}
	for i := range max(len(lines), len(s.last)) {
		line, isNew := "", i >= len(s.last)
		if i < len(lines) {
			line = lines[i]
		}
		if isNew || line != s.last[i] {
			fmt.Fprintf(&b, "\x1b[%d;1H%s%s", i+1, line, clearToRight)
		}
	}
	s.last = append(s.last[:0:0], lines...)
	if b.Len() == len(beginFrame) {
		return nil
	}
	b.WriteString(endFrame)
	_, err := io.WriteString(s.out, b.String())
	return err
}

// Close restores the terminal.
func (s *Screen) Close() error {
	_, err := io.WriteString(s.out, showCursor+usualScreen)
	return err
}

// Block draws some lines below what was printed before, and draws them again in the same place.
type Block struct {
	out   io.Writer
	lines int
}

// NewBlock begins a block, and hides the cursor until Close.
func NewBlock(out io.Writer) (*Block, error) {
	_, err := io.WriteString(out, hideCursor)
	return &Block{out: out}, err
}

// Draw replaces the lines of the block. None may be longer than the terminal is wide, and there
// must be fewer than it is high: a terminal that scrolls cannot be drawn over.
func (b *Block) Draw(lines []string) error {
	var s strings.Builder
	s.WriteString(beginFrame + b.back())
	for _, line := range lines {
		s.WriteString(line + clearToRight + "\n")
	}
	s.WriteString(clearBelow + endFrame)
	b.lines = len(lines)
	_, err := io.WriteString(b.out, s.String())
	return err
}

func (b *Block) back() string {
	if b.lines == 0 {
		return ""
	}
	return fmt.Sprintf("\r\x1b[%dA", b.lines)
}

// Close shows the cursor again and leaves the lines as they are.
func (b *Block) Close() error {
	_, err := io.WriteString(b.out, showCursor)
	return err
}
