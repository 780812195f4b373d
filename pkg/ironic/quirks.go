// SPDX-License-Identifier: Apache-2.0

package ironic

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// This file has the rules that depend on a defect of Ironic, or on a behaviour that its API does not
// promise: what Ironic does, in which releases, and what follows from it here. "Not ended as of 39.0" says
// that 39.0, the newest release that this server knows, does it too, or that no release is known that does
// not. What is there in one release and missing in another, as intended, is in features.go.

// Quirks are defects that an Ironic has or may have, by the version of its API.
type Quirks struct {
	// PatchMakesOwnParent is set if a PATCH may make a node its own parent: 29.0.5 does that with each PATCH.
	// It is assumed of all releases that know parents (22.0 and later) before 39.0, which does not do it.
	// The client sends PowerSupplyKey along with each PATCH to such an Ironic; see Node.IsOwnParent.
	PatchMakesOwnParent bool
	// StuckAfterRAIDStep is set if Ironic does not notice the end of a clean step that follows one for RAID.
	// 21.4 keeps the mark cleaning_polling of a RAID step that was done at once, and then ignores the
	// heartbeats of the ramdisk. 29.0 is the oldest release that is known not to. RAID and other settings
	// need a clean each.
	StuckAfterRAIDStep bool
}

// MaySkipNextStep reports whether Ironic may take the step after one of a hardware interface for done without having
// begun it: if redfish is enabled beside idrac-redfish, as in Metal3's image, both look after a step for RAID (in all
// releases) or BIOS settings (since 35.0) of a node with idrac-redfish, and each has Ironic go on with the next one. The
// API does not tell which interfaces are enabled beside the node's. Not ended as of 39.0.
func MaySkipNextStep(hardwareInterface string) bool { return hardwareInterface == "idrac-redfish" }

// IsOwnParent reports whether Ironic has made the node its own parent, which 29.0.5 does with any PATCH; ended
// by 39.0. There is no way back through the API. A list leaves out nodes with a parent unless they are
// asked for, and Ironic leaves them out of what it does periodically (IsNotPolled). A parent is
// switched together with its child, so the node can be locked by itself (IsLockedByItself). A node that
// was never used is deleted and created again; others are PATCHed only if something differs.
func (n *Node) IsOwnParent() bool { return n.ParentNode != "" && n.ParentNode == n.UUID }

// IsNotPolled reports whether Ironic leaves the node out of all periodic checks, and out of the cleanup that
// a conductor makes when it starts, as 29.0.5 does with a node that is its own parent; ended by 39.0. It then
// learns the power state only from a power action, waits without a time-out for the node's ramdisk
// and for a conductor that has died, and never notices the end of a firmware update. So this server times
// out the ramdisk, switches on a node whose power state is not known, and refuses firmware updates.
func (n *Node) IsNotPolled() bool { return n.IsOwnParent() }

// PowerSupplyKey in driver_info says that the node has a power supply of its own. It keeps 29.0.5 from locking
// a node that is its own parent a second time to switch it on, which fails; without a parent, it means
// nothing. Each PATCH of this server brings it along where Quirks.PatchMakesOwnParent is set. A node that
// another client has PATCHed gets it when switching it on has failed.
const PowerSupplyKey = "has_dedicated_power_supply"

// IsLockedByItself reports whether Ironic could not switch on a node that is its own parent: it locks the node
// first, and then fails to lock it as the parent. Ended by 39.0.
func IsLockedByItself(isOwnParent bool, lastError string) bool {
	return isOwnParent && strings.Contains(lastError, "parent_node") && strings.Contains(lastError, "locked")
}

// SilentBMCLimit is for how long Ironic may wait for a BMC that takes a connection and says nothing. It is
// longer than the time-outs of all BMCs: 21.4 waits for ever for a Redfish BMC, and it is not known which
// release has ended that. A try that lasts longer no longer counts as one that keeps a
// worker of Ironic's busy.
const SilentBMCLimit = 6 * time.Minute

// IsWaiting reports whether Ironic waits for a ramdisk in this state.
func (s ProvisionState) IsWaiting() bool {
	switch s {
	case InspectWait, CleanWait, DeployWait, ServiceWait, RescueWait:
		return true
	}
	return false
}

// IsHeld reports whether Ironic pauses in this state until somebody has it go on.
func (s ProvisionState) IsHeld() bool {
	return s == CleanHold || s == DeployHold || s == ServiceHold
}

// IsWorked reports whether Ironic itself works in this state, and does not wait for a ramdisk or for an operator.
func (s ProvisionState) IsWorked() bool { return s.IsInTransit() && !s.IsWaiting() && !s.IsHeld() }

// IsWorkedOn reports whether a conductor is working on a node in this state, with this reservation. When it has finished, the node changes. A lock
// does not count while Ironic waits for a
// ramdisk: each heartbeat of the ramdisk locks the node for a moment, and on a busy Ironic nearly every read
// may meet such a lock. A request then waits for the lock in Ironic itself
// ([conductor]node_locked_retry_attempts). Not ended as of 39.0.
func IsWorkedOn(state ProvisionState, reservation string) bool {
	return reservation != "" && !state.IsWaiting()
}

// FailedPowerAction reports whether last_error is about a power action that has failed, which target it had,
// and whether it was a soft power-off. Only the text tells that, in all releases; not ended as of 39.0.
func FailedPowerAction(lastError string) (target PowerTarget, softOff, failed bool) {
	text, failed := strings.CutPrefix(lastError, "Failed to change power state to '")
	if !failed {
		return "", false, false
	}
	text, _, _ = strings.Cut(text, "'")
	return PowerTarget(text), strings.Contains(lastError, string(TargetSoftPowerOff)), true
}

// FailedReboot returns the reboot, soft or hard, of which last_error says that it has failed; empty if it is about something else. The
// machine is on then, as it was and as it should be. Only the text tells that, in all releases; not ended as of 39.0.
func FailedReboot(lastError string) PowerTarget {
	if _, _, failed := FailedPowerAction(lastError); failed {
		for _, target := range []PowerTarget{TargetReboot, TargetSoftReboot} {
			if strings.Contains(lastError, "' by '"+string(target)+"'") {
				return target
			}
		}
	}
	return ""
}

// ServiceFailure returns what Ironic says of why a service has failed; empty if it says nothing. A step that
// notices itself that it has failed leaves its words in maintenance_reason only in 29.0, where
// last_error is about the attempt to end a service that has failed already. Not ended as of 39.0.
func (n *Node) ServiceFailure() string {
	reason := ""
	if n.Fault == FaultServiceFailure {
		reason = n.MaintenanceReason
	}
	return cmp.Or(reason, n.LastError)
}

// SaysBMCIsSilent reports whether an error of a node is that of a BMC that does not answer, whatever Ironic was
// about to do. (The sockets' own words do not tell a BMC from a server of images.) No field tells that;
// not ended as of 39.0.
func SaysBMCIsSilent(message string) bool {
	return containsAny(message, "IPMI call failed", "Redfish connection failed", "Failed to get power state")
}

// SaysInterrupted reports whether an error of a node is what a conductor says of something that it finds under way
// when it starts, or takes over from another one, and breaks off. No field tells that; not ended as of
// 39.0.
func SaysInterrupted(message string) bool {
	return SaysPowerAborted(message) || containsAny(message, "state can't be resumed by conductor")
}

// SaysNoWorker reports whether an error of a node is that its conductor had no free worker for a request, which Ironic has refused with
// 503. The node has changed its state and changed it back, with the times that go with that: a rebuild or an inspection seems to have
// ended. No field tells that; not ended as of 39.0.
func SaysNoWorker(message string) bool {
	return containsAny(message, "No free conductor workers available")
}

// SaysPowerAborted reports whether an error of a node is what a conductor says of a power action that it finds under way when it starts, or
// takes over from another one: it breaks it off, whether the BMC had been asked or not. No field tells that; not ended as of 39.0.
func SaysPowerAborted(message string) bool {
	return containsAny(message, "aborted due to conductor restart", "aborted due to conductor take over")
}

// SaysTimedOut reports whether an error of a node says that its BMC has not answered in time, so that it may do all the same what Ironic has
// asked it for: sushy's words are "Read timed out". No field tells that; not ended as of 39.0.
func SaysTimedOut(message string) bool { return containsAny(message, "timed out") }

func containsAny(message string, texts ...string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(message, text) })
}

// DropConcealed removes what Ironic returns in place of texts that its policy conceals from the user. They
// would be taken for an error of the node and for a lock that nobody ever releases. Not ended as of
// 39.0.
func (n *Node) DropConcealed() {
	DropConcealed(&n.LastError)
	n.LockConcealed = DropConcealed(&n.Reservation)
}

// DropConcealed empties a text that Ironic's policy conceals, and reports whether it does.
func DropConcealed(text *string) (isConcealed bool) {
	isConcealed = strings.HasPrefix(*text, "** ") && strings.HasSuffix(*text, " permission. **")
	if isConcealed {
		*text = ""
	}
	return isConcealed
}
