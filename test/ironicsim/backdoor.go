// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// CreateNode makes a node as POST /v1/nodes does with the same body at the
// newest version, without HTTP. It returns the node's UUID.
func (s *Sim) CreateNode(body map[string]any) (string, error) {
	m, err := checkSchema("node", toJSON(body), nodeSchema, "driver")
	if err != nil {
		return "", err
	}
	n, err := s.createNode(m)
	if err != nil {
		return "", err
	}
	return n.UUID, nil
}

// CreatePort adds a port to a node, without HTTP.
func (s *Sim) CreatePort(nodeIdent, mac string) error {
	address, ok := normalMAC(mac)
	if !ok {
		return fmt.Errorf("ironicsim: %q is not a MAC address", mac)
	}
	return s.at(nodeIdent, func(e *entry) error {
		if s.byMAC[address] != nil {
			return errMACTaken(address)
		}
		s.addPort(address, e.n.UUID)
		return nil
	})
}

// at calls use with the entry of a node, and with s.mu held.
func (s *Sim) at(ident string, use func(e *entry) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.find(ident)
	if e == nil {
		return errNodeNotFound(ident)
	}
	return use(e)
}

// Node returns all fields of a node by their API names, secrets unmasked. ok is
// false when there is no such node.
func (s *Sim) Node(ident string) (fields map[string]any, ok bool) {
	e, n := s.lookup(ident)
	if e == nil {
		return nil, false
	}
	fields = map[string]any{"uuid": n.UUID, "created_at": formatTime(n.createdAt), "updated_at": formatTime(n.updatedAt)}
	for i := range nodeFields {
		f := &nodeFields[i]
		if f.wire {
			continue
		}
		v := f.value(n)
		if o, isObject := v.(*object); isObject {
			v = toJSON(o.fields)
		}
		fields[f.name] = v
	}
	return fields, true
}

// NodeUUIDs lists all nodes in the order of their creation.
func (s *Sim) NodeUUIDs() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	ids := make([]string, len(s.nodes))
	for i, e := range s.nodes {
		ids[i] = e.n.UUID
	}
	return ids
}

// SetNode changes fields of a node behind everybody's back: no lock, no state
// machine, no check. The keys are the API's names; nil is null. updated_at moves,
// and the times that go with provision_state.
func (s *Sim) SetNode(ident string, fields map[string]any) error {
	return s.at(ident, func(e *entry) error {
		changed := *e.n
		for k, v := range fields {
			f := fieldByName[k]
			if f == nil {
				return fmt.Errorf("ironicsim: a node has no field %s that can be set", k)
			}
			if f.objectAt != nil {
				v = toJSON(v)
			}
			if err := f.set(&changed, v); err != nil {
				return fmt.Errorf("ironicsim: %w", err)
			}
		}
		s.update(e, func(n *node) { *n = changed })
		return nil
	})
}

// toJSON gives a value the types that decoding JSON gives, and makes it the
// Sim's own. What cannot be encoded becomes nil.
func toJSON(v any) any {
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var out any
	if json.Unmarshal(b, &out) != nil {
		return nil
	}
	return out
}

// LockNode takes the lock of a node for a conductor of the given name ("" for
// the Sim's own), as a long operation does; UnlockNode gives it back.
func (s *Sim) LockNode(ident, host string) error {
	if host == "" {
		host = conductorName
	}
	return s.at(ident, func(e *entry) error { return s.lock(e, host) })
}

// UnlockNode gives the lock of a node back, whoever has it.
func (s *Sim) UnlockNode(ident string) error {
	return s.SetNode(ident, map[string]any{"reservation": nil})
}

// LoseNode takes a node and its ports out of the database, as nobody should.
func (s *Sim) LoseNode(ident string) error {
	return s.at(ident, func(e *entry) error {
		s.remove(e)
		return nil
	})
}

// LoseAllNodes wipes the database, as a restart of an Ironic on sqlite in a
// container without a volume does.
func (s *Sim) LoseAllNodes() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.nodes {
		e.gone = true
		if e.waitCancel != nil {
			e.waitCancel()
		}
	}
	s.nodes, s.portIDs = nil, nil
	for _, index := range []map[string]*entry{s.byUUID, s.byName, s.byInstance} {
		clear(index)
	}
	clear(s.ports)
	clear(s.byMAC)
}

// FailNext makes the next operation of a kind fail on a node, with text in its
// last_error. The phases are verify, inspect, clean, deploy, delete, adopt,
// service and power, and steps of cleaning and service such as bios.apply_configuration.
func (s *Sim) FailNext(ident, phase, text string) error {
	switch phase {
	case "verify", "inspect", "clean", "deploy", "delete", "adopt", "service", "power":
	default:
		if !strings.Contains(phase, ".") {
			return fault(http.StatusBadRequest, "ironicsim: there is no phase %q", phase)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.find(ident)
	if e == nil {
		return errNodeNotFound(ident)
	}
	e.failNext[phase] = text
	return nil
}

// AddHistory adds an event to the history of a node.
func (s *Sim) AddHistory(ident, event string) error {
	return s.at(ident, func(e *entry) error {
		s.record(e, "error", event)
		return nil
	})
}

// ProvisionTargets returns the targets of PUT states/provision that were accepted
// for the node of a UUID, in order, also from before it was lost and made again:
// what was done to a machine.
func (s *Sim) ProvisionTargets(uuid string) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.targets[uuid])
}

// HoldRamdisk keeps the ramdisk of a node, which AutoInspect and AutoDeploy play,
// from calling back the next time that the node waits for it, and ever after: for
// a test that looks at the node meanwhile, or plays the ramdisk itself.
func (s *Sim) HoldRamdisk(ident string) error {
	return s.at(ident, func(e *entry) error {
		e.ramdiskHeld = true
		return nil
	})
}

// CallBack lets the ramdisk of a node that HoldRamdisk holds call back once, for cleaning, deployment or service.
func (s *Sim) CallBack(ident string) error {
	return s.at(ident, func(e *entry) error {
		if e.goOn == nil || !fsm.IsWaiting(e.n.ProvisionState) {
			return conflict("node %s, which is %q, waits for no ramdisk that is held", e.n.UUID, e.n.ProvisionState)
		}
		s.spawn(e.goOn)
		e.goOn = nil
		return nil
	})
}

// Ramdisk reports an inventory for a node in "inspect wait", as its ramdisk
// would, in the background. nil stands for a plausible one.
func (s *Sim) Ramdisk(ident string, inventory map[string]any) error {
	e, n, err := s.resolve(ident)
	if err != nil {
		return err
	}
	if n.ProvisionState != fsm.InspectWait {
		return conflict("node %s is %q, not %q", n.UUID, n.ProvisionState, fsm.InspectWait)
	}
	made, data := s.makeInventory(n)
	if inventory != nil {
		made, _ = toJSON(inventory).(map[string]any)
	}
	t := &task{s: s, e: e}
	s.spawn(func() {
		t.resume(func(t *task) { t.finishInspection(made, data, true) })
	})
	return nil
}
