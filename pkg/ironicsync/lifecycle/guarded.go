// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// applyGuards returns step, if nothing contradicts it. What does is recorded first.
func applyGuards(s Situation, step Step) Step {
	held := s.Host.Status.Record.Hold
	// What is found may rest on what was recorded before.
	if was := s.Host.Status.Record.HeldBefore; was != nil && s.Restored == "" && s.OperatorRunning == "" {
		return Step{Do: Hold, Reason: was.Reason, Message: was.Message, Other: was.Other, Elsewhere: was.Elsewhere}
	}
	found := contradictionOf(s, step)
	if found != nil && found.blocksAll && s.node != nil && hasAnnotation(s.Host, metal3.DetachedAnnotation) {
		found.message += notDetached
	}
	if found == nil && isUnknown(s) {
		return untilKnown(s, step)
	}
	if found == nil && s.node == nil && s.NodeMayExist {
		return untilMissed(s, step)
	}
	switch {
	case step.Do == Begin && (found == nil || found.reason != metal3.StatusUnreadableReason), metal3.IsPaused(s.Host) && !changesHoldOfPaused(found, held):
		return step
	case found == nil && (held != nil || s.isOfBackup() && s.asOfRestore() > 0):
		return Step{Do: Hold, AsOfRestore: s.asOfRestore()}
	case found == nil:
		return permitted(s, step)
	case found.foreign && !s.Host.DeletionTimestamp.IsZero() && hasFinalizer(s.Host):
		return Step{Do: Release} // the node is not the host's to undeploy, or to remove
	case !found.isOf(held):
		return Step{Do: Hold, Reason: found.reason, Message: found.message, Other: found.other, Elsewhere: found.elsewhere}
	case isFencedAllTheSame(s, found):
		return fence(s)
	}
	return found.leaves(step)
}

// notDetached is for whoever waits for the host to be detached, which would delete a node that may be another machine's.
const notDetached = ". The host is not detached until then"

// permitted is a step that nothing contradicts, or what has to be done before it.
func permitted(s Situation, step Step) Step {
	switch {
	case step.cleans() && !isCleaningTold(s):
		if s.node.ProvisionState.IsInTransit() {
			return Step{Do: Wait} // Ironic does not let it be changed now, and would clean
		}
		tell := Step{Do: SetCleaning, Error: metal3.ProvisioningError}
		if s.Host.Status.Record.Failure == nil {
			return tell // an error of the registration is no reason to wait
		}
		return s.retry(tell, true)
	case step.Do == Wait && s.Host.Status.Record.Resembles != CutMessage(s.SameMachine.Resembles):
		return Step{Do: NoteResemblance, Message: s.SameMachine.Resembles}
	}
	return step
}

// leaves is what a recorded contradiction leaves of a step.
func (c *contradiction) leaves(step Step) Step {
	if c.blocksAll && step.asksIronic() || step.Interrupts() || step.Do == Begin {
		step = Step{Do: Wait}
	}
	if step.Do == Wait && step.After == 0 && (c.reason == metal3.BMCInUseReason || c.reason == metal3.AnotherIronicReason) {
		step.After = sharedPause
	}
	return step
}

// isOf reports whether a contradiction is what is recorded of a host.
func (c *contradiction) isOf(held *metal3.Hold) bool {
	return held != nil && held.Reason == c.reason && held.Message == CutMessage(c.message) && held.Other == c.other && held.Elsewhere == c.elsewhere
}

// changesHoldOfPaused reports whether the hold of a paused host is to be changed: it ends with what it was about, and
// that the status is from a backup is recorded even then, because it is evidence after the pause, too.
func changesHoldOfPaused(found *contradiction, held *metal3.Hold) bool {
	if found == nil {
		return held != nil
	}
	return found.reason == metal3.RestoredReason
}

const (
	// maxNodesAge is how long before the host's own node all nodes may have been read. The poll reads them
	// each second, and takes longer where Ironic is slow.
	maxNodesAge = time.Minute
	// nodesPause is when to look whether all nodes are known by now.
	nodesPause = time.Second
	// sharedPause is when to look whether another node with the host's BMC is still there, or Ironic still has nodes of others
	// only: that this changes is no change of the host.
	sharedPause = 10 * time.Second
)

// isUnknown reports whether the step has to wait because it is not known well enough which other nodes there
// are. A server that has just started knows of none, and one that could not read the feed may not know of a
// new one.
func isUnknown(s Situation) bool {
	if s.node == nil || isSharedBMCConfirmed(s.Host, s.node) {
		return false // other nodes do not matter
	}
	asOf := s.OtherNodes.AsOf
	return asOf.IsZero() || !s.ObservedAt.IsZero() && s.ObservedAt.Sub(asOf) > maxNodesAge
}

// untilKnown is what to do while it is not known whether another node has the host's BMC: the step, if it does not
// interrupt the machine. A hold that may rest on such a node stays.
func untilKnown(s Situation, step Step) Step {
	held := s.Host.Status.Record.Hold
	switch {
	case step.Do == Begin:
		return step
	case held != nil && held.Reason != metal3.BMCInUseReason && !metal3.IsPaused(s.Host):
		return Step{Do: Hold} // what it was about is over
	case step.Interrupts():
		return Step{Do: Wait, After: nodesPause, Message: nodesUnknown}
	case step.Do == Wait && step.After == 0 && s.isOfBackup() && s.asOfRestore() > 0:
		step.After = sharedPause // that the host is not of the backup is noted when it is known, which is no change of the host
	}
	return step
}

// untilMissed is what to do while it is not known whether the node of a host is gone, or only not in the answer of an Ironic that may
// be another one by now, or that has read an older state of its database: the step, if the host does not let go of the node with it.
func untilMissed(s Situation, step Step) Step {
	held := s.Host.Status.Record.Hold
	if step.letsGo() || held != nil && held.Reason == metal3.AnotherIronicReason {
		return Step{Do: Wait, After: nodesPause, Message: nodeUnknown}
	}
	return step
}

// nodeUnknown is for the users of hosts that do not go meanwhile.
const nodeUnknown = "Ironic does not have the node of this host, but the server has not been able to list Ironic's nodes since then. " +
	"The address of Ironic may lead to another one, while the node and its machine are left in the host's own, so the host does not go until they are listed"

// nodesUnknown is for the users of hosts whose machines are not interrupted meanwhile.
const nodesUnknown = "The server has not been able to list Ironic's nodes for more than a minute, or since it began to lead. " +
	"Another node may have the BMC of this host, so the machine is not deployed, cleaned, inspected or switched off until they are listed"
