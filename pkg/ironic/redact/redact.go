// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"encoding/json"
	"hash/maphash"
	"iter"
	"math/bits"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// redacted stands for what was taken out.
	redacted = "******"
	// shortestRun is how many bytes of a text that was sent are taken for a quotation.
	shortestRun = 12
	// shortestPart is how many bytes of a text that was cut off are taken for a part of a secret. A secret that is shorter
	// than that is struck out only where it stands by itself.
	shortestPart = 4
	// shortestValue is how long a value of a config drive has to be to be secret by
	// itself: shorter ones are words such as "static".
	shortestValue = 8
	// longestAnswer is as much of an error as is looked at, longestMessage as is shown.
	longestAnswer, longestMessage = 64 << 10, 4 << 10
)

// SecretsIn returns the values of driver_info or instance_info that must never be shown.
func SecretsIn(info map[string]any) []string {
	var secrets []string
	for key, value := range info {
		text, ok := value.(string)
		if !ok || text == "" {
			continue
		}
		key = strings.ToLower(key)
		for _, word := range []string{"password", "secret", "token", "key", "community"} {
			if strings.Contains(key, word) {
				secrets = append(secrets, text)
				if _, password, pair := strings.Cut(text, ":"); pair && len(password) >= shortestValue {
					secrets = append(secrets, password) // an image_pull_secret is user:password
				}
				break
			}
		}
	}
	return secrets
}

// hostNames are the keys of a config drive that have names of the host, which
// everybody may see and Ironic's words are about.
var hostNames = []string{"uuid", "name", "local-hostname", "local_hostname", "metal3-name", "metal3-namespace"}

// TextsOf returns the texts of a config drive or of network data, which come
// from Secrets as a whole.
func TextsOf(value any) []string {
	var texts []string
	// One list for all of them: a list for each value would be copied as often as values are nested, thousands of times.
	var collect func(value any)
	collect = func(value any) {
		switch v := value.(type) {
		case string:
			if len(v) >= shortestValue {
				texts = append(texts, v)
			}
		case json.Number:
			collect(v.String())
		case map[string]any:
			for key, item := range v {
				if !slices.Contains(hostNames, key) {
					collect(item)
				}
			}
		case []any:
			for _, item := range v {
				collect(item)
			}
		}
	}
	collect(value)
	return texts
}

// echoedPatch is how Ironic repeats a JSON patch that it cannot apply, values
// and passwords included.
var echoedPatch = regexp.MustCompile(`(?s)(Couldn't apply patch) '.*'\. (Reason:)`)

// Secrets removes what must not be shown from Ironic's words: the secrets that were sent, in any of the spellings, parts
// of the longer ones, what a cut has left of them, and what looks like a password by its name.
//
// Users may have Ironic repeat texts of their own, such as a URL. If a part of these were compared with a secret, they
// would see whether they have guessed it. So what is within one of the written texts, which they know, is left as it is.
// What would take too long to look for is not looked for: the whole message is withheld then.
func Secrets(message string, secrets []string, written ...string) string {
	if message == "" {
		return ""
	}
	return hideSecrets(message, newSpeller(secrets), written)
}

// hideSecrets is Secrets for several messages.
func hideSecrets(message string, secrets *speller, written []string) string {
	if secrets.left < 0 {
		return Withheld + errTooMuch.Error()
	}
	message = echoedPatch.ReplaceAllString(cut(message, longestAnswer), "$1. $2")
	s := newSieve(message, written)
	for forms := range secrets.all {
		for _, form := range forms.texts {
			secrets.left -= s.hideWhole(form) + s.hideRuns(form)
			s.hideCut(form, forms.begin, forms.end)
		}
	}
	if secrets.left < 0 {
		return Withheld + errTooMuch.Error()
	}
	return cut(NamedPasswords(s.strike()), longestMessage)
}

// sieve is a message of which parts are to be struck out.
type sieve struct {
	message string
	// hideUntil is, for each index, the end of the longest part that begins there and is to be struck out.
	hideUntil []int
	// freeUntil is, for each index, the end of the longest part that begins there or before and is left as it is.
	freeUntil []int
	// runs and parts are where each shortestRun and each shortestPart bytes are.
	runs, parts places
	// isHidden is set for the places in runs that are struck out already.
	isHidden []bool
	// cutOff and goesOn are where the text that is the key was cut off, and where it goes on after a cut.
	cutOff, goesOn map[string][]int
}

func newSieve(message string, written []string) *sieve {
	s := &sieve{
		message: message, hideUntil: make([]int, len(message)), freeUntil: make([]int, len(message)+1),
		runs: newPlaces(message, shortestRun), parts: newPlaces(message, shortestPart), isHidden: make([]bool, len(message)),
		cutOff: map[string][]int{}, goesOn: map[string][]int{},
	}
	for _, text := range written {
		for from := range indexes(message, text) {
			s.freeUntil[from] = max(s.freeUntil[from], from+len(text))
		}
	}
	for i := range len(message) {
		s.freeUntil[i+1] = max(s.freeUntil[i+1], s.freeUntil[i])
	}
	ends := [][]int{{0, 0}, {len(strings.TrimRight(message, ".…")), len(message)}}
	for _, at := range append(cuts.FindAllStringIndex(message, maxCuts), ends...) {
		from, to := at[0], at[1]
		for n := shortestPart; n <= shortestRun; n++ {
			if n <= from {
				s.cutOff[message[from-n:from]] = append(s.cutOff[message[from-n:from]], from)
			}
			if n <= len(message)-to {
				s.goesOn[message[to:to+n]] = append(s.goesOn[message[to:to+n]], to)
			}
		}
	}
	return s
}

// places finds texts in a message by their first bytes: it is a hash table.
type places struct {
	message string
	width   int
	// first has, by hash, one more than the index where such bytes are first; next, by index, the same of where they are again.
	first, next []int32
}

// seed keeps those who write messages and secrets from choosing which of their parts have the same hash.
var seed = maphash.MakeSeed()

func newPlaces(message string, width int) places {
	p := places{message: message, width: width, first: make([]int32, 1<<bits.Len(uint(len(message)))), next: make([]int32, len(message))}
	for i := len(message) - width; i >= 0; i-- {
		slot := p.slot(message[i:])
		p.next[i], *slot = *slot, int32(i+1) // a message has at most longestAnswer bytes
	}
	return p
}

func (p places) slot(text string) *int32 {
	return &p.first[maphash.String(seed, text[:p.width])&uint64(len(p.first)-1)]
}

// of yields the indexes at which the message has the first bytes of text.
func (p places) of(text string) iter.Seq[int] {
	return func(yield func(int) bool) {
		for at := *p.slot(text); at > 0; at = p.next[at-1] {
			if strings.HasPrefix(p.message[at-1:], text[:p.width]) && !yield(int(at)-1) {
				return
			}
		}
	}
}

// indexes yields each index of text in message, also of those that overlap. However often a part of text is repeated in it, or in message,
// no byte of message is looked at more than twice.
func indexes(message, text string) iter.Seq[int] {
	return func(yield func(int) bool) {
		if text == "" || len(text) > len(message) {
			return
		}
		// The algorithm of Knuth, Morris and Pratt: again is how much of text is still matched if the byte after so much of it does not.
		again := make([]int, len(text)+1)
		for i, n := 1, 0; i < len(text); i++ {
			for n > 0 && text[i] != text[n] {
				n = again[n]
			}
			if text[i] == text[n] {
				n++
			}
			again[i+1] = n
		}
		for i, n := 0, 0; i < len(message); i++ {
			for n > 0 && message[i] != text[n] {
				n = again[n]
			}
			if message[i] == text[n] {
				n++
			}
			if n == len(text) {
				if !yield(i + 1 - n) {
					return
				}
				n = again[n]
			}
		}
	}
}

// hideWhole hides a form of a secret wherever it is, and returns the cost in bytes. One that is shorter than shortestPart is hidden only where
// it stands by itself: otherwise nothing would be left of a message, and the gaps would tell what the secret is.
func (s *sieve) hideWhole(form string) (cost int) {
	if len(form) < shortestPart {
		for from := range indexes(s.message, form) {
			if to := from + len(form); !isWordAt(s.message, from-1) && !isWordAt(s.message, to) {
				s.hide(from, to)
			}
		}
		return len(s.message)
	}
	candidates := s.parts
	if len(form) >= s.runs.width {
		candidates = s.runs
	}
	for from := range candidates.of(form) {
		cost += 1 + len(form)/32 // bytes are compared many at a time
		if strings.HasPrefix(s.message[from:], form) {
			s.hide(from, from+len(form))
		}
	}
	return cost
}

func isWordAt(message string, at int) bool {
	if at < 0 || at >= len(message) {
		return false
	}
	c := message[at]
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= utf8.RuneSelf
}

// hideRuns hides each part of shortestRun bytes or more that is also a part of a form, and returns the cost in bytes.
func (s *sieve) hideRuns(form string) (cost int) {
	for i := 0; i+shortestRun <= len(form); i++ {
		for from := range s.runs.of(form[i:]) {
			if s.isHidden[from] {
				break // and so are the others
			}
			s.isHidden[from] = true
			s.hide(from, from+shortestRun)
		}
	}
	return len(form)
}

// cuts are where a text was cut off, or goes on.
var cuts = regexp.MustCompile(`\.\.+|…`)

// maxCuts is how many of these are looked at: whoever writes more does so to keep this server busy.
const maxCuts = 30

// hideCut hides what is left of a form that was cut, of shortestPart bytes or more: of its begin before a cut, of its end after one.
func (s *sieve) hideCut(form string, begin, end bool) {
	for n := shortestPart; n <= min(len(form)-1, shortestRun); n++ {
		if begin {
			for _, at := range s.cutOff[form[:n]] {
				s.hide(at-n, at)
			}
		}
		if end {
			for _, at := range s.goesOn[form[len(form)-n:]] {
				s.hide(at, at+n)
			}
		}
	}
}

func (s *sieve) hide(from, to int) {
	if s.freeUntil[from] < to {
		s.hideUntil[from] = max(s.hideUntil[from], to)
	}
}

// strike replaces what is hidden.
func (s *sieve) strike() string {
	var kept strings.Builder
	wasHidden, until := false, 0
	for i := range len(s.message) {
		until = max(until, s.hideUntil[i])
		hidden := i < until
		switch {
		case !hidden:
			kept.WriteByte(s.message[i])
		case !wasHidden:
			kept.WriteString(redacted)
		}
		wasHidden = hidden
	}
	return strings.ToValidUTF8(kept.String(), "") // a part of a secret may end within a character
}

var (
	// passwordNames are what names of passwords end with.
	passwordNames = []string{"password", "passwd", "pull_secret", "auth_token", "snmp_community", "priv_key", "auth_key"}
	// namedPassword is a password by its name, in JSON, in Python's repr, in a
	// command line or configuration file.
	namedPassword = regexp.MustCompile(`(?i)([\w.-]*(?:` + strings.Join(passwordNames, "|") + `)\\*["']?\s*(?:[:=]|, )\s*)` +
		`(?:u?\\+"(?:[^"\\]|\\+[^"\\])*\\+"|u?"(?:[^"\\]|\\.)*"|u?'(?:[^'\\]|\\.)*'|[^\s,;&'"})\]]+)`)
	// urlPassword is user:password in a URL, and what looks like it.
	urlPassword = regexp.MustCompile(`://[^\s/@]*:[^\s]*@(?:sha(?:256|512):)?`)
	// imageDigest is what looks like it and is none: a registry with a port, an image
	// and its digest.
	imageDigest = regexp.MustCompile(`^://[^:@]*:[0-9]{1,5}/[^@]*@sha(?:256|512):$`)
	// authorization is what requests are authenticated by.
	authorization = regexp.MustCompile(`(?i)(authorization\W+(?:basic|bearer) +|x-auth-token\W+)[^\s'",;]+`)
)

// NamedPasswords strikes out what is a password by its name, in text that Ironic
// wrote some time after it was sent the password. It cuts the text to what is looked at of one: a BMC decides how long it is.
func NamedPasswords(text string) string {
	if text == "" {
		return ""
	}
	text = cut(text, longestAnswer)
	// Each poll has the last_error of each node, and the expressions took more time than all else that is done with them.
	if mayHave(text, passwordNames...) {
		text = namedPassword.ReplaceAllString(text, "${1}"+redacted)
	}
	if !strings.Contains(text, "://") && !mayHave(text, "authorization", "x-auth-token") {
		return text
	}
	text = urlPassword.ReplaceAllStringFunc(text, func(found string) string {
		if imageDigest.MatchString(found) {
			return found
		}
		return "://" + redacted + found[strings.LastIndex(found, "@"):]
	})
	return authorization.ReplaceAllString(text, "${1}"+redacted)
}

// mayHave reports whether a regular expression without regard to case may find one of some words of small ASCII letters.
func mayHave(text string, words ...string) bool {
	lower := strings.ToLower(text)
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(lower, word) }) ||
		strings.ContainsRune(lower, 'ſ') // which is an s to it
}

// cut shortens text to at most n bytes, and says so.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "..."
}
