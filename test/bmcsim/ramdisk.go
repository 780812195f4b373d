package bmcsim

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"
)

// ramdisk is the life of one ramdisk, from its boot until ctx ends because the
// machine is switched off or booted again.
//
// It is not told what it was booted for, and does not need to be: only a node
// that waits for an inventory takes one, and only one that waits for a ramdisk
// is found. Ironic is not ready for either while it still switches the machine
// on, so both are tried until one works.
func (m *Machine) ramdisk(ctx context.Context) {
	if !sleep(ctx, m.sim.options.BootDelay) {
		return
	}
	a := &agent{machine: m, ctx: ctx, wake: make(chan struct{}, 1)}
	wait := m.sim.options.Heartbeat / 4
	for {
		m.callHome(ctx, a)
		if a.node() != "" {
			wait = m.sim.options.Heartbeat
		} else if wait < 4*m.sim.options.Heartbeat {
			wait *= 2
		}
		timer := time.NewTimer(jitter(wait))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-a.wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// callHome is one round of calls. What fails is tried again in the next one.
func (m *Machine) callHome(ctx context.Context, a *agent) {
	if _, silent := m.fault(SilentRamdisk); silent || m.sim.options.IronicURL == "" || a.isLockedDown() {
		return
	}
	// Ironic 21.4 has no inspection of its own and refuses it; that costs nothing.
	if _, silent := m.fault(SilentInspection); !silent && a.mayInspect() {
		report := m.hardware.report(m.lastBoot().Device != "Cd")
		if message, fails := m.fault(InspectionFails); fails {
			report["error"] = message
		}
		if f, err := m.sim.ironic.continueInspection(ctx, report); err == nil {
			m.mu.Lock()
			m.inspections++
			m.mu.Unlock()
			a.inspectionTaken()
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
	// An error is a node that is gone or locked: the next heartbeat tells.
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

// usable tells whether a token is one, and not the mask in its place.
func usable(token string) bool { return strings.Trim(token, "*") != "" }

// jitter spreads the calls of machines that were switched on together.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2+1)
}
