// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// Snapshot is a copy of the database of a Sim: its nodes and their ports. It knows nothing of
// the machines.
type Snapshot struct {
	nodes []entry
	ports []*port
}

// Snapshot copies the database as it is now, locks and all, like a backup of a running Ironic.
func (s *Sim) Snapshot() *Snapshot {
	s.mu.RLock()
	defer s.mu.RUnlock()
	copied := &Snapshot{ports: slices.Clone(s.portIDs)}
	for _, e := range s.nodes {
		copied.nodes = append(copied.nodes, entry{
			n: e.n, inventory: e.inventory, history: slices.Clone(e.history), bios: e.bios, firmware: e.firmware,
			failNext: maps.Clone(e.failNext), clockOffset: e.clockOffset,
		})
	}
	return copied
}

// Restore kills the conductor, replaces the database by a copy of an earlier one, and starts the
// conductor again. No ramdisk answers the nodes that waited for one at the time of the copy, so
// they fail after CallbackTimeout.
func (s *Sim) Restore(from *Snapshot) {
	s.KillConductor()
	s.LoseAllNodes()
	s.mu.Lock()
	for i := range from.nodes {
		e := from.nodes[i]
		e.history, e.failNext = slices.Clone(e.history), maps.Clone(e.failNext)
		s.nodes = append(s.nodes, &e)
		s.byUUID[e.n.UUID] = &e
		reindex(s.byName, "", e.n.name, &e)
		reindex(s.byInstance, "", e.n.InstanceUUID, &e)
	}
	for _, p := range from.ports {
		copied := *p
		s.insertPort(&copied)
	}
	s.mu.Unlock()
	s.RestartConductor()

	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, e := range s.nodes {
		if state := e.n.ProvisionState; fsm.IsWaiting(state) {
			s.spawn(func() { s.timeOut(s.ctx, e, state) })
		}
	}
}

// AddCopy adds copies of the nodes and ports in a snapshot, which may be that of another Sim, to the database.
// rename returns what replaces a text of the original: a string column, the JSON of an object column, and the address
// and UUID of a port. It has to replace at least what is unique. All times stay, so that a fleet can be made of one node that was
// taken all the way, but updated_at, which is so much older: nodes of a fleet are not all changed in the same moment.
func (s *Sim) AddCopy(from *Snapshot, older time.Duration, rename func(string) string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range from.nodes {
		original := from.nodes[i].n
		n := *original
		n.UUID, n.InstanceUUID = rename(n.UUID), rename(n.InstanceUUID)
		for f := range nodeFields {
			field := &nodeFields[f]
			switch {
			case field.objectAt != nil:
				renamed, err := renameObject(*field.objectAt(original), field.secret, rename)
				if err != nil {
					return err
				}
				*field.objectAt(&n) = renamed
			case field.stringAt != nil && field.stringAt(&n) != &n.InstanceUUID:
				*field.stringAt(&n) = rename(*field.stringAt(original))
			}
		}
		e, err := s.insert(&n)
		if err != nil {
			return err
		}
		n.createdAt = original.createdAt
		n.updatedAt = original.updatedAt.Add(-older)
		e.inventory, e.bios, e.firmware = from.nodes[i].inventory, from.nodes[i].bios, from.nodes[i].firmware
	}
	for _, p := range from.ports {
		copied := *p
		copied.uuid, copied.address, copied.nodeUUID = rename(p.uuid), rename(p.address), rename(p.nodeUUID)
		if s.ports[copied.uuid] != nil || s.byMAC[copied.address] != nil {
			return conflict("A port with MAC address %s or UUID %s already exists.", copied.address, copied.uuid)
		}
		s.insertPort(&copied)
	}
	return nil
}

func renameObject(o *object, secret bool, rename func(string) string) (*object, error) {
	if o == nil || len(o.fields) == 0 {
		return o, nil
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(rename(string(o.raw))), &fields); err != nil {
		return nil, err
	}
	if secret {
		return newSecretObject(fields), nil
	}
	return newObject(fields), nil
}
