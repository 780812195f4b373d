package ironicsim

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
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
	names, err := c.listArg("fields")
	if extra, ok := c.path["fields"]; ok {
		names = []string{strings.ToLower(extra)}
	}
	if err != nil {
		return err
	}
	_, n, err := s.nodeArg(c)
	if err != nil {
		return err
	}
	if names == nil {
		return c.json(http.StatusOK, s.detailView(c).append(nil, n))
	}
	if c.minor < 8 {
		return errNotAcceptable()
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

// getStates is GET /v1/nodes/X/states.
func (s *Sim) getStates(c *call) error {
	_, n, err := s.nodeArg(c)
	if err != nil {
		return err
	}
	b := []byte{'{'}
	v := s.detailView(c)
	for _, f := range []struct {
		name  string
		minor int
	}{{"console_enabled", 0}, {"last_error", 0}, {"power_state", 0}, {"provision_state", 0}, {"target_power_state", 0},
		{"target_provision_state", 0}, {"provision_updated_at", 0}, {"raid_config", 12}, {"target_raid_config", 12},
		{"boot_mode", 75}, {"secure_boot", 75}} {
		if c.minor >= f.minor {
			b = v.appendField(b, n, fieldByName[f.name])
		}
	}
	b = append(b, '}')
	return c.json(http.StatusOK, slices.Delete(b, 1, 2)) // the first comma
}

var defaultFields = []string{"instance_uuid", "maintenance", "power_state", "provision_state", "uuid", "name"}

// listNodes is GET /v1/nodes.
func (s *Sim) listNodes(c *call) error {
	names, err := c.listArg("fields")
	if err != nil {
		return err
	}
	detail, err := c.boolArg("detail")
	if err != nil {
		return err
	}
	q, err := s.parseNodeQuery(c)
	if err != nil {
		return err
	}
	if names != nil && c.minor < 8 {
		return errNotAcceptable()
	}
	if err := checkFields(c, names); err != nil {
		return err
	}
	if err := q.checkVersion(c); err != nil {
		return err
	}
	if err := checkDetail(c, detail, names); err != nil {
		return err
	}
	page := nodePage{url: "nodes", detail: detail}
	if detail != nil && *detail {
		page.view = s.detailView(c)
		return s.sendNodes(c, q, page)
	}
	page.fields = names
	if names == nil {
		page.fields = slices.DeleteFunc(slices.Clone(defaultFields), func(f string) bool { return f == "name" && c.minor < 5 })
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

func checkDetail(c *call, detail *bool, names []string) error {
	if detail == nil {
		return nil
	}
	if c.minor < 43 {
		return badRequest("Invalid query parameter ?detail=%s received.", pyRepr(*detail, true))
	}
	if *detail && names != nil {
		return badRequest("Can not specify ?detail=True and fields in the same request.")
	}
	return nil
}

// listNodesDetail is GET /v1/nodes/detail.
func (s *Sim) listNodesDetail(c *call) error {
	q, err := s.parseNodeQuery(c)
	if err != nil {
		return err
	}
	if err := q.checkVersion(c); err != nil {
		return err
	}
	return s.sendNodes(c, q, nodePage{url: "nodes/detail", view: s.detailView(c)})
}

// nodePage is the form of a list's answer.
type nodePage struct {
	url    string
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
	for i, n := range nodes {
		if i > 0 {
			b = append(b, ',')
		}
		b = page.view.append(b, n)
	}
	b = append(b, ']')
	// A full page has a next link, the last one too. A search by instance_uuid never has.
	if len(nodes) == q.limit && q.instanceUUID == "" {
		var args strings.Builder
		fmt.Fprintf(&args, "sort_key=%s&sort_dir=%s&", q.sortKey, q.sortDir)
		for _, f := range []struct {
			name  string
			value *bool
		}{{"associated", q.associated}, {"maintenance", q.maintenance}, {"retired", q.retired}} {
			if f.value != nil && *f.value {
				args.WriteString(f.name + "=True&")
			}
		}
		if page.detail != nil {
			args.WriteString("detail=" + pyRepr(*page.detail, true) + "&")
		}
		if page.fields != nil {
			args.WriteString("fields=" + strings.Join(page.fields, ",") + "&")
		}
		next := fmt.Sprintf("%s/v1/%s?%slimit=%d&marker=%s", c.base, page.url, args.String(), q.limit, nodes[len(nodes)-1].UUID)
		b = append(b, `,"next":`...)
		b = appendString(b, next)
	}
	return c.json(http.StatusOK, append(b, '}'))
}

// sortValue is the value of a node to sort by. Null sorts before anything else.
func sortValue(n *node, key string) (text string, number int64) {
	switch key {
	case "uuid":
		return n.UUID, 0
	case "created_at":
		return "", unix(n.createdAt)
	case "updated_at":
		return "", unix(n.updatedAt)
	case "id":
		return "", n.id
	}
	f := fieldByName[key]
	switch {
	case f == nil:
		return "", 0
	case f.stringAt != nil:
		return *f.stringAt(n), 0
	case f.timeAt != nil:
		return "", unix(*f.timeAt(n))
	case f.boolAt != nil && *f.boolAt(n):
		return "", 1
	}
	return "", 0
}

func unix(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}
