// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"strings"
	"unicode/utf8"
)

// Unsendable says what keeps a user name, a password or the value of a header from arriving at a BMC as it is, or
// returns an empty text. The words follow a subject, such as "the password". Ironic is told all values in JSON, in
// which bytes that are not UTF-8 become U+FFFD: the BMC would get another password than the one that was meant, and may
// lock its user for that. Editors and shells put a byte order mark in front of a text, or write UTF-16, without anybody
// seeing it. ipmitool reads a password up to a line break or a NUL, and no header of HTTP has one.
func Unsendable(value string) string {
	switch {
	case strings.HasPrefix(value, "\xff\xfe"), strings.HasPrefix(value, "\xfe\xff"):
		return "is text in UTF-16"
	case !utf8.ValidString(value):
		return "is not text in UTF-8"
	case strings.HasPrefix(value, "\ufeff"):
		return "begins with a byte order mark"
	case strings.Contains(value, "\x00"):
		return "has NUL bytes, as text in UTF-16 has"
	case strings.ContainsAny(value, "\r\n"):
		return "has a line break"
	}
	return ""
}
