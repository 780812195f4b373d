package ironicsim

import (
	"maps"
	"slices"

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
			s.spawn(func() { s.timeOut(e, state) })
		}
	}
}

// timeOut fails a node whose ramdisk has not called back in a state, after CallbackTimeout.
func (s *Sim) timeOut(e *entry, state string) {
	if !sleep(s.ctx, s.opts.CallbackTimeout) {
		return
	}
	late, err := s.acquire(e, false)
	if err != nil {
		return
	}
	defer late.release()
	const text = "Timeout reached while waiting for callback"
	switch n := late.node(); {
	case n.ProvisionState != state:
	case state == fsm.CleanWait:
		late.cleanFailed(text, false)
	case state == fsm.DeployWait:
		late.deployFailed(text)
	default:
		late.fail("timeout", text, nil)
	}
}
