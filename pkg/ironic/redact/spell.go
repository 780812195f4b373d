// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// longestNested is the length up to which a text is looked for in all spellings, and in one within another, such as JSON in
	// JSON. Longer ones, such as user data, are found by their parts.
	longestNested = 256
	// longestPiece is as much of a longer text as is spelled at a time, and overlap as much of it as is spelled once more with the next
	// piece: shortestRun bytes of a spelling never stand for more.
	longestPiece, overlap = 4 << 10, 32
)

// The bounds of what is done about the texts that Ironic says at once. Without them, users could keep this server busy, and fill its
// memory, by what they send, since the spellings of a text have up to a thousand times its length.
const (
	// maxCost bounds the bytes that are looked for in the texts; each that has to be spelled before counts as spellingCost. That is
	// enough for user data of 250 KiB, or for the network data of 500 network interfaces.
	maxCost, spellingCost = 32 << 20, 4
	// maxKept is how many bytes of spellings are kept for the next text.
	maxKept = 1 << 20
)

// errTooMuch is why words are withheld in which it would take too long to look for what was sent.
var errTooMuch = errors.New("it would take too long to look for all that was sent to Ironic, whose log has these words")

// speller spells secrets.
type speller struct {
	secrets []string
	// left is what is left of maxCost. When it is negative, the secrets are not spelled any more.
	left int
	// kept are the forms of the first secrets.
	kept      []forms
	keptBytes int
	// spelled is how many bytes were spelled, for tests.
	spelled int
}

// forms are the spellings of a piece of a secret.
type forms struct {
	piece
	texts []string
}

func newSpeller(secrets []string) *speller {
	return &speller{secrets: distinct(slices.Clone(secrets)), left: maxCost}
}

// all yields the forms of all secrets, one after the other, until too much was spent: they are too many to be kept in memory.
func (s *speller) all(yield func(forms) bool) {
	n := 0
	for _, secret := range s.secrets {
		for piece := range pieces(secret) {
			if s.left < 0 {
				return
			}
			f := forms{piece: piece}
			if n < len(s.kept) {
				f = s.kept[n]
			} else {
				f.texts = spellings(piece.text)
				bytes := 0
				for _, text := range f.texts {
					bytes += len(text)
				}
				s.spelled += bytes
				s.left -= spellingCost * bytes
				if len(s.kept) == n && s.keptBytes+bytes <= maxKept {
					s.kept, s.keptBytes = append(s.kept, f), s.keptBytes+bytes
				}
			}
			if n++; !yield(f) {
				return
			}
		}
	}
}

// spellings returns the forms that a text takes in what Ironic, its drivers and BMCs write: as it is, in Python's repr,
// JSON, URLs, a shell's command line, XML and base64, and in one of these within another.
func spellings(text string) []string {
	forms := append(usual(text), text)
	if len(text) <= longestNested {
		forms = distinct(append(forms, unusual(text)...))
		for _, form := range forms {
			forms = append(forms, usual(form)...)
		}
	}
	return distinct(forms)
}

// piece is a part of a secret, with its begin or its end, or both.
type piece struct {
	text       string
	begin, end bool
}

// pieces yields the pieces of a secret, of which most have only one.
func pieces(secret string) iter.Seq[piece] {
	return func(yield func(piece) bool) {
		text := secret
		if !utf8.ValidString(text) {
			text = string([]rune(text)) // JSON, in which it was sent, has no bytes that are not UTF-8
		}
		atRune := func(i int) int {
			for i < len(text) && !utf8.RuneStart(text[i]) {
				i--
			}
			return i
		}
		for to := 0; to < len(text); {
			from := atRune(max(to-overlap, 0))
			to = atRune(min(from+longestPiece, len(text)))
			if !yield(piece{text[from:to], from == 0, to == len(text)}) {
				return
			}
		}
	}
}

// distinct sorts texts, and drops those that are there already or empty.
func distinct(texts []string) []string {
	slices.Sort(texts)
	return slices.DeleteFunc(slices.Compact(texts), func(text string) bool { return text == "" })
}

// replacers are the spellings that replace some characters.
var replacers = []*strings.Replacer{
	strings.NewReplacer(`'`, `'"'"'`), // Python's shlex
	strings.NewReplacer(`'`, `'\''`),
	strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`"), // a shell's word in quotation marks
	inXML(), inXML(`"`, "&quot;"), inXML(`"`, "&quot;", `'`, "&apos;"), inXML(`"`, "&quot;", `'`, "&#x27;"), inXML(`"`, "&#34;", `'`, "&#39;"),
	inXML("\n", "&#10;", "\r", "&#13;", "\t", "&#9;"), inXML(`"`, "&quot;", "\n", "&#10;", "\r", "&#13;", "\t", "&#9;"),
	inXML(`"`, "&#34;", `'`, "&#39;", "\n", "&#xA;", "\r", "&#xD;", "\t", "&#x9;"),
}

func inXML(more ...string) *strings.Replacer {
	return strings.NewReplacer(append([]string{"&", "&amp;", "<", "&lt;", ">", "&gt;"}, more...)...)
}

// usual returns text in the spellings that are often within one another.
func usual(text string) []string {
	inGo := strconv.QuoteToASCII(text)
	forms := []string{inGo[1 : len(inGo)-1], inPython(text, `'`), inPython(text, `"`), inJSON(text, true), inJSON(text, false), inPythonJSON(text)}
	for _, safe := range []string{"", "/", "-_.~", "-_.~/"} {
		escaped := inURL(text, safe)
		forms = append(forms, escaped, strings.ReplaceAll(escaped, "%20", "+"))
	}
	return append(forms, inBase64(text)...)
}

// unusual returns text in the other spellings.
func unusual(text string) []string {
	inGo := strconv.Quote(text)
	forms := []string{inGo[1 : len(inGo)-1], inPython(text, ``), inPythonBytes(text), inPythonASCII(text)}
	for _, replacer := range replacers {
		forms = append(forms, replacer.Replace(text))
	}
	hex := "%" + strings.ReplaceAll(fmt.Sprintf("% X", text), " ", "%")
	escaped := []string{hex, url.PathEscape(text)}
	for _, safe := range []string{"", "/", "-_.~", "-_.~/", "-_.~!$&'()*+,;=:@", "-_.~!$&'()*+,;=:@/"} {
		escaped = append(escaped, inURL(text, safe))
	}
	for _, form := range escaped {
		lower := lowerHex(form)
		forms = append(forms, form, lower, strings.ReplaceAll(form, "%20", "+"), strings.ReplaceAll(lower, "%20", "+"))
	}
	return forms
}

// inPython spells text as Python's repr of a str does, between the given quotes.
func inPython(text, quote string) string {
	var b strings.Builder
	for _, r := range text {
		switch c := string(r); {
		case c == quote, r == '\\':
			b.WriteString(`\` + c)
		case r == '\n', r == '\r', r == '\t', !unicode.IsPrint(r):
			b.WriteString(pythonEscape(r))
		default:
			b.WriteString(c)
		}
	}
	return b.String()
}

// inPythonASCII is inPython with all that is not ASCII escaped, as ascii() does.
func inPythonASCII(text string) string {
	var b strings.Builder
	for _, r := range inPython(text, `'`) {
		if r > unicode.MaxASCII {
			b.WriteString(pythonEscape(r))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func pythonEscape(r rune) string {
	switch {
	case r == '\n':
		return `\n`
	case r == '\r':
		return `\r`
	case r == '\t':
		return `\t`
	case r <= 0xff:
		return fmt.Sprintf(`\x%02x`, r)
	case r <= 0xffff:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}

// inPythonBytes spells text as Python's repr of bytes does.
func inPythonBytes(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		switch {
		case c == '\'', c == '\\':
			b.WriteString(`\` + string(rune(c)))
		case c < ' ' || c > '~':
			b.WriteString(pythonEscape(rune(c)))
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// inJSON spells text as Go does, optionally with <, > and & as \u003c and so on.
func inJSON(text string, escapeHTML bool) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(escapeHTML)
	if encoder.Encode(text) != nil {
		return "" // a string always encodes
	}
	return b.String()[1 : b.Len()-2] // without the quotes and the line break
}

// inPythonJSON spells text as Python's json does: with all that is not ASCII as UTF-16.
func inPythonJSON(text string) string {
	var b strings.Builder
	for _, r := range inJSON(text, false) {
		switch {
		case r <= unicode.MaxASCII:
			b.WriteRune(r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		}
	}
	return b.String()
}

// inURL spells text with all bytes escaped except letters, digits and safe ones.
func inURL(text, safe string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(safe, c) >= 0 {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte("0123456789ABCDEF"[c>>4])
			b.WriteByte("0123456789ABCDEF"[c&15])
		}
	}
	return b.String()
}

// lowerHex returns a text of inURL with %2f instead of %2F.
func lowerHex(escaped string) string {
	b := []byte(escaped)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], strings.ToLower(string(b[i+1:i+3])))
		}
	}
	return string(b)
}

// inBase64 returns the characters that stand for text alone, wherever it begins in what was encoded, and those with its
// end, as after "user:".
func inBase64(text string) []string {
	var forms []string
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		for before := range 3 {
			encoded := encoding.EncodeToString(append(make([]byte, before), text...))
			first := []int{0, 2, 3}[before]       // the first character without a bit of what is before
			whole := (before + len(text)) * 8 / 6 // the characters without a bit of what follows
			ends := []string{strings.TrimRight(encoded[first:], "="), encoded[first:max(whole, first)]}
			for i, form := range ends { // which differ from the rest of encoded in nothing else
				if len(text) > longestNested {
					ends[i] = form[len(form)-shortestRun:]
				}
			}
			forms = append(forms, append(ends, encoded[first:])...)
		}
	}
	return slices.DeleteFunc(forms, func(form string) bool { return len(form) < shortestPart }) // which could be anything
}
