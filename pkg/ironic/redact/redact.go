// Package redact removes secrets from what Ironic says. Ironic and its drivers quote
// what they were sent: in the answer to a request, or later in last_error. None of the
// secrets in it may reach those who read a host.
package redact

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	// redacted stands for what was taken out.
	redacted = "******"
	// shortestRun is how many bytes of a text that was sent are taken for a quotation.
	shortestRun = 12
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

// spellings are the forms that a text takes within JSON, Python's repr, URLs and
// headers.
func spellings(text string) []string {
	escaped := strconv.QuoteToASCII(text)
	forms := []string{text, escaped[1 : len(escaped)-1], url.QueryEscape(text), url.PathEscape(text), base64.StdEncoding.EncodeToString([]byte(text))}
	if inJSON, err := json.Marshal(text); err == nil { // with < and > as \u003c and \u003e
		forms = append(forms, string(inJSON[1:len(inJSON)-1]))
	}
	var plain strings.Builder
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(text) == nil {
		inJSON := strings.TrimSuffix(plain.String(), "\n")
		forms = append(forms, inJSON[1:len(inJSON)-1])
	}
	python := strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "\t", `\t`, "\r", `\r`).Replace(text)
	forms = append(forms, python, strings.ReplaceAll(python, `\'`, `'`))
	for _, form := range slices.Clone(forms) { // JSON within JSON
		forms = append(forms, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(form))
	}
	slices.Sort(forms)
	return slices.Compact(forms)
}

// echoedPatch is how Ironic repeats a JSON patch that it cannot apply, values
// and passwords included.
var echoedPatch = regexp.MustCompile(`(?s)(Couldn't apply patch) '.*'\. (Reason:)`)

// Secrets removes what must not be shown from Ironic's words: the secrets
// that were sent, in any spelling, parts of the longer ones, and what looks like
// a password by its name.
func Secrets(message string, secrets []string) string {
	message = echoedPatch.ReplaceAllString(cut(message, longestAnswer), "$1. $2")
	var forms []string
	for _, secret := range secrets {
		forms = append(forms, spellings(secret)...)
	}
	// The longest first, so that one within another is covered too.
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	for _, form := range forms {
		message = strings.ReplaceAll(message, form, redacted)
	}
	message = redactRuns(message, forms)
	return cut(NamedPasswords(message), longestMessage)
}

// redactRuns replaces each part of message, of shortestRun bytes or more, that is
// also a part of one of the texts.
func redactRuns(message string, texts []string) string {
	at := map[string][]int{}
	for i := 0; i+shortestRun <= len(message); i++ {
		window := message[i : i+shortestRun]
		at[window] = append(at[window], i)
	}
	quoted := make([]bool, len(message))
	for _, text := range texts {
		for i := 0; i+shortestRun <= len(text); i++ {
			for _, from := range at[text[i:i+shortestRun]] {
				for j := range shortestRun {
					quoted[from+j] = true
				}
			}
			delete(at, text[i:i+shortestRun]) // marked once is enough
		}
	}
	var kept strings.Builder
	for i := range len(message) {
		switch {
		case !quoted[i]:
			kept.WriteByte(message[i])
		case i == 0 || !quoted[i-1]:
			kept.WriteString(redacted)
		}
	}
	return kept.String()
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
// wrote some time after it was sent the password.
func NamedPasswords(text string) string {
	if text == "" {
		return ""
	}
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
