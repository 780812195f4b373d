// SPDX-License-Identifier: Apache-2.0

package fsm

// Done ends the work on a node, or a part of it, as it should end. Of a teardown
// that is the beginning of the cleaning that follows it.
func (m Machine) Done(n *Node) bool {
	switch {
	case n.ProvisionState == Deleting:
		n.InstanceUUID = ""
		return m.Move(n, "clean")
	case n.ProvisionState == Cleaning && (n.TargetProvisionState == Manageable || n.Retired):
		return m.Move(n, "manage")
	}
	return m.Move(n, "done")
}

// Verified ends verifying: from now on the power state is known.
func (m Machine) Verified(n *Node, power string) bool {
	n.PowerState = power
	return m.Move(n, "done")
}

// Fail moves the node to the failed state of its work. What went wrong is
// written at that or, so that a reader can see the one without the other, a
// moment later while the node is still locked.
func (m Machine) Fail(n *Node) bool {
	switch n.ProvisionState {
	case Deleting:
		n.InstanceUUID = ""
	case Adopting:
		n.PowerState = ""
	}
	return m.Move(n, "fail")
}

// ServiceAborted makes a node active that a service has failed on.
func (m Machine) ServiceAborted(n *Node, text string) bool {
	if !m.Move(n, "abort") {
		return false
	}
	n.LastError = text
	return true
}

// ReleaseLocks is the start of a conductor that finds the node with its own lock from the life before.
func (m Machine) ReleaseLocks(n *Node, conductor string) {
	if n.Reservation != conductor {
		return
	}
	if n.TargetPowerState != "" {
		n.LastError = "Pending power operation was aborted due to conductor restart"
	}
	n.Reservation, n.TargetPowerState = "", ""
}

// IsInterrupted reports whether a conductor that starts fails the node, because somebody had worked on it before.
func (n *Node) IsInterrupted() bool { return n.Reservation == "" && isWorked(n.ProvisionState) }

// FailInterrupted fails a node that IsInterrupted, and returns why.
func (m Machine) FailInterrupted(n *Node, conductor string) (failed string) {
	failed = "The " + n.ProvisionState + " state can't be resumed by conductor " + conductor + ". Moving to fail state."
	m.Move(n, "fail")
	n.TargetProvisionState = goals[n.ProvisionState] // also of a manual clean
	n.LastError = failed
	return failed
}

// PowerAfter is the power target with which Ironic ends its work on a node, where
// a machine has booted the ramdisk for it: a deployed one boots its disk, all
// others are switched off, or rebooted if they must not be.
func (n *Node) PowerAfter() string {
	switch n.ProvisionState {
	case Deploying, Servicing, ServiceFail:
		return Reboot
	}
	if n.DisablePowerOff {
		return Reboot
	}
	return PowerOff
}
