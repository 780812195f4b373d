// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// part is a part of what an inspection has reported, and where it is in that. Machines, ramdisks and BMCs send anything, so
// each part is read by itself, and a bad one costs no other.
type part struct {
	path *field.Path
	// value is empty if the part is not there.
	value json.RawMessage
	// isLost is set if a part around this one cannot be read, which was told.
	isLost bool
	unread *unreadParts
}

// isAbsent reports whether nothing is said of the part, which most inspections do of many.
func (p part) isAbsent() bool { return len(p.value) == 0 || string(p.value) == "null" }

// object is a part with fields.
type object struct {
	part
	fields map[string]json.RawMessage
}

// object returns a part as an object. If the part is absent or lost, so are all fields.
func (p part) object() object {
	o := object{part: p}
	if p.isAbsent() {
		return o
	}
	if err := json.Unmarshal(p.value, &o.fields); err != nil {
		p.unread.add(p)
		o.isLost = true
	}
	return o
}

// at returns a field.
func (o object) at(name string) part {
	return part{path: o.path.Child(name), value: o.fields[name], isLost: o.isLost, unread: o.unread}
}

// or returns a field or, where nothing is said of it, that of another object.
func (o object) or(name string, other object, otherName string) part {
	if field := o.at(name); field.isLost || !field.isAbsent() {
		return field
	}
	return other.at(otherName)
}

// of returns the field of an object that has one for each interface.
func (o object) of(interfaceName string) part {
	return part{path: o.path.Key(interfaceName), value: o.fields[interfaceName], isLost: o.isLost, unread: o.unread}
}

// list returns the entries of a list. It is not ok if they cannot be read.
func (p part) list() (entries []part, ok bool) {
	var values []json.RawMessage
	if !p.isAbsent() {
		if err := json.Unmarshal(p.value, &values); err != nil {
			p.unread.add(p)
			return nil, false
		}
	}
	for i, value := range values {
		entries = append(entries, part{path: p.path.Index(i), value: value, unread: p.unread})
	}
	return entries, !p.isLost
}

// read returns what convert makes of a part, a zero value if the part is absent, and what was known of it before if it
// cannot be read, which is told.
func read[T any](p part, known T, convert func(json.RawMessage) (T, error)) T {
	var none T
	switch {
	case p.isLost:
		return known
	case p.isAbsent():
		return none
	}
	value, err := convert(p.value)
	if err != nil {
		p.unread.add(p)
		return known
	}
	return value
}

// peek is read that tells nothing: the value is zero if the part cannot be read.
func peek[T any](p part, convert func(json.RawMessage) (T, error)) T {
	p.unread = &unreadParts{}
	var none T
	return read(p, none, convert)
}

// unreadParts are the parts of an inventory that cannot be read.
type unreadParts struct {
	told []string
	more int
}

// maxUnread is how many parts are told by their paths: a list of a thousand bad entries has one cause.
const maxUnread = 8

func (u *unreadParts) add(p part) {
	if len(u.told) == maxUnread {
		u.more++
		return
	}
	path := strings.Map(func(r rune) rune { // it can have the name of an interface
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, p.path.String())
	u.told = append(u.told, shorten(path)+" is "+describe(p.value))
}

// String returns the parts with what they are; empty if there are none.
func (u *unreadParts) String() string {
	text := strings.Join(u.told, "; ")
	if u.more > 0 {
		text += fmt.Sprintf("; and %d more", u.more)
	}
	return text
}

// describe says what a JSON value is.
func describe(value json.RawMessage) string {
	var text string
	switch {
	case bytes.HasPrefix(value, []byte("{")):
		return "an object"
	case bytes.HasPrefix(value, []byte("[")):
		return "a list"
	case json.Unmarshal(value, &text) == nil:
		return fmt.Sprintf("%q", shorten(text))
	}
	return shorten(string(value))
}

// shorten cuts a text that is only to be recognized.
func shorten(text string) string {
	const limit = 100
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + cutMark
}
