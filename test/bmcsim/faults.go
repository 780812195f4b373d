// SPDX-License-Identifier: Apache-2.0

package bmcsim

// Fault is a simulated defect of a machine. It lasts until ClearFault.
type Fault string

// The faults.
const (
	// WrongPassword makes the BMC answer 401 for any password.
	WrongPassword Fault = "wrong-password"
	// RefuseConnections makes the BMC refuse connections.
	RefuseConnections Fault = "refuse-connections"
	// HangConnections makes the BMC accept requests without answering them.
	HangConnections Fault = "hang-connections"
	// IgnorePower makes the BMC accept power commands without executing them.
	IgnorePower Fault = "ignore-power"
	// IgnoreSoftPower is like IgnorePower, but only for graceful power commands.
	IgnoreSoftPower Fault = "ignore-soft-power"
	// SilentRamdisk makes the ramdisk boot without ever calling Ironic.
	SilentRamdisk Fault = "silent-ramdisk"
	// SilentInspection makes the ramdisk report no inventory. It does everything else.
	SilentInspection Fault = "silent-inspection"
	// InspectionFails makes the ramdisk report an error with its inventory.
	InspectionFails Fault = "inspection-fails"
	// DeployStepFails makes every in-band step of a deployment fail.
	DeployStepFails Fault = "deploy-step-fails"
	// CleanStepFails makes every in-band step of cleaning fail.
	CleanStepFails Fault = "clean-step-fails"
	// CleanStepHangs makes every in-band step of cleaning wait.
	CleanStepHangs Fault = "clean-step-hangs"
	// LoseBIOSChanges makes the BIOS accept changes of settings and forget them at the next boot.
	LoseBIOSChanges Fault = "lose-bios-changes"
	// VolumeTaskFails makes the RAID controller create volumes with the next reset only, in a task that fails.
	VolumeTaskFails Fault = "volume-task-fails"
	// UpdateTaskFails makes the task of a firmware update fail when the firmware is to be installed.
	UpdateTaskFails Fault = "update-task-fails"
	// BMCRestarts makes the BMC restart itself after an update of its own firmware, once somebody has asked for
	// the task. Meanwhile it refuses connections, and afterwards the task no longer exists.
	BMCRestarts Fault = "bmc-restarts"
	// RefuseMedia makes the BMC refuse to insert images into its virtual drives.
	RefuseMedia Fault = "refuse-media"
	// PartsFail makes the BMC answer 500 for what neither booting nor inspecting the machine needs: BIOS settings and their registry,
	// firmware, disks, network adapters, Secure Boot, virtual drives and events. (Without the network interfaces of the System, Ironic
	// inspects nothing.)
	PartsFail Fault = "parts-fail"
)

// SetFault adds a fault to a machine. If the ramdisk reports the fault to Ironic, it uses message; an
// empty message is replaced by a default.
func (m *Machine) SetFault(f Fault, message string) error {
	if message == "" {
		message = "simulated fault " + string(f)
	}
	m.mu.Lock()
	m.faults[f] = message
	m.mu.Unlock()
	return m.bmc.apply()
}

// ClearFault removes faults from a machine; without arguments, it removes all of them.
func (m *Machine) ClearFault(faults ...Fault) error {
	m.mu.Lock()
	for _, f := range faults {
		delete(m.faults, f)
	}
	if len(faults) == 0 {
		clear(m.faults)
	}
	m.mu.Unlock()
	return m.bmc.apply()
}

// faulty reports whether the machine has a fault. m.mu must be held.
func (m *Machine) faulty(f Fault) bool {
	_, ok := m.faults[f]
	return ok
}

// fault returns the message of a fault, and whether the machine has the fault.
func (m *Machine) fault(f Fault) (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	message, ok := m.faults[f]
	return message, ok
}
