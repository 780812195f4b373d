// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"strings"
	"unicode/utf8"
)

// MaxSentence is how many characters the first sentence of an error has at most.
const MaxSentence = 100

// Lead returns the text of an error with a first sentence that is short and says what has happened. If it is known what the text means, that
// is put in front, and otherwise what Shorten does.
func Lead(text, otherwise string) string {
	if m, known := Of(text); known {
		return prepend(m.What, text)
	}
	return Shorten(text, otherwise)
}

// Shorten returns a text with a first sentence that is short. If its own is too long, lead is put in front.
func Shorten(text, lead string) string {
	if utf8.RuneCountInString(firstOf(text)) <= MaxSentence {
		return text
	}
	return prepend(lead, text)
}

// prepend puts a sentence in front of a text that does not begin with it. An empty one is none.
func prepend(sentence, text string) string {
	if strings.HasPrefix(text, sentence) {
		return text
	}
	return sentence + " " + text
}

// First returns the first sentence of an error, which is cut if it is too long.
func First(text string) string {
	first := firstOf(text)
	if utf8.RuneCountInString(first) <= MaxSentence {
		return first
	}
	runes := []rune(first)
	return string(runes[:MaxSentence-1]) + "…"
}

// firstOf returns the first sentence of a text, or its first line if that is shorter. Full stops within addresses and the names of steps end
// none.
func firstOf(text string) string {
	text = strings.TrimSpace(text)
	if i := strings.IndexAny(text, "\r\n"); i >= 0 {
		text = strings.TrimSpace(text[:i])
	}
	if i := strings.Index(text, ". "); i >= 0 {
		return text[:i+1]
	}
	return text
}
