package bmcsim

import "slices"

// Fault is something that is wrong with a machine until ClearFault.
type Fault string

// The faults that there are.
const (
	// WrongPassword: the BMC answers 401 whatever the password.
	WrongPassword Fault = "wrong-password"
	// RefuseConnections: nothing listens at the BMC's address.
	RefuseConnections Fault = "refuse-connections"
	// HangConnections: the BMC takes requests and does not answer.
	HangConnections Fault = "hang-connections"
	// IgnorePower: the BMC says yes to power commands, and nothing happens.
	IgnorePower Fault = "ignore-power"
	// IgnoreSoftPower is that for the graceful ones only.
	IgnoreSoftPower Fault = "ignore-soft-power"
	// SilentRamdisk: the ramdisk boots and never calls Ironic.
	SilentRamdisk Fault = "silent-ramdisk"
	// SilentInspection: the ramdisk reports no inventory, but does everything else.
	SilentInspection Fault = "silent-inspection"
	// InspectionFails: the ramdisk reports an error with its inventory.
	InspectionFails Fault = "inspection-fails"
	// DeployStepFails: each in-band step of a deployment fails.
	DeployStepFails Fault = "deploy-step-fails"
	// CleanStepFails: each in-band step of cleaning fails.
	CleanStepFails Fault = "clean-step-fails"
)

var allFaults = []Fault{
	WrongPassword, RefuseConnections, HangConnections, IgnorePower, IgnoreSoftPower,
	SilentRamdisk, SilentInspection, InspectionFails, DeployStepFails, CleanStepFails,
}

// SetFault makes a machine faulty. message is what the ramdisk then reports to
// Ironic, where it does; empty for a plain one.
func (m *Machine) SetFault(f Fault, message string) error {
	if message == "" {
		message = "simulated fault " + string(f)
	}
	m.mu.Lock()
	m.faults[f] = message
	m.mu.Unlock()
	return m.bmc.apply()
}

// ClearFault mends a machine; without arguments, of all faults.
func (m *Machine) ClearFault(faults ...Fault) error {
	if len(faults) == 0 {
		faults = allFaults
	}
	m.mu.Lock()
	for _, f := range faults {
		delete(m.faults, f)
	}
	m.mu.Unlock()
	return m.bmc.apply()
}

// Faults are those that a machine has now.
func (m *Machine) Faults() []Fault {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(allFaults), func(f Fault) bool { return !m.faulty(f) })
}

// faulty needs m.mu.
func (m *Machine) faulty(f Fault) bool {
	_, ok := m.faults[f]
	return ok
}

// fault is the message of a fault, and whether the machine has it.
func (m *Machine) fault(f Fault) (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	message, ok := m.faults[f]
	return message, ok
}
