// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"net/http"
	"slices"
	"strings"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// postNode is POST /v1/nodes.
func (s *Sim) postNode(c *call) error {
	body, err := checkSchema("node", c.body, nodeSchema, "driver")
	if err != nil {
		return err
	}
	for _, f := range nodeFields {
		if body[f.name] != nil && c.minor < f.minor {
			return errNotAcceptable()
		}
	}
	if name, ok := body["name"].(string); ok {
		if err := checkName(name, "Cannot create node with invalid name '%s'"); err != nil {
			return err
		}
	}
	n, err := s.createNode(body)
	if err != nil {
		return err
	}
	c.location("nodes/" + n.UUID)
	return c.json(http.StatusCreated, s.detailView(c).append(nil, n))
}

// createNode makes a node of a valid body.
func (s *Sim) createNode(body map[string]any) (*node, error) {
	if parent, ok := body["parent_node"].(string); ok {
		if e, _ := s.lookup(parent); e == nil {
			return nil, badRequest("Unable to apply the requested parent_node '%s'. Requested value was invalid.", parent)
		}
	}
	if err := checkChassis(body); err != nil {
		return nil, err
	}
	n := newNode()
	n.UUID = newUUID()
	n.ProvisionState = fsm.Enroll
	for k, v := range body {
		if k == "uuid" {
			if id, ok := v.(string); ok {
				n.UUID = id
			}
			continue
		}
		if f := fieldByName[k]; f != nil && !f.wire {
			if err := f.set(n, v); err != nil {
				return nil, badRequest("%v", err)
			}
		}
	}
	n.conductorGroup = strings.ToLower(n.conductorGroup)
	if err := s.checkDriver(n.driver, n.conductorGroup); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conductor == nil {
		return nil, errConductorDown()
	}
	if err := checkInterfaces(n); err != nil {
		return nil, err
	}
	if _, err := s.insert(n); err != nil {
		return nil, err
	}
	return n, nil
}

func checkName(name, format string) error {
	if !validName(name) || isUUID(name) {
		return badRequest(format, name)
	}
	if slices.Contains(reservedNames, name) {
		return badRequest(`The word "%s" is reserved and can not be used as a node name. Reserved words are: %s.`, name, strings.Join(reservedNames, ", "))
	}
	return nil
}

// deleteNode is DELETE /v1/nodes/X.
func (s *Sim) deleteNode(c *call) error {
	t, err := s.lockedNode(c)
	if err != nil {
		return err
	}
	n := t.node()
	if err := n.CheckDelete(); err != nil {
		return t.reject(err)
	}
	s.mu.Lock()
	s.remove(t.e)
	s.mu.Unlock()
	return c.noContent()
}

// putMaintenance is PUT /v1/nodes/X/maintenance. It is synchronous, whatever its
// 202 says.
func (s *Sim) putMaintenance(c *call) error {
	reason := c.stringArg("reason")
	if c.refused != nil {
		return c.refused
	}
	return s.setMaintenance(c, true, reason)
}

// deleteMaintenance is DELETE /v1/nodes/X/maintenance; it clears the fault, too.
func (s *Sim) deleteMaintenance(c *call) error { return s.setMaintenance(c, false, "") }

func (s *Sim) setMaintenance(c *call, on bool, reason string) error {
	t, err := s.lockedNode(c)
	if err != nil {
		return err
	}
	t.save(func(n *node) { n.SetMaintenance(on, reason) })
	t.release()
	return c.accepted()
}
