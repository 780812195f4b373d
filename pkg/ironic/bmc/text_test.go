// SPDX-License-Identifier: Apache-2.0

package bmc

import "testing"

func TestUnsendable(t *testing.T) {
	for value, want := range map[string]string{
		"": "", "calvin": "", "café ü€😀": "", "a\tb": "", "\ufffd": "", "a\ufeff": "", "ÿþ": "",
		"\xff\xfep\x00w\x00": "is text in UTF-16", "\xfe\xff\x00p\x00w": "is text in UTF-16",
		"caf\xe9": "is not text in UTF-8", "\xed\xa0\x80": "is not text in UTF-8",
		"\xef\xbb\xbfpw": "begins with a byte order mark", "\ufeff": "begins with a byte order mark",
		"p\x00w\x00": "has NUL bytes, as text in UTF-16 has", "\x00": "has NUL bytes, as text in UTF-16 has",
		"admin\nsecret": "has a line break", "a\rb": "has a line break",
	} {
		if got := Unsendable(value); got != want {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
}
