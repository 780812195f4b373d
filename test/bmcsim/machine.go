// SPDX-License-Identifier: Apache-2.0

package bmcsim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Machine is one simulated machine with its BMC.
type Machine struct {
	sim      *Sim
	name     string
	hardware hardware
	bmc      *bmc

	mu     sync.Mutex
	faults map[Fault]string

	password string

	power  Power
	events []PowerEvent
	cuts   int // by the BMC
	// change counts the power commands. A delayed command is dropped if another one came after it.
	change int
	boot   bootOverride
	boots  []Boot
	// running is what the last boot started. stop ends it, and is nil if there is nothing to end.
	running Running
	stop    context.CancelFunc
	agent   *agent

	// firmware has the versions that are in effect by component. updates are the URLs of the images that
	// were requested.
	firmware map[string]string
	updates  []string
	// tasks are the tasks of the BMC. pending are the changes that take effect with the next reset.
	tasks       []*bmcTask
	tasksMade   int
	pending     []func()
	bmcAway     bool // while it restarts itself
	bmcRestarts int

	media map[string]*media
	// subscriptions to the BMC's events, and the ID of the last one.
	subscriptions    []Subscription
	lastSubscription int

	bios     map[string]any
	biosNext map[string]any // takes effect with the next boot
	// biosChangesLost counts the boots that have lost changes.
	biosChangesLost int
	secureBoot      bool // takes effect with the next boot
	secureNow       bool // is in effect since the last boot
	nmis            int
	// leds has the lights of the system and the chassis, by the path of the resource.
	leds map[string]string

	inspections int
	steps       []string
	writes      []Image
	drive       ConfigDrive
	disks       map[string][]byte
	diskWrites  []DiskWrite
	// volumes are those of the RAID controller, softwareRAID those that the ramdisk made.
	volumes      []Volume
	volumesMade  int
	softwareRAID []SoftwareVolume
}

func newMachine(s *Sim, index int) (*Machine, error) {
	m := &Machine{
		sim: s, name: fmt.Sprintf("machine-%d", index), hardware: hardwareOf(index),
		password: s.options.Password,
		faults:   map[Fault]string{}, power: Off, running: RunningNothing,
		boot:  bootOverride{enabled: overrideDisabled, target: "None", mode: "UEFI"},
		media: map[string]*media{"Cd": {}, "USBStick": {}},
		bios:  defaultBIOS(), firmware: defaultFirmware(),
	}
	m.leds = map[string]string{m.SystemID(): "Off", chassisPath(m): "Off"}
	m.disks = disksInUse(m.hardware)
	var err error
	m.bmc, err = startBMC(m)
	return m, err
}

// read returns a field of a machine, and cloned and clonedMap return copies of one.
func read[T any](m *Machine, field *T) T {
	m.mu.Lock()
	defer m.mu.Unlock()
	return *field
}

func cloned[T any](m *Machine, field *[]T) []T {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(*field)
}

func clonedMap[M ~map[K]V, K comparable, V any](m *Machine, field *M) M {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(*field)
}

// Name returns the name of the machine: machine-0 and so on.
func (m *Machine) Name() string { return m.name }

// URL returns the URL of the BMC, such as http://127.0.0.1:8001, for redfish_address in a node's
// driver_info.
func (m *Machine) URL() string { return "http://" + m.bmc.address }

// SystemID returns the value for redfish_system_id in a node's driver_info.
func (m *Machine) SystemID() string { return "/redfish/v1/Systems/" + m.name }

// Address returns the value for a BareMetalHost's spec.bmc.address with network boot.
func (m *Machine) Address() string { return "redfish+" + m.URL() + m.SystemID() }

// VirtualMediaAddress returns the value for a BareMetalHost's spec.bmc.address with boot from a virtual
// CD.
func (m *Machine) VirtualMediaAddress() string {
	return "redfish-virtualmedia+" + m.URL() + m.SystemID()
}

// MAC returns the MAC address of the network interface from which the machine boots.
func (m *Machine) MAC() string { return m.hardware.nics[0].mac }

// Username returns the user name of the BMC.
func (m *Machine) Username() string { return m.sim.options.Username }

// Password returns the password of the BMC.
func (m *Machine) Password() string { return read(m, &m.password) }

// SetPassword changes the password of the BMC, which ends its sessions.
func (m *Machine) SetPassword(password string) {
	m.mu.Lock()
	m.password = password
	m.mu.Unlock()
	m.bmc.endSessions()
}

// Running returns what the last boot started.
func (m *Machine) Running() Running { return read(m, &m.running) }

// Boots returns all boots of the machine, in chronological order.
func (m *Machine) Boots() []Boot { return cloned(m, &m.boots) }

// Writes returns how many images were written to disk. If the number has not changed, the machine was
// not installed again.
func (m *Machine) Writes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.writes)
}

// Image returns the image that was last written, or one without a URL if there is none.
func (m *Machine) Image() Image {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.writes) == 0 {
		return Image{}
	}
	return m.writes[len(m.writes)-1]
}

// Images returns all images that were written, in chronological order.
func (m *Machine) Images() []Image { return cloned(m, &m.writes) }

// ConfigDrive returns the config drive that was written with the last image.
func (m *Machine) ConfigDrive() ConfigDrive { return clonedMap(m, &m.drive) }

// Steps returns the steps of cleaning and deployment that the ramdisk has executed, such as "clean
// erase_devices_metadata".
func (m *Machine) Steps() []string { return cloned(m, &m.steps) }

// Inspections returns how many inventories Ironic has accepted.
func (m *Machine) Inspections() int { return read(m, &m.inspections) }

// BIOS returns the BIOS attributes that are in effect.
func (m *Machine) BIOS() map[string]any { return clonedMap(m, &m.bios) }

// SetBIOS changes a BIOS attribute at once, as somebody in front of the machine can.
func (m *Machine) SetBIOS(name string, value any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bios[name] = value
}

// BIOSChangesLost returns at how many boots changes of BIOS attributes were lost.
func (m *Machine) BIOSChangesLost() int { return read(m, &m.biosChangesLost) }

// SecureBoot reports whether the last boot verified signatures. A later change of the setting takes
// effect with the next boot.
func (m *Machine) SecureBoot() bool { return read(m, &m.secureNow) }

// NMIs returns how many non-maskable interrupts were requested from the BMC.
func (m *Machine) NMIs() int { return read(m, &m.nmis) }
