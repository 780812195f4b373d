// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"slices"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// syncPower is one round of _sync_power_states: it compares the power state of
// each node with what its BMC says. Reading takes no lock; writing does.
func (s *Sim) syncPower() {
	s.eachSynced(func(n *node) bool { return n.IsPowerSynced() }, s.syncNode)
}

// recoverPower is one round of _power_failure_recovery: a node that power sync
// has put into maintenance comes back when its BMC does.
func (s *Sim) recoverPower() {
	s.eachSynced(func(n *node) bool { return n.IsPowerAwaited() }, func(e *entry) {
		state, err := s.peekPower(e.n)
		if err != nil {
			return
		}
		s.update(e, func(n *node) { n.FindPower(state) })
		e.syncFailures = 0
	})
}

// eachSynced calls f with s.mu held for each node that want picks, if the conductor
// is alive.
func (s *Sim) eachSynced(want func(*node) bool, f func(*entry)) {
	s.mu.RLock()
	nodes := slices.Clone(s.nodes)
	s.mu.RUnlock()
	for _, e := range nodes {
		s.mu.Lock()
		if s.conductor != nil && !e.gone && want(e.n) {
			f(e)
		}
		s.mu.Unlock()
	}
}

// peekPower reads the power state without waiting, as the sync's own workers do
// their waiting where nobody sees it. s.mu must be held.
func (s *Sim) peekPower(n *node) (string, error) {
	if n.powerInterface != "ipmitool" && n.powerInterface != "redfish" {
		return n.PowerState, nil
	}
	if err := validatePower(n); err != nil {
		return "", err
	}
	b, accepted := s.bmcOf(n)
	if dead := b == nil || b.dead; dead || !accepted {
		return "", errBMC(n, "power status", !dead)
	}
	return b.power, nil
}

// syncNode is do_sync_power_state. s.mu must be held.
func (s *Sim) syncNode(e *entry) {
	n := e.n
	if n.PowerState == "" && validatePower(n) != nil {
		e.syncFailures = 0
		return
	}
	count := e.syncFailures + 1
	state, err := s.peekPower(n)
	switch {
	case err != nil:
		if count > powerSyncRetries {
			s.syncExceeded(e, "", err)
		}
	case n.PowerState == state:
		if n.LastError != "" && fsm.ClearsLastError(s.minor) {
			s.update(e, func(n *node) { n.LastError = "" })
		}
		count = 0
	case n.PowerState == "":
		s.update(e, func(n *node) { n.PowerState = state })
		count = 0
	case count > powerSyncRetries:
		s.syncExceeded(e, state, nil)
	default:
		s.update(e, func(n *node) { n.PowerState = state })
	}
	e.syncFailures = count
}

// syncExceeded puts a node into maintenance. s.mu must be held.
func (s *Sim) syncExceeded(e *entry, state string, err error) {
	s.update(e, func(n *node) { s.record(e, "monitoring", n.LosePower(state, err)) })
}
