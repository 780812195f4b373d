// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"cmp"
	"net/http"
	"slices"
)

// nodeQuery is what a list of nodes was asked for: what the server asks, of all that Ironic can filter and sort by.
type nodeQuery struct {
	limit            int
	marker           string
	sortKey, sortDir string
	includeChildren  bool
}

func (c *call) nodeQuery() *nodeQuery {
	q := &nodeQuery{}
	q.limit, q.sortKey, q.sortDir = c.pageArgs()
	q.marker, q.includeChildren = c.uuidArg("marker"), c.isSet("include_children")
	switch {
	case c.refused != nil:
	case c.args["include_children"] != nil && c.minor < 83:
		c.refused = fault(http.StatusNotAcceptable, "Request not acceptable. The minimal required API version should be 1.83")
	case q.sortKey != "id" && q.sortKey != "updated_at":
		c.refuse(`The sort_key value "%s" is an invalid field for sorting`, q.sortKey)
	}
	return q
}

// pageArgs reads limit, sort_key and sort_dir.
func (c *call) pageArgs() (limit int, key, dir string) {
	limit = c.intArg("limit", maxLimit)
	if limit <= 0 {
		c.refuse("Limit must be positive")
	}
	key, dir = cmp.Or(c.stringArg("sort_key"), "id"), cmp.Or(c.stringArg("sort_dir"), "asc")
	if dir != "asc" && dir != "desc" {
		c.refuse("Invalid sort direction: %s. Acceptable values are 'asc' or 'desc'", dir)
	}
	return min(limit, maxLimit), key, dir
}

// matches reports whether a list has a node. Without include_children, it has only those without a parent.
func (q *nodeQuery) matches(n *node) bool { return q.includeChildren || n.parentNode == "" }

// queryNodes runs a query. Only the collecting holds the lock.
func (s *Sim) queryNodes(q *nodeQuery) ([]*node, error) {
	s.mu.RLock()
	var after *node
	if q.marker != "" {
		e := s.byUUID[q.marker]
		if e == nil {
			s.mu.RUnlock()
			return nil, errNodeNotFound(q.marker)
		}
		after = e.n
		if err := s.faults.read(after); err != nil {
			s.mu.RUnlock()
			return nil, err
		}
	}
	sorted := q.sortKey == "id" && q.sortDir == "asc"
	from := 0
	if sorted && after != nil {
		from, _ = slices.BinarySearchFunc(s.nodes, after.id+1, func(e *entry, id int64) int { return cmp.Compare(e.n.id, id) })
	}
	var nodes []*node
	for _, e := range s.nodes[from:] {
		if sorted && len(nodes) == q.limit {
			break
		}
		if q.matches(e.n) {
			nodes = append(nodes, e.n)
		}
	}
	s.mu.RUnlock()
	if sorted {
		return nodes, nil
	}
	return q.sort(nodes, after), nil
}

// sort orders nodes by the sort key and then by id, both in the asked direction,
// and keeps one page of what comes after a node. A node that never changed comes first.
func (q *nodeQuery) sort(nodes []*node, after *node) []*node {
	compare := func(a, b *node) int {
		r := cmp.Compare(a.id, b.id)
		if q.sortKey == "updated_at" {
			r = cmp.Or(a.updatedAt.Compare(b.updatedAt), r)
		}
		if q.sortDir == "desc" {
			return -r
		}
		return r
	}
	nodes = slices.DeleteFunc(nodes, func(n *node) bool { return after != nil && compare(n, after) <= 0 })
	slices.SortFunc(nodes, compare)
	return nodes[:min(len(nodes), q.limit)]
}
