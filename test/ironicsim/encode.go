// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"slices"
	"strconv"
)

// The node encoder is written by hand: a list of a thousand nodes takes a few
// milliseconds, as a test of ten thousand hosts needs.

// nodeView is how one request wants nodes to look.
type nodeView struct {
	base  string
	minor int
	// fields is what was asked for; nil is the detailed form.
	fields []*field
	uuid   bool
	host   string // the conductor
}

// detailView has all fields of the requested version.
func (s *Sim) detailView(c *call) *nodeView {
	return &nodeView{base: c.base, minor: c.minor, host: conductorName}
}

// fieldView has the given fields only. Unknown ones must have been refused.
func (s *Sim) fieldView(c *call, names []string) *nodeView {
	v := &nodeView{base: c.base, minor: c.minor, host: conductorName, fields: []*field{}}
	v.uuid = slices.Contains(names, "uuid")
	for i := range nodeFields {
		if slices.Contains(names, nodeFields[i].name) {
			v.fields = append(v.fields, &nodeFields[i])
		}
	}
	return v
}

func (v *nodeView) append(b []byte, n *node) []byte {
	b = append(b, '{')
	if v.fields == nil {
		b = appendMember(b, "uuid", n.UUID)
		b = append(b, ',')
		b = appendMember(b, "created_at", formatTime(n.createdAt))
		b = append(b, ',')
		b = appendMember(b, "updated_at", formatTime(n.updatedAt))
		for i := range nodeFields {
			b = v.appendField(b, n, &nodeFields[i])
		}
		b = v.appendLinks(append(b, ','), "links", "nodes/", n.UUID, "")
		for _, sub := range []string{"ports", "states", "portgroups", "volume"} {
			b = v.appendLinks(append(b, ','), sub, "nodes/", n.UUID, "/"+sub)
		}
		return append(b, '}')
	}
	if v.uuid {
		b = append(appendMember(b, "uuid", n.UUID), ',')
	}
	b = v.appendLinks(b, "links", "nodes/", n.UUID, "")
	for _, f := range v.fields {
		b = v.appendField(b, n, f)
	}
	return append(b, '}')
}

// appendField writes a member with its comma, unless the version is too old for it.
func (v *nodeView) appendField(b []byte, n *node, f *field) []byte {
	if v.minor < f.minor {
		return b
	}
	b = append(b, ',')
	if f.name == "conductor" {
		return appendMember(b, f.name, v.host)
	}
	return appendMember(b, f.name, f.value(n))
}

func (v *nodeView) appendLinks(b []byte, name, resource, id, rest string) []byte {
	b = append(b, '"')
	b = append(b, name...)
	b = append(b, `":[{"href":"`...)
	for _, s := range []string{v.base, "/v1/", resource, id, rest, `","rel":"self"},{"href":"`, v.base, "/", resource, id, rest, `","rel":"bookmark"}]`} {
		b = append(b, s...)
	}
	return b
}

func appendMember(b []byte, name string, value any) []byte {
	b = append(b, '"')
	b = append(b, name...)
	b = append(b, `":`...)
	return appendValue(b, value)
}

func appendValue(b []byte, value any) []byte {
	switch v := value.(type) {
	case nil:
		return append(b, "null"...)
	case string:
		return appendString(b, v)
	case bool:
		return strconv.AppendBool(b, v)
	case *object:
		return append(b, v.masked...)
	case []string:
		b = append(b, '[')
		for i, s := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, s)
		}
		return append(b, ']')
	}
	return append(b, mustJSON(value)...)
}

func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			return append(b, quoteJSON(s)...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
