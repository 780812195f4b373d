// SPDX-License-Identifier: Apache-2.0

package bmcsim

import (
	"context"
	"maps"
	"slices"
	"time"
)

// Power is a power state, in Redfish's words.
type Power string

// The power states.
const (
	On  Power = "On"
	Off Power = "Off"
)

// PowerEvent is a change of a machine's power state.
type PowerEvent struct {
	Time  time.Time
	Power Power
	// By is the Redfish ResetType, "ramdisk" or "button".
	By string
}

// Running is what a boot started.
type Running string

// What a boot can start.
const (
	RunningNothing Running = "nothing"
	RunningRamdisk Running = "ramdisk"
	RunningDisk    Running = "disk"
	RunningLiveISO Running = "live ISO"
)

// Boot is one start of a machine.
type Boot struct {
	// Device is the Redfish boot source: Hdd, Pxe, UefiHttp, Cd.
	Device string
	// Media is the image in the virtual drive from which it booted, if any.
	Media   string
	Running Running
	// Drive is the image in the virtual CD drive at that moment, whether or not the machine booted
	// from it.
	Drive string
}

// bootOverride is the Boot property of a ComputerSystem. target is None if there is no override.
type bootOverride struct{ enabled, target, mode, httpURI string }

const (
	overrideDisabled = "Disabled"
	overrideOnce     = "Once"
)

// Power returns the current power state.
func (m *Machine) Power() Power { return read(m, &m.power) }

// PowerHistory returns all changes of the power state.
func (m *Machine) PowerHistory() []PowerEvent { return cloned(m, &m.events) }

// PowerCuts returns how often the BMC was told to switch the machine off, or to restart it, while it was on.
func (m *Machine) PowerCuts() int { return read(m, &m.cuts) }

// SetPower switches the machine at once, as its power button would, without Ironic.
func (m *Machine) SetPower(p Power) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.change++
	m.turn(p, "button")
}

var resetTypes = []string{"On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "PushPowerButton", "Nmi"}

// reset executes a Reset action of the BMC. It is not an error if the machine is already in that state.
func (m *Machine) reset(kind string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.faulty(IgnorePower) || m.faulty(IgnoreSoftPower) && (kind == "GracefulShutdown" || kind == "GracefulRestart") {
		return
	}
	switch {
	case kind == "Nmi":
		m.nmis++
	case kind == "On", kind == "PushPowerButton" && m.power == Off:
		m.schedule(func() { m.turn(On, kind) })
	case kind == "ForceOff", kind == "GracefulShutdown", kind == "PushPowerButton":
		m.schedule(func() { m.turn(Off, kind) })
	default: // the two restarts
		m.schedule(func() { m.restart(kind) })
	}
}

// schedule calls f with m.mu held after the power delay, unless another power command comes first. m.mu
// must be held.
func (m *Machine) schedule(f func()) {
	m.change++
	if m.sim.options.PowerDelay <= 0 {
		f()
		return
	}
	number := m.change
	m.sim.later(m.sim.options.PowerDelay, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.change == number {
			f()
		}
	})
}

// turn switches the machine on or off. m.mu must be held.
func (m *Machine) turn(p Power, by string) {
	if m.power == p {
		return
	}
	m.power = p
	m.events = append(m.events, PowerEvent{time.Now(), p, by})
	if p == On {
		m.start()
		return
	}
	if slices.Contains(resetTypes, by) {
		m.cuts++
	}
	m.halt()
}

func (m *Machine) restart(by string) {
	if m.power == On && slices.Contains(resetTypes, by) {
		m.cuts++
	}
	m.halt()
	m.power = On
	m.events = append(m.events, PowerEvent{time.Now(), On, by})
	m.start()
}

// halt ends what is running. m.mu must be held.
func (m *Machine) halt() {
	if m.stop != nil {
		m.stop()
	}
	m.stop, m.agent, m.running = nil, nil, RunningNothing
}

// start boots the machine. m.mu must be held.
func (m *Machine) start() {
	if m.faulty(LoseBIOSChanges) && m.biosNext != nil {
		m.biosChangesLost++
	} else {
		maps.Copy(m.bios, m.biosNext)
	}
	m.biosNext = nil
	for _, change := range m.pending {
		change()
	}
	m.pending = nil
	m.secureNow = m.secureBoot

	boot := Boot{Device: "Hdd", Running: RunningDisk, Drive: m.media["Cd"].image}
	once := m.boot.enabled == overrideOnce
	if m.boot.enabled != overrideDisabled && m.boot.target != "None" {
		boot.Device = m.boot.target
	}
	switch boot.Device {
	case "Pxe", "UefiHttp":
		boot.Running = RunningRamdisk
	case "Cd", "UsbCd":
		// Like real firmware, skip a drive that is empty.
		if boot.Media = m.media["Cd"].image; boot.Media != "" {
			// Ironic boots its own ramdisk once, and a live ISO persistently. This is the only
			// difference that the BMC can see.
			boot.Running = RunningLiveISO
			if once {
				boot.Running = RunningRamdisk
			}
		}
	case "BiosSetup":
		boot.Running = RunningNothing
	}
	if once {
		m.boot.enabled, m.boot.target = overrideDisabled, "None"
	}
	m.boots = append(m.boots, boot)
	m.running = boot.Running
	if boot.Running == RunningRamdisk {
		ctx, cancel := context.WithCancel(m.sim.ctx)
		m.stop = cancel
		m.sim.task(func() { m.ramdisk(ctx) })
	}
}
