// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"encoding/json"
	"iter"
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
	switch v := value.(type) {
	case string:
		if len(v) >= shortestValue {
			texts = append(texts, v)
		}
	case json.Number:
		return TextsOf(v.String())
	case map[string]any:
		for key, item := range v {
			if !slices.Contains(hostNames, key) {
				texts = append(texts, TextsOf(item)...)
			}
		}
	case []any:
		for _, item := range v {
			texts = append(texts, TextsOf(item)...)
		}
	}
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
func Secrets(message string, secrets []string, written ...string) string {
	if message == "" {
		return ""
	}
	return hideForms(message, formsOf(secrets), written)
}

// formsOf returns the spellings of each of the secrets, which are many: they are computed once for several messages.
func formsOf(secrets []string) [][]string {
	var all [][]string
	for _, secret := range secrets {
		all = append(all, spellings(string([]rune(secret)))) // JSON, in which it was sent, has no bytes that are not UTF-8
	}
	return all
}

// hideForms is Secrets for secrets in all of their spellings.
func hideForms(message string, secrets [][]string, written []string) string {
	message = echoedPatch.ReplaceAllString(cut(message, longestAnswer), "$1. $2")
	s := newSieve(message, written)
	for _, forms := range secrets {
		for _, form := range forms {
			s.hideWhole(form)
		}
		s.hideRuns(forms)
		s.hideCut(forms)
	}
	return cut(NamedPasswords(s.strike()), longestMessage)
}

// sieve is a message of which parts are to be struck out.
type sieve struct {
	message string
	hidden  []bool
	// freeUntil is, for each index, the end of the longest part that begins there or before and is left as it is.
	freeUntil []int
}

func newSieve(message string, written []string) *sieve {
	s := &sieve{message: message, hidden: make([]bool, len(message)), freeUntil: make([]int, len(message)+1)}
	for _, text := range written {
		for from := range indexes(message, text) {
			s.freeUntil[from] = max(s.freeUntil[from], from+len(text))
		}
	}
	for i := range len(message) {
		s.freeUntil[i+1] = max(s.freeUntil[i+1], s.freeUntil[i])
	}
	return s
}

// indexes yields each index of text in message, also of those that overlap.
func indexes(message, text string) iter.Seq[int] {
	return func(yield func(int) bool) {
		for from := 0; text != "" && from < len(message); from++ {
			next := strings.Index(message[from:], text)
			if next < 0 {
				return
			}
			if from += next; !yield(from) {
				return
			}
		}
	}
}

// hideWhole hides a form of a secret wherever it is. One that is shorter than shortestPart is hidden only where it stands by
// itself: otherwise nothing would be left of a message, and the gaps would tell what the secret is.
func (s *sieve) hideWhole(form string) {
	for from := range indexes(s.message, form) {
		to := from + len(form)
		if len(form) >= shortestPart || !isWordAt(s.message, from-1) && !isWordAt(s.message, to) {
			s.hide(from, to)
		}
	}
}

func isWordAt(message string, at int) bool {
	if at < 0 || at >= len(message) {
		return false
	}
	c := message[at]
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= utf8.RuneSelf
}

// hideRuns hides each part of shortestRun bytes or more that is also a part of one of the forms.
func (s *sieve) hideRuns(forms []string) {
	message := s.message
	at := map[string][]int{}
	for i := 0; i+shortestRun <= len(message); i++ {
		window := message[i : i+shortestRun]
		at[window] = append(at[window], i)
	}
	for _, form := range forms {
		for i := 0; i+shortestRun <= len(form); i++ {
			for _, from := range at[form[i:i+shortestRun]] {
				s.hide(from, from+shortestRun)
			}
			delete(at, form[i:i+shortestRun]) // marked once is enough
		}
	}
}

// cuts are where a text was cut off, or goes on.
var cuts = regexp.MustCompile(`\.\.+|…`)

// maxCuts is how many of these are looked at: whoever writes more does so to keep this server busy.
const maxCuts = 30

// hideCut hides what is left of a form that was cut, of shortestPart bytes or more.
func (s *sieve) hideCut(forms []string) {
	ends := [][]int{{0, 0}, {len(strings.TrimRight(s.message, ".…")), len(s.message)}}
	for _, at := range append(cuts.FindAllStringIndex(s.message, maxCuts), ends...) {
		before, after := s.message[:at[0]], s.message[at[1]:]
		for _, form := range forms {
			for n := min(len(form), len(before)+1, shortestRun+1) - 1; n >= shortestPart; n-- {
				if strings.HasSuffix(before, form[:n]) {
					s.hide(len(before)-n, len(before))
					break
				}
			}
			for n := min(len(form), len(after)+1, shortestRun+1) - 1; n >= shortestPart; n-- {
				if strings.HasPrefix(after, form[len(form)-n:]) {
					s.hide(at[1], at[1]+n)
					break
				}
			}
		}
	}
}

func (s *sieve) hide(from, to int) {
	if s.freeUntil[from] >= to {
		return
	}
	for i := from; i < to; i++ {
		s.hidden[i] = true
	}
}

// strike replaces what is hidden.
func (s *sieve) strike() string {
	var kept strings.Builder
	for i := range len(s.message) {
		switch {
		case !s.hidden[i]:
			kept.WriteByte(s.message[i])
		case i == 0 || !s.hidden[i-1]:
			kept.WriteString(redacted)
		}
	}
	return strings.ToValidUTF8(kept.String(), "") // a part of a secret may end within a character
}

var (
	// namedPassword is a password by its name, in JSON, in Python's repr, in a
	// command line or configuration file.
	namedPassword = regexp.MustCompile(`(?i)([\w.-]*(?:password|passwd|pull_secret|auth_token|snmp_community|priv_key|auth_key)\\*["']?\s*(?:[:=]|, )\s*)` +
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
	text = namedPassword.ReplaceAllString(text, "${1}"+redacted)
	text = urlPassword.ReplaceAllStringFunc(text, func(found string) string {
		if imageDigest.MatchString(found) {
			return found
		}
		return "://" + redacted + found[strings.LastIndex(found, "@"):]
	})
	return authorization.ReplaceAllString(text, "${1}"+redacted)
}

// cut shortens text to at most n bytes, and says so.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "..."
}
