// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// checkFields refuses fields that the requested version does not have.
func checkFields(c *call, names []string) error {
	for _, name := range names {
		if f := fieldByName[name]; f != nil && c.minor < f.minor {
			if f.minor > c.s.minor {
				continue // unknown to this Ironic, not just to this version
			}
			return errNotAcceptable()
		}
	}
	return nil
}

// knownField reports whether this Ironic, at any version, has such a field.
func (s *Sim) knownField(name string) bool {
	f := fieldByName[name]
	return name == "uuid" || f != nil && f.minor <= s.minor
}

// getNode is GET /v1/nodes/X.
func (s *Sim) getNode(c *call) error {
	names := c.listArg("fields")
	if c.refused != nil {
		return c.refused
	}
	_, n, err := s.nodeArg(c)
	if err != nil {
		return err
	}
	if names == nil {
		return c.json(http.StatusOK, s.detailView(c).append(nil, n))
	}
	if err := checkFields(c, names); err != nil {
		return err
	}
	for _, name := range names {
		if !s.knownField(name) {
			return badRequest("Field %s is not a valid field.", name)
		}
	}
	return c.json(http.StatusOK, s.fieldView(c, names).append(nil, n))
}

var defaultFields = []string{"instance_uuid", "maintenance", "power_state", "provision_state", "uuid", "name"}

// listNodes is GET /v1/nodes.
func (s *Sim) listNodes(c *call) error {
	names, detail, q := c.listArg("fields"), c.boolArg("detail"), c.nodeQuery()
	if c.refused != nil {
		return c.refused
	}
	if err := checkFields(c, names); err != nil {
		return err
	}
	isDetail := detail != nil && *detail
	if isDetail && names != nil {
		return errFieldsAndDetail()
	}
	page := nodePage{detail: detail}
	if isDetail {
		page.view = s.detailView(c)
		return s.sendNodes(c, q, page)
	}
	page.fields = names
	if names == nil {
		page.fields = defaultFields
	}
	for _, name := range page.fields {
		switch f := fieldByName[name]; {
		case name == "created_at" || name == "updated_at":
			return badRequest("Field %s is not a valid field.", name)
		case !s.knownField(name), f != nil && name == "conductor":
			// A list asks the database for its columns, which these are not.
			return fault(http.StatusInternalServerError, "type object 'Node' has no attribute '%s'", name)
		}
	}
	page.view = s.fieldView(c, page.fields)
	return s.sendNodes(c, q, page)
}

func errFieldsAndDetail() error {
	return badRequest("Can not specify ?detail=True and fields in the same request.")
}

// nodePage is the form of a list's answer.
type nodePage struct {
	view   *nodeView
	fields []string
	detail *bool
}

func (s *Sim) sendNodes(c *call, q *nodeQuery, page nodePage) error {
	nodes, err := s.queryNodes(q)
	if err != nil {
		return err
	}
	c.listed = len(nodes)
	size := 3 << 10 // the detailed form of a node, roughly
	if page.fields != nil {
		size = 512 + 64*len(page.fields)
	}
	b := make([]byte, 0, 512+len(nodes)*size)
	b = append(b, `{"nodes":[`...)
	if page.fields == nil || slices.Contains(page.fields, "driver_internal_info") {
		if err := s.faults.read(nodes...); err != nil {
			return err
		}
	}
	for i, n := range nodes {
		if i > 0 {
			b = append(b, ',')
		}
		b = page.view.append(b, n)
	}
	b = append(b, ']')
	if len(nodes) == q.limit { // a full page has a next link, the last one too
		args := fmt.Sprintf("sort_key=%s&sort_dir=%s&", q.sortKey, q.sortDir)
		if page.detail != nil {
			args += "detail=" + pyRepr(*page.detail, true) + "&"
		}
		if page.fields != nil {
			args += "fields=" + strings.Join(page.fields, ",") + "&"
		}
		next := fmt.Sprintf("%s/v1/nodes?%slimit=%d&marker=%s", c.base, args, q.limit, nodes[len(nodes)-1].UUID)
		b = append(b, `,"next":`...)
		b = appendString(b, next)
	}
	return c.json(http.StatusOK, append(b, '}'))
}
