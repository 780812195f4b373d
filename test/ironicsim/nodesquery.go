package ironicsim

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// nodeQuery is what a list of nodes was asked for.
type nodeQuery struct {
	limit            int
	marker           string
	sortKey, sortDir string

	associated, maintenance, retired, sharded, includeChildren *bool

	instanceUUID, chassisUUID string
	shards                    []string
	// texts are the filters that compare a column; an absent one is not in it.
	texts map[string]string
}

var textFilters = []string{"provision_state", "driver", "resource_class", "fault", "conductor_group", "conductor", "owner",
	"lessee", "project", "description_contains", "parent_node"}

func (s *Sim) parseNodeQuery(c *call) (*nodeQuery, error) {
	q := &nodeQuery{texts: map[string]string{}}
	var err error
	if q.limit, q.sortKey, q.sortDir, err = s.pageArgs(c); err != nil {
		return nil, err
	}
	for name, p := range map[string]*string{"instance_uuid": &q.instanceUUID, "chassis_uuid": &q.chassisUUID, "marker": &q.marker} {
		if *p, err = c.uuidArg(name); err != nil {
			return nil, err
		}
	}
	for name, p := range map[string]**bool{"associated": &q.associated, "maintenance": &q.maintenance,
		"retired": &q.retired, "sharded": &q.sharded, "include_children": &q.includeChildren} {
		if *p, err = c.boolArg(name); err != nil {
			return nil, err
		}
	}
	if q.shards, err = c.listArg("shard"); err != nil {
		return nil, err
	}
	for _, name := range textFilters {
		v, given, err := c.stringArg(name)
		if err != nil {
			return nil, err
		}
		if given {
			q.texts[name] = v
		}
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
	if !given || limit > s.opts.MaxLimit {
		limit = s.opts.MaxLimit
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

// checkVersion refuses filters and values that the requested version does not have.
func (q *nodeQuery) checkVersion(c *call) error {
	if err := checkFields(c, []string{q.sortKey}); err != nil {
		return err
	}
	if state, ok := q.texts["provision_state"]; ok {
		if c.minor < 9 {
			return errNotAcceptable()
		}
		if len(c.s.machine.Events(state)) == 0 {
			return badRequest(`Provision state "%s" is not valid`, state)
		}
	}
	for _, f := range []struct {
		name  string
		minor int
	}{{"driver", 16}, {"resource_class", 21}, {"fault", 42}, {"conductor_group", 46}, {"conductor", 49}, {"owner", 50},
		{"lessee", 65}, {"shard", 82}, {"sharded", 82}, {"include_children", 83}, {"parent_node", 83}} {
		if c.args[f.name] != nil && c.minor < f.minor {
			return errMinVersion(f.minor)
		}
	}
	if f, ok := q.texts["fault"]; ok && !slices.Contains(faultNames, f) {
		return badRequest(`Unrecognized fault "%s" is specified, allowed faults are ('power failure', 'clean failure', 'rescue abort failure', 'service failure')`, f)
	}
	if f := fieldByName[q.sortKey]; f != nil && f.unsortable {
		return badRequest("The sort_key value %s is an invalid field for sorting", q.sortKey)
	}
	return nil
}

var faultNames = []string{fsm.FaultPower, "clean failure", "rescue abort failure", "service failure"}

func (q *nodeQuery) matches(n *node, conductor string) bool {
	eq := func(name, value string) bool {
		want, ok := q.texts[name]
		return !ok || want == value
	}
	is := func(want *bool, value bool) bool { return want == nil || *want == value }
	if q.includeChildren == nil || !*q.includeChildren {
		// Without include_children, a list has only nodes without a parent.
		if n.parentNode != q.texts["parent_node"] {
			return false
		}
	}
	if project, ok := q.texts["project"]; ok && n.owner != project && n.lessee != project {
		return false
	}
	return is(q.associated, n.InstanceUUID != "") && is(q.maintenance, n.Maintenance) && is(q.retired, n.Retired) &&
		is(q.sharded, n.shard != "") &&
		eq("provision_state", n.ProvisionState) && eq("driver", n.driver) && eq("resource_class", n.resourceClass) &&
		eq("fault", n.Fault) && eq("conductor_group", n.conductorGroup) && eq("conductor", conductor) &&
		eq("owner", n.owner) && eq("lessee", n.lessee) &&
		(q.instanceUUID == "" || q.instanceUUID == n.InstanceUUID) &&
		(q.shards == nil || slices.Contains(q.shards, n.shard)) &&
		strings.Contains(n.description, q.texts["description_contains"])
}

// queryNodes runs a query. Only the collecting holds the lock.
func (s *Sim) queryNodes(q *nodeQuery) ([]*node, error) {
	switch q.sortKey {
	case "id", "uuid", "created_at", "updated_at":
	default:
		if f := fieldByName[q.sortKey]; f == nil || f.wire || f.get != nil || f.minor > s.minor {
			return nil, badRequest(`The sort_key value "%s" is an invalid field for sorting`, q.sortKey)
		}
	}
	if q.chassisUUID != "" {
		return nil, fault(http.StatusNotFound, "Chassis %s could not be found.", q.chassisUUID)
	}
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
		if q.matches(e.n, s.opts.Conductor) {
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
// and keeps one page of what comes after a node.
func (q *nodeQuery) sort(nodes []*node, after *node) []*node {
	type keyed struct {
		n      *node
		text   string
		number int64
	}
	key := func(n *node) keyed {
		text, number := sortValue(n, q.sortKey)
		return keyed{n, text, number}
	}
	compare := func(a, b keyed) int {
		r := strings.Compare(a.text, b.text)
		if r == 0 {
			r = cmp.Compare(a.number, b.number)
		}
		if r == 0 {
			r = cmp.Compare(a.n.id, b.n.id)
		}
		if q.sortDir == "desc" {
			return -r
		}
		return r
	}
	keys := make([]keyed, 0, len(nodes))
	for _, n := range nodes {
		if k := key(n); after == nil || compare(k, key(after)) > 0 {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, compare)
	keys = keys[:min(len(keys), q.limit)]
	page := make([]*node, len(keys))
	for i := range keys {
		page[i] = keys[i].n
	}
	return page
}
