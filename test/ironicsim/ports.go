package ironicsim

import (
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

// portNameMinor is the version that brought the names of ports.
const portNameMinor = 88

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
	if c.minor < portNameMinor {
		delete(m, "name")
	}
	return m
}

func checkPortFields(c *call, names []string) error {
	if slices.Contains(names, "name") && c.minor < portNameMinor {
		return errNotAcceptable()
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

// listPorts is GET /v1/ports and /v1/nodes/X/ports.
func (s *Sim) listPorts(c *call) error {
	names, err := c.listArg("fields")
	if err != nil {
		return err
	}
	detail, err := c.boolArg("detail")
	if err != nil {
		return err
	}
	limit, _, _, err := s.pageArgs(c)
	if err != nil {
		return err
	}
	marker, err := c.uuidArg("marker")
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
	if err := checkDetail(detail, names); err != nil {
		return err
	}
	if whole := detail != nil && *detail; names == nil && !whole {
		names = []string{"uuid", "address"}
	}
	ports, err := s.queryPorts(c, address, marker, limit)
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
		args := "sort_key=id&sort_dir=asc&"
		if detail != nil {
			args += "detail=" + pyRepr(*detail, true) + "&"
		}
		if names != nil {
			args += "fields=" + strings.Join(names, ",") + "&"
		}
		answer["next"] = fmt.Sprintf("%s/v1/ports?%slimit=%d&marker=%s", c.base, args, limit, ports[len(ports)-1].uuid)
	}
	return c.json(http.StatusOK, answer)
}

func (s *Sim) queryPorts(c *call, address, marker string, limit int) ([]*port, error) {
	var after *port
	if marker != "" {
		if after = s.findPort(marker); after == nil {
			return nil, errPortNotFound(marker)
		}
	}
	ident, _, err := c.stringArg("node")
	if err != nil {
		return nil, err
	}
	if parent, ok := c.path["node"]; ok {
		if !isUUID(parent) {
			// Ironic mistakes the name for a portgroup's.
			return nil, fault(http.StatusNotFound, "Portgroup None could not be found.")
		}
		ident = parent
	}
	if ident != "" {
		_, n, err := s.resolve(ident)
		if err != nil {
			return nil, err
		}
		ident, address = n.UUID, "" // a node makes Ironic forget the address
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
	for _, p := range s.portIDs { // in the order of their ids
		if (ident == "" || p.nodeUUID == ident) && (after == nil || p.id > after.id) && len(ports) < limit {
			ports = append(ports, p)
		}
	}
	return ports, nil
}
