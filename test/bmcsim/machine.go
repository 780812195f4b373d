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
	// change numbers the power commands: one that is not the last when its time has come is dropped.
	change int
	boot   bootOverride
	boots  []Boot
	// running is what the last boot started; stop ends it, when there is something to end.
	running Running
	stop    context.CancelFunc
	agent   *agent

	media      map[string]*media
	bios       map[string]any
	biosNext   map[string]any // takes effect with the next boot
	secureBoot bool           // as wanted; what is in effect is secureNow
	secureNow  bool
	nmis       int

	inspections int
	steps       []string
	writes      []Image
	drive       ConfigDrive
	disks       map[string][]byte
	diskWrites  []DiskWrite
}

func newMachine(s *Sim, index int) (*Machine, error) {
	m := &Machine{
		sim: s, name: fmt.Sprintf("machine-%d", index), hardware: hardwareOf(index),
		password: s.options.Password,
		faults:   map[Fault]string{}, power: Off, running: RunningNothing,
		boot:  bootOverride{enabled: overrideDisabled, target: "None", mode: "UEFI"},
		media: map[string]*media{"Cd": {}, "USBStick": {}},
		bios:  defaultBIOS(),
	}
	m.disks = disksInUse(m.hardware)
	port := 0
	if s.options.FirstBMCPort != 0 {
		port = s.options.FirstBMCPort + index
	}
	var err error
	m.bmc, err = startBMC(m, port)
	return m, err
}

// Name is machine-0 and so on.
func (m *Machine) Name() string { return m.name }

// URL is the BMC's, such as http://127.0.0.1:8001: redfish_address in a node's driver_info.
func (m *Machine) URL() string { return "http://" + m.bmc.address }

// SystemID is redfish_system_id in a node's driver_info.
func (m *Machine) SystemID() string { return "/redfish/v1/Systems/" + m.name }

// Address is a BareMetalHost's spec.bmc.address for network boot.
func (m *Machine) Address() string { return "redfish+" + m.URL() + m.SystemID() }

// VirtualMediaAddress is a BareMetalHost's spec.bmc.address for boot from a virtual CD.
func (m *Machine) VirtualMediaAddress() string {
	return "redfish-virtualmedia+" + m.URL() + m.SystemID()
}

// MAC is that of the network interface that the machine boots from.
func (m *Machine) MAC() string { return m.hardware.nics[0].mac }

// Username is the BMC's user.
func (m *Machine) Username() string { return m.sim.options.Username }

// Password is the BMC's.
func (m *Machine) Password() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.password
}

// SetPassword changes the BMC's password, which ends its sessions.
func (m *Machine) SetPassword(password string) {
	m.mu.Lock()
	m.password = password
	m.mu.Unlock()
	m.bmc.endSessions()
}

// Running is what the last boot started.
func (m *Machine) Running() Running {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.running
}

// Boots tells what the machine booted from since it was made, the last at the end.
func (m *Machine) Boots() []Boot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.boots)
}

// Writes counts the images written to disk; the same count later proves that
// the machine was not installed again.
func (m *Machine) Writes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.writes)
}

// Image is the one written last; without a URL when there is none.
func (m *Machine) Image() Image {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.writes) == 0 {
		return Image{}
	}
	return m.writes[len(m.writes)-1]
}

// ConfigDrive is the one written with the last image, its files by path.
func (m *Machine) ConfigDrive() ConfigDrive {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.drive)
}

// Steps are those of cleaning and deployment that the ramdisk did, such as "clean erase_devices_metadata".
func (m *Machine) Steps() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.steps)
}

// Inspections counts the inventories that Ironic took.
func (m *Machine) Inspections() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.inspections
}

// BIOS are the attributes in effect.
func (m *Machine) BIOS() map[string]any {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.bios)
}

// SecureBoot tells whether the last boot verified signatures: what the BMC was
// told since takes effect with the next one.
func (m *Machine) SecureBoot() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.secureNow
}

// NMIs counts the non-maskable interrupts that the BMC was asked for.
func (m *Machine) NMIs() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.nmis
}
