// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"html"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// What Python makes of passwords is struck out as a whole. testdata/spellings.py has written it.
func TestPythonSpellings(t *testing.T) {
	content, err := os.ReadFile("testdata/spellings.json")
	if err != nil {
		t.Fatal(err)
	}
	var passwords map[string]map[string]string
	if err := json.Unmarshal(content, &passwords); err != nil {
		t.Fatal(err)
	}
	for password, forms := range passwords {
		for name, form := range forms {
			got := Secrets("Failed: "+form+" at BMC", []string{password})
			if left := left(got, "Failed: ", " at BMC"); len(left) > len(form)-len(password) && len(left) > 12 || strings.Contains(left, password) {
				t.Errorf("%s of %q: %q of %q is left", name, password, left, form)
			}
			if !strings.Contains(got, redacted) {
				t.Errorf("%s of %q: nothing of %q was struck out", name, password, form)
			}
		}
	}
}

// left returns what is left between two texts.
func left(got, before, after string) string {
	got = strings.TrimSuffix(strings.TrimPrefix(got, before), after)
	return strings.ReplaceAll(got, redacted, "")
}

// goForms are the spellings of Go, whose code has nothing in common with that of Secrets. Between two characters that
// occur in no password, nothing of them may be left but the quotes.
var goForms = map[string]func(string) string{
	"as it is":     func(s string) string { return s },
	"%q":           strconv.Quote,
	"%+q":          strconv.QuoteToASCII,
	"JSON":         func(s string) string { b, _ := json.Marshal(s); return string(b) },
	"JSON in JSON": func(s string) string { b, _ := json.Marshal(s); b, _ = json.Marshal(string(b)); return string(b) },
	"query":        url.QueryEscape,
	"path":         url.PathEscape,
	"all of it escaped": func(s string) string {
		var b strings.Builder
		for _, c := range []byte(s) {
			fmt.Fprintf(&b, "%%%02x", c)
		}
		return b.String()
	},
	"HTML": html.EscapeString,
	"XML": func(s string) string {
		var b strings.Builder
		_ = xml.EscapeText(&b, []byte(s))
		return b.String()
	},
	"shell":      func(s string) string { return `'` + strings.ReplaceAll(s, `'`, `'"'"'`) + `'` },
	"base64":     func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"raw base64": func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) },
	"basic":      func(s string) string { return base64.StdEncoding.EncodeToString([]byte("admin:" + s)) },
}

func checkForms(t interface{ Errorf(string, ...any) }, password string) {
	const before, after = "¤ ", " ¤"
	for name, form := range goForms {
		spelled := form(password)
		if strings.Contains(spelled, "\uFFFD") {
			continue // it is not the password any more
		}
		got := Secrets(before+spelled+after, []string{password})
		rest := strings.Trim(left(got, before, after), `"'\`)
		if name == "basic" {
			rest = strings.TrimPrefix(rest, "YWRtaW46")
		}
		if rest != "" {
			t.Errorf("%s of %q, %q: %q is left in %q", name, password, spelled, rest, got)
		}
		if len(spelled) < 2*shortestPart || !slices.Contains([]string{"as it is", "%q", "JSON", "query"}, name) {
			continue
		}
		// What was cut off.
		for _, n := range []int{shortestPart, len(spelled) - 1} {
			begin, end := strings.ToValidUTF8(spelled[:n], ""), strings.ToValidUTF8(spelled[len(spelled)-n:], "")
			for _, cut := range []string{before + begin + "...", before + begin, "..." + end + after} {
				rest := left(strings.ReplaceAll(Secrets(cut, []string{password}), "...", ""), before, after)
				if rest = strings.Trim(rest, `"'\`); len(rest) > shortestPart {
					t.Errorf("%s of %q, cut to %q: %q is left", name, password, cut, rest)
				}
			}
		}
	}
}

// isUsual reports whether a password is one of which nothing is left at all: it is not short, is no part of the marks, and
// does not look like a password by itself.
func isUsual(password string) bool {
	return len(password) >= shortestPart && utf8.ValidString(password) && !strings.ContainsAny(password, "¤*\uFFFD") &&
		!strings.Contains(password, "://") && strings.Trim(password, `"'\`) == password && !strings.Contains(password, "..") && !strings.Contains(password, "…")
}

func TestSpellings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runes := rapid.OneOf(rapid.RuneFrom([]rune(`'"\%&<>+/?=~!$;:{}[](),.-_ `+"`\n\r\t\x00\x07\x1b\x7f")), rapid.RuneFrom([]rune("aZ09éß漢😀\u00a0\u2028\U0010ffff")))
		password := rapid.StringOfN(runes, 4, 24, -1).Filter(isUsual).Draw(t, "password")
		checkForms(t, password)
	})
}

func FuzzSpellings(f *testing.F) {
	for _, password := range []string{"hunter22", `a'b"c\d%e`, "é😀\n\x00", "****", "password", "+ +/+", "&amp;", "%2f%2F", `\u0041`} {
		f.Add(password)
	}
	f.Fuzz(func(t *testing.T, password string) {
		if isUsual(password) && len(password) < 100 {
			checkForms(t, password)
		}
		Secrets(password+password[len(password)/2:], []string{password, password[:len(password)/2]}, password) // does not panic
	})
}

// A very short password is struck out where it stands by itself: elsewhere, it would leave nothing of a message.
func TestShortPasswords(t *testing.T) {
	for message, want := range map[string]string{
		"login of admin with 'e' refused": "login of admin with '" + redacted + "' refused",
		"-U admin -P e chassis":           "-U admin -P " + redacted + " chassis",
		"the BMC refused it":              "the BMC refused it",
		"éé e éé":                         "éé " + redacted + " éé",
	} {
		if got := Secrets(message, []string{"e"}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	// A common word is struck out as any other.
	if got, want := Secrets("the password is wrong", []string{"password"}), "the "+redacted+" is wrong"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Who controls a BMC decides what is in a message. What takes longer than in proportion to it would never end with these.
func TestHostileMessages(t *testing.T) {
	const nasty = `a'b"c\d%e&f<g>é😀/+?=~!$`
	for name, test := range map[string]struct{ message, secret, written string }{
		"cuts":           {strings.Repeat("a..", 1<<22), nasty, ""},
		"repetitions":    {strings.Repeat("a", 1<<22), strings.Repeat("a", longestNested), "a://"},
		"written texts":  {strings.Repeat("a://b", 1<<22), "://b", "a://b"},
		"long user data": {strings.Repeat(nasty, 1<<17), strings.Repeat(nasty+"\n", 1<<14), ""},
	} {
		t.Run(name, func(t *testing.T) { Secrets(test.message, []string{test.secret}, test.written) })
	}
}

// What a user wrote is left as it is, so that nobody finds out by it what the password is.
func TestWrittenTexts(t *testing.T) {
	const url, password = "http://x/correct-horse-battery", "correct-horse-battery"
	got := Secrets("HEAD of "+url+" failed, login with "+password+" too", []string{password}, url)
	if want := "HEAD of " + url + " failed, login with " + redacted + " too"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
