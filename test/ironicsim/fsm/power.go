// SPDX-License-Identifier: Apache-2.0

package fsm

import (
	"fmt"
	"slices"
)

var powerTargets = []string{PowerOn, PowerOff, Reboot, SoftReboot, SoftPowerOff}

// PowerGoal is the power state that a target leads to.
func PowerGoal(target string) string {
	if target == PowerOff || target == SoftPowerOff {
		return PowerOff
	}
	return PowerOn
}

// CheckPower is what the API process refuses of PUT states/power. ident is what
// the client has called the node.
func (n *Node) CheckPower(target, ident string) error {
	switch {
	case !slices.Contains(powerTargets, target):
		return invalidState(target, ident, n.PowerState)
	case n.ProvisionState == Cleaning || n.ProvisionState == CleanWait:
		return invalidState(target, ident, n.ProvisionState)
	case PowerGoal(target) == PowerOff && n.DisablePowerOff:
		return conflict("Failed to set node power state to %s.", target)
	}
	return nil
}

// AskPower begins a change of the power state that was asked for, in a locked node.
func (n *Node) AskPower(target string) { n.TargetPowerState, n.LastError = PowerGoal(target), "" }

// ChangePower is the moment before the BMC is told. The error of work that has
// failed stays.
func (n *Node) ChangePower(target string) {
	n.TargetPowerState = PowerGoal(target)
	if !isFailed(n.ProvisionState) {
		n.LastError = ""
	}
}

// PowerChanged is when the BMC has obeyed.
func (n *Node) PowerChanged(target string) { n.PowerState, n.TargetPowerState = PowerGoal(target), "" }

// PowerFailed is when it has not.
func (n *Node) PowerFailed(text string) { n.LastError, n.TargetPowerState = text, "" }

// IsPowerSynced reports whether Ironic compares the power state of the node with what
// its BMC says.
func (n *Node) IsPowerSynced() bool {
	return n.Reservation == "" && !n.Maintenance && n.TargetPowerState == "" && !slices.Contains(PowerSyncExcluded, n.ProvisionState)
}

// ClearsLastError reports whether an Ironic whose API has a minor version forgets what has failed when the BMC of a synced node says what
// is recorded: since 32.0, with [conductor]node_history, its default.
func ClearsLastError(minor int) bool { return minor >= 101 }

// LosePower puts a node into maintenance whose BMC does not say what its power
// state is to be: state is what it says, which may be nothing, and err why.
func (n *Node) LosePower(state string, err error) (text string) {
	text = fmt.Sprintf("During sync_power_state, max retries exceeded for node %s, node state %s does not match expected state '%s'. Updating DB state to '%s' Switching node to maintenance mode.",
		n.UUID, orNone(state), orNone(n.PowerState), orNone(state))
	if err != nil {
		text += " Error: " + err.Error()
	}
	n.PowerState, n.LastError = state, text
	n.Maintenance, n.MaintenanceReason, n.Fault = true, text, FaultPower
	return text
}

// IsPowerAwaited reports whether Ironic asks the BMC of a node that it has put into
// maintenance for its power state.
func (n *Node) IsPowerAwaited() bool {
	return n.Reservation == "" && n.Maintenance && n.Fault == FaultPower && n.TargetPowerState == "" && n.ProvisionState != Enroll
}

// FindPower ends the maintenance: the BMC answers again. The last error stays.
func (n *Node) FindPower(state string) {
	n.PowerState = state
	n.SetMaintenance(false, "")
}
