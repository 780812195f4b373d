// SPDX-License-Identifier: Apache-2.0

package bmcsim

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"
)

// ramdisk runs a ramdisk from its boot until ctx ends because the machine is switched off or booted
// again.
//
// A ramdisk does not know for what purpose it was booted, and does not need to: Ironic accepts an
// inventory only for a node that waits for one, and a lookup finds only a node that waits for a
// ramdisk. Neither works while Ironic is still switching the machine on, so the ramdisk tries both until
// one succeeds.
func (m *Machine) ramdisk(ctx context.Context) {
	if !sleep(ctx, m.sim.options.BootDelay) {
		return
	}
	a := &agent{machine: m, ctx: ctx, wake: make(chan struct{}, 1)}
	wait := m.sim.options.Heartbeat / 4
	beats := 0 // since the ramdisk has found its node, or a step has ended
	for {
		m.callHome(ctx, a)
		switch {
		case a.node() == "":
			wait = min(2*wait, 4*m.sim.options.Heartbeat)
		case beats < quickHeartbeats:
			wait = m.sim.options.Heartbeat
			beats++
		default:
			wait = slowHeartbeat * m.sim.options.Heartbeat
		}
		timer := time.NewTimer(jitter(wait))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-a.wake:
			timer.Stop()
			beats = 0
		case <-timer.C:
		}
	}
}

// During a long step, heartbeats become slower: after quickHeartbeats, the interval is slowHeartbeat times
// Options.Heartbeat.
const quickHeartbeats, slowHeartbeat = 5, 5

// callHome makes one round of requests to Ironic. Those that fail are repeated in the next round.
func (m *Machine) callHome(ctx context.Context, a *agent) {
	if _, silent := m.fault(SilentRamdisk); silent || m.sim.options.IronicURL == "" || a.isLockedDown() {
		return
	}
	// Ironic 21.4 has no in-band inspection of its own and refuses this, which does no harm.
	if _, silent := m.fault(SilentInspection); !silent && a.mayInspect() {
		report := m.report(m.lastBoot().Device != "Cd")
		if message, fails := m.fault(InspectionFails); fails {
			report["error"] = message
		}
		if f, err := m.sim.ironic.continueInspection(ctx, report); err == nil {
			m.mu.Lock()
			m.inspections++
			m.mu.Unlock()
			a.inspectionAccepted()
			a.found(f)
			return
		}
	}
	if a.node() == "" {
		f, err := m.sim.ironic.lookup(ctx, m.macs())
		if err != nil {
			return
		}
		a.found(f)
		if a.node() == "" {
			return
		}
	}
	uuid, token := a.credentials()
	// An error means that the node is locked or no longer exists. The next heartbeat tries again.
	_ = m.sim.ironic.heartbeat(ctx, uuid, token, m.sim.url+agentPath(m))
}

func (m *Machine) lastBoot() Boot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.boots[len(m.boots)-1]
}

func (m *Machine) macs() []string {
	var all []string
	for _, n := range m.hardware.nics {
		all = append(all, n.mac)
	}
	return all
}

// isToken reports whether token is a real token, and not empty or a mask.
func isToken(token string) bool { return strings.Trim(token, "*") != "" }

// jitter randomizes an interval, so that machines that were switched on together do not call at the
// same time.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2+1)
}
