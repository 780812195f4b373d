// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// A conductor reserves a node before it changes its state or its power, and gives the reservation up after that. If it was stopped meanwhile, it
// may leave the node as it is, for ever and without a reservation: when it starts, it fails only as many nodes in each state as
// periodic_max_workers says, eight by default, and none that Ironic does not poll; and whoever takes its nodes over leaves the power target
// of those that are in maintenance. Ironic does not ask the BMC of a node with a power target for its power state.

// forgottenAfter is for how long a node at which Ironic is said to be at work must have been seen without a reservation to be one that Ironic has
// forgotten. Of a node that Ironic polls, it is longer: a conductor that is stopped, or cut off from the database, loses its reservations
// while it goes on working, for as long as graceful_shutdown_timeout and drain_shutdown_timeout say (half an hour at most by default).
func forgottenAfter(node *ironic.Node) time.Duration {
	if node.IsNotPolled() {
		return 20 * time.Second
	}
	return time.Hour
}

// observeForgotten sets whether Ironic has forgotten the node. before is what was recorded of the node; nil if nothing was. Ironic does not
// tell when a reservation ended, so that is when it was first seen to be missing, by the clock of this server.
func observeForgotten(status, before *metal3.IronicStatus, node *ironic.Node, now time.Time) {
	state := node.ProvisionState
	isAtWork := state.IsWorked() || node.TargetPowerState != "" && !state.IsInTransit()
	if !isAtWork || node.Reservation != "" || node.LockConcealed {
		return
	}
	since := WholeSeconds(now)
	isSame := before != nil && before.NodeUUID == status.NodeUUID && before.ProvisionState == status.ProvisionState && before.UnreservedSince != nil
	if isSame {
		since = *before.UnreservedSince
	}
	status.UnreservedSince = &since
	status.Forgotten = isSame && before.Forgotten || now.Sub(since.Time) > forgottenAfter(node)
}

// isBeingSwitched reports whether Ironic is changing the power state of the node.
func (n *Node) isBeingSwitched() bool { return n.TargetPowerState != "" && !n.isSwitchForgotten() }

// isSwitchForgotten reports whether the node has a power target that nobody will take away. Its power state may be an old one. Ironic accepts
// another power action, for which it asks the BMC before anything else.
func (n *Node) isSwitchForgotten() bool {
	return n.Forgotten && n.TargetPowerState != "" && !n.ProvisionState.IsInTransit()
}

// isStuck reports whether Ironic will never continue to work on the node, which may be registered anew.
func isStuck(host *metal3.BareMetalHost, node *Node) bool {
	return node.Forgotten && node.ProvisionState.IsWorked() && mayRegisterAnew(host, node) && !isInMaintenance(node, LeavingReason(host))
}

// mayRegisterAnew reports whether a node that Ironic has forgotten may be deleted and registered anew, which adopts or cleans the machine: it runs
// nothing, nobody else has begun anything with it, and no host is deleted whose disks are being erased. A machine that was being serviced or
// rescued may be in a ramdisk, and would be taken for one that runs its image. Nothing else than that ends the work on a node that Ironic does
// not poll.
func mayRegisterAnew(host *metal3.BareMetalHost, node *Node) bool {
	status := &host.Status
	switch state := node.ProvisionState; {
	case state.IsDeployed():
		return false
	case node.OwnParent:
		return true
	case state == ironic.Adopting, status.Provisioning.State.RunsSomething(), pendingRebuild(host) != nil,
		node.InstanceUUID != "" && !IsOwnInstance(host, node.UUID, node.InstanceUUID):
		return false
	case !host.DeletionTimestamp.IsZero():
		return state == ironic.Verifying || state == ironic.Inspecting
	}
	return true
}

// forgottenSwitch says what is wrong with a node that isSwitchForgotten.
func forgottenSwitch(node *Node) string {
	return fmt.Sprintf("Ironic has forgotten that it was changing the power state (target %s), and does not compare it with the machine any more: its conductor was stopped meanwhile. The next power action ends that", node.TargetPowerState)
}

// forgottenError returns what to say of a node on which Ironic will never continue to work; nil if it may.
func forgottenError(status *metal3.BareMetalHostStatus, host *metal3.BareMetalHost, node *Node) *hostError {
	if !node.Forgotten || !node.ProvisionState.IsWorked() {
		return nil
	}
	kind := errorTypeInState(status.Provisioning.State)
	if node.ProvisionState == ironic.Servicing {
		kind = metal3.ServicingError
	}
	message := fmt.Sprintf("Ironic has forgotten the node, whose state is %s: its conductor was stopped while it worked on it", node.ProvisionState)
	seen := *host
	seen.Status = *status
	if !isStuck(&seen, node) {
		message += ". It is left alone, because the machine may be in use: "
		if !node.OwnParent {
			message += "restart the conductor, which fails such nodes, or "
		}
		message += "put the node into maintenance and delete it, so that the host is registered anew, and reboot the machine"
	}
	return newError(kind, message)
}
