// SPDX-License-Identifier: Apache-2.0

package weburl

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// The schemes of URLs. Ironic itself also knows file, which reads files of its own machine, and
// swift; its other image services take no URL.
var (
	// Image are those of images: what Ironic can fetch from a server or from a registry.
	Image = []string{"http", "https", "oci"}
	// Web are those of everything else.
	Web = []string{"http", "https"}
)

var (
	schemePattern = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.-]*:`)
	// digestPattern is of a checksum that names its algorithm, which Ironic accepts.
	digestPattern = regexp.MustCompile(`^(?i:md5|sha1|sha224|sha256|sha384|sha512):[0-9a-fA-F]+$`)
)

// IsURL reports whether anybody may take a text for a URL: it begins with a scheme. Parsers differ in
// how much they forgive. That of Python, which Ironic uses, drops spaces and control characters at the
// beginning, and line breaks and tabs anywhere; and file:/x names a file as file:///x does.
func IsURL(text string) bool {
	text = strings.TrimSpace(strings.Map(func(r rune) rune {
		if isHidden(r) {
			return -1
		}
		return r
	}, text))
	return schemePattern.MatchString(text) && !digestPattern.MatchString(text)
}

// Parse parses a URL that has one of the schemes. Its errors do not repeat any of it.
func Parse(text string, schemes []string) (*url.URL, error) {
	parsed, err := url.Parse(text)
	switch {
	case err != nil || parsed.Hostname() == "" || !slices.Contains(schemes, parsed.Scheme):
		return nil, fmt.Errorf("must be a URL with one of the schemes %s", strings.Join(schemes, ", "))
	case parsed.Scheme == "oci" && !strings.HasPrefix(text, "oci:"):
		return nil, errors.New("must begin with oci:// in lower case, because Ironic accepts no other spelling")
	case strings.HasSuffix(parsed.Host, ":"):
		// As of oci://https://registry.example/image, whose host a parser takes to be "https".
		return nil, errors.New("must be a URL with one scheme, and with a port where a colon follows the host")
	case strings.TrimSpace(text) != text || strings.ContainsFunc(text, isHidden):
		return nil, errors.New("must be a URL without control characters, and without spaces at its ends")
	case strings.ContainsFunc(parsed.Host, func(r rune) bool { return r > unicode.MaxASCII }):
		// Clients turn some of these into others, such as a full-width stop into a dot.
		return nil, errors.New("must be a URL whose host is written in ASCII, as in xn--bcher-kva.example")
	}
	return parsed, nil
}

// WithoutCredentials returns a URL with *** in place of its user name and password; has is false if it
// has none. The URL need not be valid.
func WithoutCredentials(text string) (shown string, has bool) {
	scheme, rest, found := strings.Cut(text, "://")
	authority := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority = rest[:end]
	}
	at := strings.LastIndex(authority, "@")
	if !found || at < 0 {
		return text, false
	}
	return scheme + "://***" + rest[at:], true
}

// isHidden is of control characters, and of those that have no width or change the direction of the text.
func isHidden(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) || r == unicode.ReplacementChar
}
