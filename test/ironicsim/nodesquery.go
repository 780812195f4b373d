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

func (s *Sim) parseNodeQuery(c *call) (*nodeQuery, error) {
	q := &nodeQuery{}
	var err error
	if q.limit, q.sortKey, q.sortDir, err = s.pageArgs(c); err != nil {
		return nil, err
	}
	if q.marker, err = c.uuidArg("marker"); err != nil {
		return nil, err
	}
	children, err := c.boolArg("include_children")
	if err != nil {
		return nil, err
	}
	q.includeChildren = children != nil && *children
	switch {
	case children != nil && c.minor < 83:
		return nil, fault(http.StatusNotAcceptable, "Request not acceptable. The minimal required API version should be 1.83")
	case q.sortKey != "id" && q.sortKey != "updated_at":
		return nil, badRequest(`The sort_key value "%s" is an invalid field for sorting`, q.sortKey)
	}
	return q, nil
}

// pageArgs reads limit, sort_key and sort_dir.
func (s *Sim) pageArgs(c *call) (limit int, key, dir string, err error) {
	limit, given, err := c.intArg("limit")
	if err != nil {
		return 0, "", "", err
	}
	if given && limit <= 0 {
		return 0, "", "", badRequest("Limit must be positive")
	}
	if !given || limit > maxLimit {
		limit = maxLimit
	}
	if key, given, err = c.stringArg("sort_key"); err != nil {
		return 0, "", "", err
	} else if !given {
		key = "id"
	}
	if dir, given, err = c.stringArg("sort_dir"); err != nil {
		return 0, "", "", err
	} else if !given {
		dir = "asc"
	}
	if dir != "asc" && dir != "desc" {
		return 0, "", "", badRequest("Invalid sort direction: %s. Acceptable values are 'asc' or 'desc'", dir)
	}
	return limit, key, dir, nil
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
