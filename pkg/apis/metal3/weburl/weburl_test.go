// SPDX-License-Identifier: Apache-2.0

package weburl

import (
	"strings"
	"testing"
)

func TestIsURL(t *testing.T) {
	for _, text := range []string{
		"http://a/b", "HTTP://a", "file:///x", "file:/x", "file:x", "FILE:///x", " file:///x", "\tfile:/x", "\x00file:/x", "fi\nle:/x", "\u200bfile:/x", "\u009bfile:/x",
		"javascript:x", "a+b.c-1:", "sha256:http://a", "sha256:0123x", "user:secret@192.0.2.1",
	} {
		if !IsURL(text) {
			t.Errorf("%q is taken for no URL", text)
		}
	}
	for _, text := range []string{
		"", "d41d8cd98f00b204e9800998ecf8427e", "sha256:0123abcdef", "SHA512:00", "erase", "/dev/sda", "12:30", "a b: c", "192.0.2.1:80", "//a/b", "true",
	} {
		if IsURL(text) {
			t.Errorf("%q is taken for a URL", text)
		}
	}
}

func TestParse(t *testing.T) {
	for _, text := range []string{"http://a/b", "HTTPS://a.example.com:8443/b?token=c#d", "http://[2001:db8::1]/a", "oci://a/b:c", "http://xn--bcher-kva.example/a", "http://a/\u00fc", "http://a/b@c"} {
		if parsed, err := Parse(text, Image); err != nil || parsed.Hostname() == "" {
			t.Errorf("%q: %v", text, err)
		}
	}
	for text, says := range map[string]string{
		"":                               "http, https, oci",
		"a.iso":                          "http, https, oci",
		"http:///a":                      "http, https, oci",
		"http:a":                         "http, https, oci",
		"http://[":                       "http, https, oci",
		"file:///a":                      "http, https, oci",
		"file:/a":                        "http, https, oci",
		"FILE://a/b":                     "http, https, oci",
		" http://a/b":                    "http, https, oci",
		"ht\ntp://a/b":                   "http, https, oci",
		"http://a/b ":                    "spaces",
		"http://a/b\u009b":               "control characters",
		"http://a/\u202eb":               "control characters",
		"http://a/\u200bb":               "control characters",
		"OCI://a/b":                      "lower case",
		"oci://https://a/b":              "one scheme",
		"http://a:/b":                    "one scheme",
		"http://169。254.169.254":         "ASCII",
		"http://169%E3%80%82254.169.254": "ASCII",
	} {
		if _, err := Parse(text, Image); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want an error with %q", text, err, says)
		}
	}
	if _, err := Parse("oci://a/b", Web); err == nil {
		t.Error("oci is taken for a scheme of the web")
	}
}

func TestWithoutCredentials(t *testing.T) {
	for text, want := range map[string]string{
		"http://a/b": "http://a/b", "http://a/b@c": "http://a/b@c", "x@y": "x@y",
		"http://u:p@a/b": "http://***@a/b", "https://token@a": "https://***@a", "oci://u:p/q@a/b": "oci://u:p/q@a/b", "http://u:p@q@a?b": "http://***@a?b",
	} {
		shown, has := WithoutCredentials(text)
		if shown != want || has != (shown != text) {
			t.Errorf("%q is shown as %q, %t", text, shown, has)
		}
	}
}
