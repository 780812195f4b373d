// SPDX-License-Identifier: Apache-2.0

package fsm

import (
	"slices"
	"strings"
)

// Node is the part of a node that the machine reads and writes. Empty strings
// are JSON null.
type Node struct {
	UUID                                 string
	ProvisionState, TargetProvisionState string
	PowerState, TargetPowerState         string
	LastError, Reservation               string
	Fault, MaintenanceReason             string
	InstanceUUID                         string
	Maintenance, Protected, Retired      bool
	DisablePowerOff                      bool
}

// Lock gives the node to a conductor, which must Unlock it.
func (n *Node) Lock(conductor string) error {
	if n.Reservation != "" {
		return locked(n)
	}
	n.Reservation = conductor
	return nil
}

// Unlock takes the lock of the node away.
func (n *Node) Unlock() { n.Reservation = "" }

// SetMaintenance is PUT and DELETE maintenance. The last error stays.
func (n *Node) SetMaintenance(on bool, reason string) {
	if n.Maintenance && !on {
		n.Fault = ""
	}
	n.Maintenance, n.MaintenanceReason = on, reason
}

// BreakDown is what becomes of a node beside its last error when the work has
// failed in a step of cleaning or of service: Ironic gives it up. A reason for
// maintenance that is there stays.
func (n *Node) BreakDown() {
	n.Maintenance, n.Fault = true, FaultClean
	if n.ProvisionState == ServiceFail {
		n.Fault = FaultService
	}
	if n.MaintenanceReason == "" {
		n.MaintenanceReason = n.LastError
	}
}

// CheckDelete is what Ironic refuses to delete a node for. In maintenance it
// deletes one in any state.
func (n *Node) CheckDelete() error {
	switch {
	case !n.Maintenance && n.InstanceUUID != "":
		return conflict("Node %s is associated with instance %s.", n.UUID, n.InstanceUUID)
	case n.Protected:
		return protected(n)
	case !n.Maintenance && !slices.Contains(DeleteAllowed, n.ProvisionState):
		return conflict(`Can not delete node "%s" while it is in provision state "%s". Valid provision states to perform deletion are: "('%s')", or set the node into maintenance mode`,
			n.UUID, n.ProvisionState, strings.Join(DeleteAllowed, "', '"))
	}
	return nil
}

// IsInTransition reports whether no PATCH of the node is accepted because of its state.
func (n *Node) IsInTransition() bool {
	return n.TargetProvisionState != "" && !slices.Contains(UpdateAllowed, n.ProvisionState)
}

// CheckInterface is what Ironic refuses to change a hardware interface for. maintained
// is whether the node is in maintenance after the change.
func (n *Node) CheckInterface(kind string, maintained bool) error {
	if maintained || slices.Contains(InterfaceChangeAllowed, n.ProvisionState) {
		return nil
	}
	return conflict("Node %s can not have %s_interface updated unless it is in one of allowed (%s) states or in maintenance mode.",
		n.UUID, kind, strings.Join(InterfaceChangeAllowed, ", "))
}
