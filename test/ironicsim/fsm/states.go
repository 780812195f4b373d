// SPDX-License-Identifier: Apache-2.0

package fsm

// The provision states of ironic/common/states.py.
const (
	Enroll       = "enroll"
	Verifying    = "verifying"
	Manageable   = "manageable"
	Available    = "available"
	Active       = "active"
	Deploying    = "deploying"
	DeployWait   = "wait call-back"
	DeployFail   = "deploy failed"
	DeployHold   = "deploy hold"
	Deleting     = "deleting"
	Error        = "error"
	Cleaning     = "cleaning"
	CleanWait    = "clean wait"
	CleanFail    = "clean failed"
	CleanHold    = "clean hold"
	Inspecting   = "inspecting"
	InspectWait  = "inspect wait"
	InspectFail  = "inspect failed"
	Adopting     = "adopting"
	AdoptFail    = "adopt failed"
	Rescue       = "rescue"
	Rescuing     = "rescuing"
	RescueWait   = "rescue wait"
	RescueFail   = "rescue failed"
	Unrescuing   = "unrescuing"
	UnrescueFail = "unrescue failed"
	Servicing    = "servicing"
	ServiceWait  = "service wait"
	ServiceFail  = "service failed"
	ServiceHold  = "service hold"
)

// The power states and targets of Ironic.
const (
	PowerOn      = "power on"
	PowerOff     = "power off"
	Reboot       = "rebooting"
	SoftPowerOff = "soft power off"
	SoftReboot   = "soft rebooting"
)

// The faults that Ironic gives a node that it puts into maintenance.
const (
	FaultPower   = "power failure"
	FaultClean   = "clean failure"
	FaultService = "service failure"
)

// goals are the states that want to become another one, and which. States that
// are missing here are stable.
var goals = map[string]string{
	Verifying: Manageable,
	Deploying: Active, DeployWait: Active, DeployFail: Active, DeployHold: Active,
	Cleaning: Available, CleanWait: Available, CleanFail: Available, CleanHold: Available,
	Deleting:   Available,
	Inspecting: Manageable, InspectWait: Manageable, InspectFail: Manageable,
	Adopting: Active, AdoptFail: Active,
	Rescuing: Rescue, RescueWait: Rescue, RescueFail: Rescue,
	Unrescuing: Active, UnrescueFail: Active,
	Servicing: Active, ServiceWait: Active, ServiceFail: Active, ServiceHold: Active,
}

// Lists of states that Ironic's rules name.
var (
	// UpdateAllowed are the transitional states in which PATCH is allowed.
	UpdateAllowed = []string{DeployFail, Inspecting, InspectFail, InspectWait, CleanFail, Error,
		Verifying, AdoptFail, RescueFail, UnrescueFail, "service", ServiceHold, ServiceFail}
	// DeleteAllowed are the states in which DELETE is allowed without maintenance.
	DeleteAllowed = []string{Manageable, Enroll, AdoptFail, Available}
	// InterfaceChangeAllowed are those in which hardware interfaces may change.
	InterfaceChangeAllowed = []string{Enroll, Inspecting, InspectWait, Manageable, Available}
	// PowerSyncExcluded are those in which the power state is not synchronised.
	PowerSyncExcluded = []string{DeployWait, CleanWait, Enroll, AdoptFail}
)

// IsWaiting reports whether a node in the state waits for its ramdisk and holds no lock.
func IsWaiting(state string) bool {
	switch state {
	case InspectWait, CleanWait, DeployWait, ServiceWait, RescueWait:
		return true
	}
	return false
}

// isFailed reports whether the state is one that work has failed in.
func isFailed(state string) bool {
	switch state {
	case DeployFail, CleanFail, InspectFail, RescueFail, UnrescueFail, AdoptFail, ServiceFail:
		return true
	}
	return false
}

// isWorked reports whether a conductor works on a node in the state: it holds the
// lock, and moves the node to another state without being asked. What the
// conductor worked on when it died has failed when it starts again; the wait
// states go on.
func isWorked(state string) bool {
	switch state {
	case Deploying, Cleaning, Verifying, Inspecting, Adopting, Rescuing, Unrescuing, Deleting, Servicing:
		return true
	}
	return false
}
