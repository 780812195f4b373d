// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// call is one API request on its way through a handler.
type call struct {
	s     *Sim
	r     *http.Request
	minor int               // of the requested version
	base  string            // http://host:port, for links
	path  map[string]string // the {variables} of the route
	args  map[string]any    // query and, where the route takes named arguments, body
	body  any               // the body of routes that take it whole
	// refused is what is wrong with the arguments; see refuse.
	refused error

	// the answer
	header http.Header
	status int
	reply  []byte
	listed int // the nodes in a list of nodes
}

// accepted is 202 without a body.
func (c *call) accepted() error {
	c.status = http.StatusAccepted
	return nil
}

// noContent is 204.
func (c *call) noContent() error {
	c.status = http.StatusNoContent
	return nil
}

func (c *call) json(status int, v any) error {
	c.status = status
	if raw, ok := v.([]byte); ok {
		c.reply = raw
	} else {
		c.reply = mustJSON(v)
	}
	return nil
}

func (c *call) location(resource string) {
	c.header.Set("Location", c.base+"/v1/"+resource)
}

// parseArgs collects the arguments of the request and refuses unknown ones.
// Ironic's framework passes the members of a JSON body as arguments, too.
func (c *call) parseArgs(rt *route) error {
	query, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return badRequest("%v", err)
	}
	c.args = map[string]any{}
	for k, v := range query {
		if len(v) == 1 {
			c.args[k] = v[0]
		} else {
			c.args[k] = v
		}
	}
	if rt.wholeBody {
		c.body, err = c.readBody()
		if err != nil {
			return err
		}
		if c.body == nil {
			c.body = map[string]any{}
		}
	} else if c.r.Method == http.MethodPut {
		body, err := c.readBody()
		if err != nil {
			// Only the whole-body methods parse the body themselves; for the
			// others the framework drops what it cannot read.
			body = nil
		}
		if m, ok := body.(map[string]any); ok {
			for k, v := range m {
				c.args[k] = v
			}
		}
	}
	var unexpected []string
	for k := range c.args {
		if !slices.Contains(rt.args, k) {
			unexpected = append(unexpected, k)
		}
	}
	if len(unexpected) > 0 {
		sort.Strings(unexpected)
		return badRequest("Unexpected arguments: %s", strings.Join(unexpected, ", "))
	}
	return nil
}

// readBody decodes the JSON body; nil without one. A malformed body is a 500 in
// Ironic, with Python's words.
func (c *call) readBody() (any, error) {
	raw, err := io.ReadAll(c.r.Body)
	if err != nil {
		return nil, badRequest("reading the request: %v", err)
	}
	if len(raw) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fault(http.StatusInternalServerError, "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)")
	}
	if rest := raw[d.InputOffset():]; len(bytes.TrimSpace(rest)) > 0 {
		at := len(raw) - len(bytes.TrimLeft(rest, " \t\r\n"))
		return nil, fault(http.StatusInternalServerError, "Extra data: line 1 column %d (char %d)", at+1, at)
	}
	return v, nil
}

// refuse notes what is wrong with an argument. A handler returns c.refused when it
// has read all of them: the first one that is wrong counts.
func (c *call) refuse(format string, args ...any) {
	if c.refused == nil {
		c.refused = badRequest(format, args...)
	}
}

// stringArg is a text argument, which may be absent.
func (c *call) stringArg(name string) string {
	text, isText := c.args[name].(string)
	if v := c.args[name]; v != nil && !isText {
		c.refuse("Expected string for %s: %s", name, pyRepr(v, false))
	}
	return text
}

// required is a text argument that must be there, though it may be null.
func (c *call) required(name string) string {
	if _, given := c.args[name]; !given {
		c.refuse("Missing mandatory parameter: %s", name)
	}
	return c.stringArg(name)
}

// intArg is a number, or otherwise where it is absent.
func (c *call) intArg(name string, otherwise int) int {
	v := c.args[name]
	if v == nil {
		return otherwise
	}
	n, err := strconv.Atoi(strings.TrimSpace(textOf(v)))
	if err != nil {
		c.refuse("Expected an integer for %s: %s", name, pyRepr(v, false))
	}
	return n
}

// boolArg is an argument that is true, false or absent (nil).
func (c *call) boolArg(name string) *bool {
	v := c.args[name]
	if v == nil {
		return nil
	}
	b, err := boolValue(name, v)
	if err != nil {
		c.refuse("%v", err)
	}
	return b
}

// isSet is a boolArg that is false where it is absent.
func (c *call) isSet(name string) bool {
	b := c.boolArg(name)
	return b != nil && *b
}

func boolValue(name string, v any) (*bool, error) {
	if b, ok := v.(bool); ok {
		return &b, nil
	}
	if b, ok := parseBool(textOf(v)); ok {
		return &b, nil
	}
	return nil, badRequest("Invalid %s: Unrecognized value '%s', acceptable values are: '0', '1', 'f', 'false', 'n', 'no', 'off', 'on', 't', 'true', 'y', 'yes'", name, pyRepr(v, false))
}

// parseBool knows the words of oslo.utils.
func parseBool(s string) (value, ok bool) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "1", "t", "true", "on", "y", "yes":
		return true, true
	case "0", "f", "false", "off", "n", "no":
		return false, true
	}
	return false, false
}

func (c *call) uuidArg(name string) string {
	v := c.args[name]
	id, _ := v.(string)
	if v != nil && !isUUID(id) {
		c.refuse("Expected UUID for %s: %s", name, pyRepr(v, false))
	}
	return id
}

// listArg is a comma-separated list, lower-cased, without repetitions. It is nil
// when it is not given, and empty when it is given without a value.
func (c *call) listArg(name string) []string {
	if _, given := c.args[name]; !given {
		return nil
	}
	items := []string{}
	for item := range strings.SplitSeq(c.stringArg(name), ",") {
		item = strings.ToLower(strings.TrimSpace(item))
		if item != "" && !slices.Contains(items, item) {
			items = append(items, item)
		}
	}
	return items
}

// nodeArg finds the node of the route.
func (s *Sim) nodeArg(c *call) (*entry, *node, error) {
	return s.resolve(c.path["node"])
}

// lockedNode finds the node of the route and takes its lock.
func (s *Sim) lockedNode(c *call) (*task, error) {
	e, _, err := s.nodeArg(c)
	if err != nil {
		return nil, err
	}
	return s.acquire(e, false)
}

// resolve finds a node by UUID or by name.
func (s *Sim) resolve(ident string) (*entry, *node, error) {
	e, n := s.lookup(ident)
	if e == nil {
		return nil, nil, errNodeNotFound(ident)
	}
	return e, n, s.faults.read(n)
}
