// SPDX-License-Identifier: Apache-2.0

package view

import (
	"slices"
	"unicode/utf8"
)

// Key is a key that was pressed: a character, or one of the names below.
type Key string

// The keys that are no characters.
const (
	KeyUp        Key = "up"
	KeyDown      Key = "down"
	KeyPageUp    Key = "page up"
	KeyPageDown  Key = "page down"
	KeyHome      Key = "home"
	KeyEnd       Key = "end"
	KeyEnter     Key = "enter"
	KeyEscape    Key = "escape"
	KeyBackspace Key = "backspace"
	KeyInterrupt Key = "ctrl-c"
)

// longestFilter is how many characters of a filter are kept.
const longestFilter = 200

// Press changes the view as a key asks for. It returns false if the key ends the view.
func (f *Fleet) Press(key Key) (goOn bool) {
	if key == KeyInterrupt {
		return false
	}
	if f.Typing {
		f.typeFilter(key)
		return true
	}
	switch key {
	case "q", "Q":
		return false
	case KeyEscape:
		f.Filter, f.Show, f.Offset = "", ShowAll, 0
	case "/":
		f.Typing = true
	case "s":
		f.Sort = SortKeys[(slices.Index(SortKeys, f.Sort)+1)%len(SortKeys)]
	case "r":
		f.Reverse = !f.Reverse
	case "p":
		f.toggle(ShowProblems)
	case "b":
		f.toggle(ShowBusy)
	case "w":
		f.Options.Wide = !f.Options.Wide
	case KeyUp, "k":
		f.scroll(-1)
	case KeyDown, "j":
		f.scroll(1)
	case KeyPageUp:
		f.scroll(-f.page)
	case KeyPageDown, " ":
		f.scroll(f.page)
	case KeyHome, "g":
		f.Offset = 0
	case KeyEnd, "G":
		f.Offset = max(0, f.shown-f.page)
	}
	return true
}

func (f *Fleet) scroll(lines int) {
	f.Offset = max(0, min(f.Offset+lines, f.shown-f.page))
}

func (f *Fleet) toggle(show Show) {
	if f.Show == show {
		show = ShowAll
	}
	f.Show, f.Offset = show, 0
}

func (f *Fleet) typeFilter(key Key) {
	switch key {
	case KeyEnter:
		f.Typing = false
	case KeyEscape:
		f.Typing, f.Filter = false, ""
	case KeyBackspace:
		_, size := utf8.DecodeLastRuneInString(f.Filter)
		f.Filter = f.Filter[:len(f.Filter)-size]
	default:
		if utf8.RuneCountInString(string(key)) == 1 && utf8.RuneCountInString(f.Filter) < longestFilter {
			f.Filter += string(key)
		}
	}
	f.Offset = 0
}
