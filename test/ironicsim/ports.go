// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// port is a version of a row of the ports table; like a node it is replaced, not
// changed.
type port struct {
	id                      int64
	uuid, address, nodeUUID string
	pxeEnabled              bool
	extra, link             map[string]any
	createdAt, updatedAt    time.Time
}

// insertPort adds a port; uuid and MAC address must be free. s.mu must be held.
func (s *Sim) insertPort(p *port) {
	s.nextID++
	p.id, p.createdAt = s.nextID, s.now()
	s.ports[p.uuid] = p
	s.byMAC[p.address] = p
	s.portIDs = append(s.portIDs, p)
}

// addPort adds a port with a free MAC address. s.mu must be held.
func (s *Sim) addPort(mac, nodeUUID string) {
	s.insertPort(&port{
		uuid: newUUID(), address: mac, nodeUUID: nodeUUID, pxeEnabled: true, extra: map[string]any{}, link: map[string]any{},
	})
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

func (s *Sim) findPort(uuid string) *port {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.ports[uuid]
}

func (c *call) portJSON(p *port) map[string]any {
	return map[string]any{
		"uuid": p.uuid, "created_at": formatTime(p.createdAt), "updated_at": formatTime(p.updatedAt), "address": p.address,
		"extra": p.extra, "internal_info": map[string]any{}, "is_smartnic": false, "local_link_connection": p.link,
		"physical_network": nil, "pxe_enabled": p.pxeEnabled, "node_uuid": p.nodeUUID, "portgroup_uuid": nil,
		"links": c.links("ports/" + p.uuid),
	}
}

// onlyFields keeps the asked fields of a port, and its links.
func onlyFields(m map[string]any, fields []string) (map[string]any, error) {
	var invalid []string
	for _, f := range fields {
		if _, ok := m[f]; !ok {
			invalid = append(invalid, f)
		}
	}
	if len(invalid) > 0 {
		return nil, badRequest(`Field(s) "%s" are not valid`, strings.Join(invalid, ", "))
	}
	maps.DeleteFunc(m, func(k string, _ any) bool { return k != "links" && !slices.Contains(fields, k) })
	return m, nil
}

func errPortNotFound(ident string) *apiError {
	return fault(http.StatusNotFound, "Port %s could not be found.", ident)
}

func errMACTaken(mac string) *apiError {
	return conflict("A port with MAC address %s already exists.", mac)
}

func errNotMAC(text string) *apiError {
	return badRequest("Expected valid MAC address for address: %s", text)
}

// listPorts is GET /v1/ports.
func (s *Sim) listPorts(c *call) error {
	names := c.listArg("fields")
	limit, _, _ := c.pageArgs()
	ports, err := s.queryPorts(c, limit)
	if err != nil {
		return err
	}
	if names == nil {
		names = []string{"uuid", "address"}
	}
	items := []any{}
	for _, p := range ports {
		m, err := onlyFields(c.portJSON(p), names)
		if err != nil {
			return err
		}
		items = append(items, m)
	}
	answer := map[string]any{"ports": items}
	if len(ports) == limit {
		answer["next"] = fmt.Sprintf("%s/v1/ports?sort_key=id&sort_dir=asc&fields=%s&limit=%d&marker=%s",
			c.base, strings.Join(names, ","), limit, ports[len(ports)-1].uuid)
	}
	return c.json(http.StatusOK, answer)
}

func (s *Sim) queryPorts(c *call, limit int) ([]*port, error) {
	marker, ident, address := c.uuidArg("marker"), cmp.Or(c.uuidArg("node_uuid"), c.stringArg("node")), c.stringArg("address")
	if c.refused != nil {
		return nil, c.refused
	}
	mac, ok := normalMAC(address)
	if address != "" && !ok {
		return nil, errNotMAC(address)
	}
	after := &port{}
	if marker != "" {
		if after = s.findPort(marker); after == nil {
			return nil, errPortNotFound(marker)
		}
	}
	if ident != "" {
		_, n, err := s.resolve(ident)
		if err != nil {
			return nil, err
		}
		ident, mac = n.UUID, "" // a node makes Ironic forget the address
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if mac != "" {
		if p := s.byMAC[mac]; p != nil {
			return []*port{p}, nil
		}
		return nil, nil
	}
	var ports []*port
	for _, p := range s.portIDs { // in the order of their ids
		if (ident == "" || p.nodeUUID == ident) && p.id > after.id && len(ports) < limit {
			ports = append(ports, p)
		}
	}
	return ports, nil
}

// portSchema is what a port may have, of what Ironic takes.
var portSchema = []property{
	{name: "address", types: []string{"string"}},
	{name: "extra", types: typeObject},
	{name: "local_link_connection", types: typeObject},
	{name: "node_uuid", types: []string{"string"}, uuid: true},
	{name: "pxe_enabled", types: typeBool, boolean: true},
	{name: "uuid", types: typeText, uuid: true},
}

var portPatchAllowed = []string{"address", "extra", "is_smartnic", "local_link_connection", "node_ident", "node_uuid",
	"physical_network", "portgroup_uuid", "pxe_enabled", "name"}

// checkPort validates a port, and returns it with a normal MAC address.
func checkPort(what string, body any) (*port, error) {
	if m, ok := body.(map[string]any); ok {
		body = maps.Clone(m)
	}
	m, err := checkSchema(what, body, portSchema, "address")
	if err != nil {
		return nil, err
	}
	p := &port{pxeEnabled: m["pxe_enabled"] != false, extra: map[string]any{}, link: map[string]any{}}
	if p.nodeUUID, _ = m["node_uuid"].(string); p.nodeUUID == "" {
		return nil, badRequest("Schema error for %s: %s is not valid under any of the given schemas. Possible root cause: 'node_ident' is a required property", what, pyRepr(m, true))
	}
	address, _ := m["address"].(string)
	var ok bool
	if p.address, ok = normalMAC(address); !ok {
		return nil, errNotMAC(address)
	}
	p.uuid, _ = m["uuid"].(string)
	for name, column := range map[string]*map[string]any{"extra": &p.extra, "local_link_connection": &p.link} {
		if given, ok := m[name].(map[string]any); ok {
			*column = given
		}
	}
	return p, nil
}

// postPort is POST /v1/ports. It takes no lock.
func (s *Sim) postPort(c *call) error {
	p, err := checkPort("port", c.body)
	if err != nil {
		return err
	}
	if p.uuid == "" {
		p.uuid = newUUID()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.byUUID[p.nodeUUID] == nil:
		return badRequest("Node %s could not be found.", p.nodeUUID)
	case s.conductor == nil:
		return errConductorDown()
	case s.byMAC[p.address] != nil:
		return errMACTaken(p.address)
	case s.ports[p.uuid] != nil:
		return conflict("A port with UUID %s already exists.", p.uuid)
	}
	s.insertPort(p)
	c.location("ports/" + p.uuid)
	return c.json(http.StatusCreated, c.portJSON(p))
}

// patchPort is PATCH /v1/ports/X.
func (s *Sim) patchPort(c *call) error {
	ops, err := parsePatch(c.body)
	if err != nil {
		return err
	}
	for _, op := range ops {
		if !slices.Contains(portPatchAllowed, op.root()) {
			return badRequest("Cannot patch %s. Only the following can be updated: %s", op.path, strings.Join(portPatchAllowed, ", "))
		}
	}
	p := s.findPort(c.path["port"])
	if p == nil {
		return errPortNotFound(c.path["port"])
	}
	e, n := s.lookup(p.nodeUUID)
	if e == nil {
		return errPortNotFound(c.path["port"])
	}
	doc := map[string]any{"uuid": p.uuid, "address": p.address, "extra": p.extra, "local_link_connection": p.link,
		"pxe_enabled": p.pxeEnabled, "node_uuid": p.nodeUUID}
	if err := applyPatch(doc, ops); err != nil {
		return err
	}
	changed, err := checkPort("patch", doc)
	if err != nil {
		return err
	}
	changed.id, changed.createdAt = p.id, p.createdAt
	if n.ProvisionState == fsm.Inspecting {
		return conflict(`Cannot update port "%s" on "%s" while it is in state "inspecting".`, p.uuid, n.UUID)
	}
	t, err := s.acquire(e, false)
	if err != nil {
		return err
	}
	defer t.release()
	if err := s.checkPortChange(t.node(), p, changed); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if other := s.byMAC[changed.address]; other != nil && other.uuid != p.uuid {
		return errMACTaken(changed.address)
	}
	if s.ports[p.uuid] == nil {
		return errPortNotFound(p.uuid)
	}
	s.replacePort(p, changed)
	return c.json(http.StatusOK, c.portJSON(changed))
}
