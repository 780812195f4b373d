package ironicsim

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

var portCreate = []property{
	{name: "address", types: []string{"string"}},
	{name: "extra", types: typeObject},
	{name: "is_smartnic", types: typeBool, boolean: true},
	{name: "local_link_connection", types: []string{"null", "object"}},
	{name: "node_ident", types: []string{"string"}},
	{name: "node_uuid", types: []string{"string"}, uuid: true},
	{name: "physical_network", types: typeText, maxLength: 64},
	{name: "portgroup_uuid", types: typeText, uuid: true},
	{name: "pxe_enabled", types: typeBool, boolean: true},
	{name: "uuid", types: typeText, uuid: true},
	{name: "name", types: typeText},
}

var portPatchAllowed = []string{"address", "extra", "is_smartnic", "local_link_connection", "node_ident", "node_uuid",
	"physical_network", "portgroup_uuid", "pxe_enabled", "name"}

// checkPort validates a port and gives it a normal MAC address.
func checkPort(what string, body any) (map[string]any, error) {
	given, ok := body.(map[string]any)
	if ok {
		given = maps.Clone(given)
		body = given
	}
	m, err := checkSchema(what, body, portCreate, "address")
	if err != nil {
		return nil, err
	}
	_, ident := m["node_ident"]
	_, id := m["node_uuid"]
	if !ident && !id {
		return nil, badRequest("Schema error for %s: %s is not valid under any of the given schemas. Possible root cause: 'node_ident' is a required property", what, pyRepr(m, true))
	}
	if ident && id {
		return nil, badRequest("Schema error for %s: %s is valid under each of {'required': ['node_uuid']}, {'required': ['node_ident']}", what, pyRepr(m, true))
	}
	address := m["address"].(string)
	mac, ok := normalMAC(address)
	if !ok {
		return nil, badRequest("Expected valid MAC address for address: %s", address)
	}
	m["address"] = mac
	return m, nil
}

// postPort is POST /v1/ports. It takes no lock.
func (s *Sim) postPort(c *call) error {
	m, err := checkPort("port", c.body)
	if err != nil {
		return err
	}
	ident, _ := m["node_uuid"].(string)
	given := ident
	if byName, ok := m["node_ident"].(string); ok {
		if c.minor < 94 {
			return errNotAcceptable()
		}
		ident = byName
	}
	_, n, err := s.resolve(ident)
	if err != nil {
		return badRequest("Node %s could not be found.", orNone(given))
	}
	if _, named := m["name"]; named && c.minor < portNameMinor {
		return errNotAcceptable()
	}
	if group := m["portgroup_uuid"]; group != nil {
		return badRequest("Portgroup %s could not be found.", group)
	}
	p := &port{nodeUUID: n.UUID, pxeEnabled: true}
	p.set(m)
	if p.uuid == "" {
		p.uuid = newUUID()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.conductor == nil:
		return errConductorDown()
	case s.byUUID[n.UUID] == nil:
		return errNodeNotFound(n.UUID)
	case s.byMAC[p.address] != nil:
		return conflict("A port with MAC address %s already exists.", p.address)
	case s.ports[p.uuid] != nil || p.name != "" && slices.ContainsFunc(s.portIDs, func(o *port) bool { return o.name == p.name }):
		return conflict("A port with UUID %s already exists.", p.uuid)
	}
	s.insertPort(p)
	c.location("ports/" + p.uuid)
	return c.json(http.StatusCreated, c.portJSON(p))
}

// set takes over the valid members of a request.
func (p *port) set(m map[string]any) {
	p.address, _ = m["address"].(string)
	p.name, _ = m["name"].(string)
	p.physicalNetwork, _ = m["physical_network"].(string)
	p.extra, _ = m["extra"].(map[string]any)
	p.link, _ = m["local_link_connection"].(map[string]any)
	if id, ok := m["uuid"].(string); ok {
		p.uuid = id
	}
	if b, ok := m["pxe_enabled"].(bool); ok {
		p.pxeEnabled = b
	}
	if b, ok := m["is_smartnic"].(bool); ok {
		p.smartNIC = b
	}
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
		if op.root() == "name" && c.minor < portNameMinor {
			return errNotAcceptable()
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
	doc := map[string]any{"uuid": p.uuid, "address": p.address, "name": nil, "physical_network": nil, "extra": p.extra,
		"local_link_connection": p.link, "pxe_enabled": p.pxeEnabled, "is_smartnic": p.smartNIC, "portgroup_uuid": nil,
		"node_uuid": p.nodeUUID}
	if p.name != "" {
		doc["name"] = p.name
	}
	if p.extra == nil {
		doc["extra"] = map[string]any{}
	}
	if p.link == nil {
		doc["local_link_connection"] = map[string]any{}
	}
	if err := applyPatch(doc, ops); err != nil {
		return err
	}
	m, err := checkPort("patch", doc)
	if err != nil {
		return err
	}
	if n.ProvisionState == fsm.Inspecting {
		return conflict(`Cannot update port "%s" on "%s" while it is in state "inspecting".`, p.uuid, n.UUID)
	}
	t, err := s.acquire(e, false)
	if err != nil {
		return err
	}
	changed := *p
	changed.set(m)
	s.mu.Lock()
	if other := s.byMAC[changed.address]; other != nil && other.uuid != p.uuid {
		s.mu.Unlock()
		return t.reject(conflict("A port with MAC address %s already exists.", changed.address))
	}
	if s.ports[p.uuid] == nil {
		s.mu.Unlock()
		return t.reject(errPortNotFound(p.uuid))
	}
	s.replacePort(p, &changed)
	s.mu.Unlock()
	t.release()
	return c.json(http.StatusOK, c.portJSON(&changed))
}

// deletePort is DELETE /v1/ports/X; it wants a UUID and takes the node's lock.
func (s *Sim) deletePort(c *call) error {
	id := c.path["port"]
	if !isUUID(id) {
		return badRequest("Expected UUID for port_uuid: %s", id)
	}
	p := s.findPort(id)
	if p == nil {
		return errPortNotFound(id)
	}
	e, _ := s.lookup(p.nodeUUID)
	if e == nil {
		return errPortNotFound(id)
	}
	t, err := s.acquire(e, false)
	if err != nil {
		return err
	}
	s.mu.Lock()
	if current := s.ports[id]; current != nil {
		s.removePort(current)
	}
	s.mu.Unlock()
	t.release()
	return c.noContent()
}
