package ironicsim

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// port is a version of a row of the ports table; like a node it is replaced, not
// changed.
type port struct {
	id                   int64
	uuid, address, name  string
	nodeUUID             string
	physicalNetwork      string
	pxeEnabled, smartNIC bool
	extra, link          map[string]any
	createdAt, updatedAt time.Time
}

// insertPort adds a port; uuid and MAC address must be free. s.mu must be held.
func (s *Sim) insertPort(p *port) {
	s.nextID++
	p.id, p.createdAt = s.nextID, s.now()
	s.ports[p.uuid] = p
	s.byMAC[p.address] = p
	s.portIDs = append(s.portIDs, p)
}

// removePort must be called with s.mu held.
func (s *Sim) removePort(p *port) {
	delete(s.ports, p.uuid)
	delete(s.byMAC, p.address)
	s.portIDs = slices.DeleteFunc(s.portIDs, func(other *port) bool { return other.uuid == p.uuid })
}

// replacePort must be called with s.mu held.
func (s *Sim) replacePort(old, p *port) {
	p.updatedAt = s.now()
	delete(s.byMAC, old.address)
	s.ports[p.uuid], s.byMAC[p.address] = p, p
	i := slices.IndexFunc(s.portIDs, func(other *port) bool { return other.uuid == p.uuid })
	s.portIDs[i] = p
}

// portMinor are the versions that brought fields of a port.
var portMinor = map[string]int{"internal_info": 18, "pxe_enabled": 19, "local_link_connection": 19, "portgroup_uuid": 24,
	"physical_network": 34, "is_smartnic": 53, "name": 88}

func (c *call) portJSON(p *port) map[string]any {
	null := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	object := func(m map[string]any) map[string]any {
		if m == nil {
			return map[string]any{}
		}
		return m
	}
	m := map[string]any{
		"uuid": p.uuid, "created_at": formatTime(p.createdAt), "updated_at": formatTime(p.updatedAt), "address": p.address,
		"extra": object(p.extra), "internal_info": map[string]any{}, "is_smartnic": p.smartNIC,
		"local_link_connection": object(p.link), "physical_network": null(p.physicalNetwork), "pxe_enabled": p.pxeEnabled,
		"node_uuid": p.nodeUUID, "name": null(p.name), "portgroup_uuid": nil, "links": c.links("ports/" + p.uuid),
	}
	for name, minor := range portMinor {
		if c.minor < minor {
			delete(m, name)
		}
	}
	return m
}

func checkPortFields(c *call, names []string) error {
	if names != nil && c.minor < 8 {
		return errNotAcceptable()
	}
	for _, name := range names {
		if name != "internal_info" && c.minor < portMinor[name] {
			return errNotAcceptable()
		}
	}
	return nil
}

func (s *Sim) findPort(ident string) *port {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if isUUID(ident) {
		return s.ports[ident]
	}
	for _, p := range s.portIDs {
		if p.name == ident {
			return p
		}
	}
	return nil
}

func errPortNotFound(ident string) *apiError {
	return fault(http.StatusNotFound, "Port %s could not be found.", ident)
}

// getPort is GET /v1/ports/X.
func (s *Sim) getPort(c *call) error {
	ident := c.path["port"]
	if !validName(ident) && !isUUID(ident) {
		return badRequest("Expected UUID or name for port_ident: %s", ident)
	}
	names, err := c.listArg("fields")
	if err != nil {
		return err
	}
	p := s.findPort(ident)
	if p == nil {
		return errPortNotFound(ident)
	}
	if err := checkPortFields(c, names); err != nil {
		return err
	}
	m, err := only(c.portJSON(p), names)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, m)
}

// listPorts is GET /v1/ports, /v1/ports/detail and /v1/nodes/X/ports.
func (s *Sim) listPorts(c *call) error {
	names, err := c.listArg("fields")
	if err != nil {
		return err
	}
	detail, err := c.boolArg("detail")
	if err != nil {
		return err
	}
	limit, key, dir, err := s.pageArgs(c)
	if err != nil {
		return err
	}
	marker, err := c.uuidArg("marker")
	if err != nil {
		return err
	}
	nodeUUID, err := c.uuidArg("node_uuid")
	if err != nil {
		return err
	}
	address, _, err := c.stringArg("address")
	if err != nil {
		return err
	}
	if address != "" {
		mac, ok := normalMAC(address)
		if !ok {
			return badRequest("Expected valid MAC address for address: %s", address)
		}
		address = mac
	}
	if err := checkPortFields(c, names); err != nil {
		return err
	}
	if c.minor < portMinor[key] {
		return errNotAcceptable()
	}
	url, whole := "ports", strings.HasSuffix(strings.TrimSuffix(c.r.URL.Path, "/"), "/ports/detail")
	if whole {
		url = "ports/detail"
	} else {
		if err := checkDetail(c, detail, names); err != nil {
			return err
		}
		whole = detail != nil && *detail
		if names == nil && !whole {
			names = []string{"uuid", "address"}
		}
	}
	ports, err := s.queryPorts(c, nodeUUID, address, marker, key, dir, limit)
	if err != nil {
		return err
	}
	items := []any{}
	for _, p := range ports {
		m, err := only(c.portJSON(p), names)
		if err != nil {
			return err
		}
		items = append(items, m)
	}
	answer := map[string]any{"ports": items}
	if len(ports) == limit {
		args := fmt.Sprintf("sort_key=%s&sort_dir=%s&", key, dir)
		if detail != nil {
			args += "detail=" + pyRepr(*detail, true) + "&"
		}
		if names != nil {
			args += "fields=" + strings.Join(names, ",") + "&"
		}
		answer["next"] = fmt.Sprintf("%s/v1/%s?%slimit=%d&marker=%s", c.base, url, args, limit, ports[len(ports)-1].uuid)
	}
	return c.json(http.StatusOK, answer)
}

func (s *Sim) queryPorts(c *call, nodeUUID, address, marker, key, dir string, limit int) ([]*port, error) {
	var after *port
	if marker != "" {
		if after = s.findPort(marker); after == nil {
			return nil, errPortNotFound(marker)
		}
	}
	compare, err := comparePorts(key, dir)
	if err != nil {
		return nil, err
	}
	ident := nodeUUID
	if v, _, err := c.stringArg("node"); err != nil {
		return nil, err
	} else if ident == "" {
		ident = v
	}
	if parent, ok := c.path["node"]; ok {
		if !isUUID(parent) {
			// Ironic mistakes the name for a portgroup's.
			return nil, fault(http.StatusNotFound, "Portgroup None could not be found.")
		}
		ident = parent
	}
	if group, _, err := c.stringArg("portgroup"); err != nil || group != "" {
		return nil, fault(http.StatusNotFound, "Portgroup %s could not be found.", group)
	}
	if ident != "" {
		_, n, err := s.resolve(c, ident)
		if err != nil {
			return nil, err
		}
		ident, address = n.UUID, "" // a node makes Ironic forget the address
	}
	shards, err := c.listArg("shard")
	if err != nil {
		return nil, err
	}
	if shards != nil && c.minor < 82 {
		return nil, errMinVersion(82)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if address != "" {
		if p := s.byMAC[address]; p != nil {
			return []*port{p}, nil
		}
		return nil, nil
	}
	var ports []*port
	for _, p := range s.portIDs {
		if shards != nil && !slices.Contains(shards, s.byUUID[p.nodeUUID].n.shard) {
			continue
		}
		if (ident == "" || p.nodeUUID == ident) && (after == nil || compare(p, after) > 0) {
			ports = append(ports, p)
		}
	}
	slices.SortFunc(ports, compare)
	return ports[:min(len(ports), limit)], nil
}

func comparePorts(key, dir string) (func(a, b *port) int, error) {
	var by func(a, b *port) int
	switch key {
	case "extra", "internal_info", "local_link_connection":
		return nil, badRequest("The sort_key value %s is an invalid field for sorting", key)
	case "id":
		by = func(a, b *port) int { return 0 }
	case "uuid":
		by = func(a, b *port) int { return cmp.Compare(a.uuid, b.uuid) }
	case "address":
		by = func(a, b *port) int { return cmp.Compare(a.address, b.address) }
	case "name":
		by = func(a, b *port) int { return cmp.Compare(a.name, b.name) }
	case "created_at":
		by = func(a, b *port) int { return a.createdAt.Compare(b.createdAt) }
	case "updated_at":
		by = func(a, b *port) int { return a.updatedAt.Compare(b.updatedAt) }
	default:
		return nil, badRequest(`The sort_key value "%s" is an invalid field for sorting`, key)
	}
	return func(a, b *port) int {
		r := cmp.Or(by(a, b), cmp.Compare(a.id, b.id))
		if dir == "desc" {
			return -r
		}
		return r
	}, nil
}
