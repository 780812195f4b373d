package bmcsim

import (
	"context"
	"slices"
	"time"
)

// Power is a machine's, in Redfish's words.
type Power string

// The two that a machine can rest in.
const (
	On  Power = "On"
	Off Power = "Off"
)

// PowerEvent is a change of a machine's power.
type PowerEvent struct {
	Time  time.Time
	Power Power
	// By is the Redfish ResetType, "ramdisk" or "button".
	By string
}

// Running is what a boot started.
type Running string

// What can be running.
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
	// Media is the image in the virtual drive that it started from, if any.
	Media   string
	Running Running
}

// bootOverride is the Boot part of a ComputerSystem. target is None where nothing overrides.
type bootOverride struct{ enabled, target, mode, httpURI string }

const (
	overrideDisabled = "Disabled"
	overrideOnce     = "Once"
)

// Power is the machine's now.
func (m *Machine) Power() Power {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.power
}

// PowerHistory are the changes since the machine was made.
func (m *Machine) PowerHistory() []PowerEvent {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.events)
}

// SetPower presses the machine's power button behind Ironic's back, at once.
func (m *Machine) SetPower(p Power) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.change++
	m.turn(p, "button")
}

var resetTypes = []string{"On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "PushPowerButton", "Nmi"}

// reset does what the BMC is asked for; a state that the machine is in already is not an error.
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

// schedule calls f after the power delay with m.mu held, unless another power
// command comes first. m.mu is held.
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

// turn switches the machine on or off. m.mu is held.
func (m *Machine) turn(p Power, by string) {
	if m.power == p {
		return
	}
	m.power = p
	m.events = append(m.events, PowerEvent{time.Now(), p, by})
	if p == On {
		m.start()
	} else {
		m.halt()
	}
}

func (m *Machine) restart(by string) {
	m.halt()
	m.power = On
	m.events = append(m.events, PowerEvent{time.Now(), On, by})
	m.start()
}

// halt ends what is running. m.mu is held.
func (m *Machine) halt() {
	if m.stop != nil {
		m.stop()
	}
	m.stop, m.agent, m.running = nil, nil, RunningNothing
}

// start boots the machine. m.mu is held.
func (m *Machine) start() {
	for name, value := range m.biosNext {
		m.bios[name] = value
	}
	m.biosNext = nil
	m.secureNow = m.secureBoot

	boot := Boot{Device: "Hdd", Running: RunningDisk}
	once := m.boot.enabled == overrideOnce
	if m.boot.enabled != overrideDisabled && m.boot.target != "None" {
		boot.Device = m.boot.target
	}
	switch boot.Device {
	case "Pxe", "UefiHttp":
		boot.Running = RunningRamdisk
	case "Cd", "UsbCd":
		// A drive that is empty is passed over, as firmware does.
		if boot.Media = m.media["Cd"].image; boot.Media != "" {
			// Ironic boots its own ramdisk once, and a live ISO from now on:
			// that is the only difference that reaches the BMC.
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
