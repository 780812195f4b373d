package ironicsim

import (
	"fmt"
	"slices"
)

const faultPower = "power failure"

// syncPower is one round of _sync_power_states: it compares the power state of
// each node with what its BMC says. Reading takes no lock; writing does.
func (s *Sim) syncPower() {
	s.eachSynced(func(e *entry) bool {
		n := e.n
		return !n.maintenance && n.targetPowerState == "" && !slices.Contains(powerSyncExcluded, n.provisionState)
	}, s.syncNode)
}

// recoverPower is one round of _power_failure_recovery: a node that power sync
// has put into maintenance comes back when its BMC does.
func (s *Sim) recoverPower() {
	s.eachSynced(func(e *entry) bool {
		n := e.n
		return n.maintenance && n.fault == faultPower && n.targetPowerState == "" && n.provisionState != stEnroll
	}, func(e *entry) {
		state, err := s.peekPower(e.n)
		if err != nil {
			return
		}
		s.update(e, func(n *node) {
			n.powerState, n.maintenance, n.maintenanceReason, n.fault = state, false, "", ""
		})
		e.syncFailures = 0
	})
}

// eachSynced calls f with s.mu held for each node that is not locked and that
// want picks, if the conductor is alive.
func (s *Sim) eachSynced(want func(*entry) bool, f func(*entry)) {
	s.mu.RLock()
	nodes := slices.Clone(s.nodes)
	s.mu.RUnlock()
	for _, e := range nodes {
		s.mu.Lock()
		if s.conductor != nil && !e.gone && e.n.reservation == "" && want(e) {
			f(e)
		}
		s.mu.Unlock()
	}
}

// peekPower reads the power state without waiting, as the sync's own workers do
// their waiting where nobody sees it. s.mu must be held.
func (s *Sim) peekPower(n *node) (string, error) {
	if n.powerInterface != "ipmitool" && n.powerInterface != "redfish" {
		return n.powerState, nil
	}
	if err := validatePower(n); err != nil {
		return "", err
	}
	b, accepted := s.bmcOf(n)
	if b != nil {
		b.commands++
	}
	if dead := b == nil || b.dead; dead || !accepted {
		return "", errBMC(n, "power status", !dead)
	}
	return b.power, nil
}

// syncNode is do_sync_power_state. s.mu must be held.
func (s *Sim) syncNode(e *entry) {
	n := e.n
	if n.powerState == "" && validatePower(n) != nil {
		e.syncFailures = 0
		return
	}
	count := e.syncFailures + 1
	state, err := s.peekPower(n)
	switch {
	case err != nil:
		if count > s.opts.PowerSyncRetries {
			s.syncExceeded(e, "", err)
		}
	case n.powerState == state:
		count = 0
	case n.powerState == "":
		s.update(e, func(n *node) { n.powerState = state })
		count = 0
	case count > s.opts.PowerSyncRetries:
		s.syncExceeded(e, state, nil)
	case s.opts.ForcePowerState && !n.disablePowerOff:
		if b, _ := s.bmcOf(n); b != nil && !b.stuck {
			b.power = n.powerState
		}
		s.update(e, func(*node) {})
	default:
		s.update(e, func(n *node) { n.powerState = state })
	}
	e.syncFailures = count
}

// syncExceeded puts a node into maintenance. s.mu must be held.
func (s *Sim) syncExceeded(e *entry, state string, err error) {
	actual := orNone(state)
	text := fmt.Sprintf("During sync_power_state, max retries exceeded for node %s, node state %s does not match expected state '%s'. Updating DB state to '%s' Switching node to maintenance mode.",
		e.n.uuid, actual, orNone(e.n.powerState), actual)
	if err != nil {
		text += " Error: " + err.Error()
	}
	s.record(e, "monitoring", text)
	s.update(e, func(n *node) {
		n.powerState, n.lastError = state, text
		n.maintenance, n.maintenanceReason, n.fault = true, text, faultPower
	})
}
