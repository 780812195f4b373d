// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// What destroys or interrupts (undeploying, cleaning, inspecting, switching off) rests on
// what holds now and never on memory alone: the node is this host's, Ironic talks to this
// host's BMC, and what runs on the node is what the host's status is about. Where one of
// these does not hold, the step is not taken, and the condition Held says why.

// guards are what is asked before each step, in this order: the first one that finds something decides. They only judge; what is
// recorded, and what is done instead of the step, follows in applyGuards.
var guards = []guard{
	{of: everyHost, finds: []string{metal3.RestoredReason}, check: restoredEtcd},
	{of: everyHost, finds: []string{metal3.OperatorRunningReason}, check: runningOperator},
	{of: everyHost, finds: []string{metal3.StatusUnreadableReason}, check: unreadableStatus},
	{of: everyHost, finds: []string{metal3.AnotherDeploymentReason}, check: lostSinceBackup},
	{of: hostsWithoutNode, finds: []string{metal3.AnotherIronicReason}, check: anotherIronic},
	{of: hostsWithNode, finds: []string{metal3.NodeOfAnotherHostReason}, check: anotherOwner},
	{of: hostsWithNode, finds: []string{metal3.NodeOfAnotherHostReason, metal3.NodeOfAnotherClusterReason, metal3.AnotherBMCReason}, check: unprovenNode},
	{of: hostsWithNode, finds: []string{metal3.NodeInMaintenanceReason}, check: othersMaintenance},
	{of: hostsWithNode, finds: []string{metal3.DeploymentGoneReason}, check: deploymentGone},
	{of: hostsWithNode, finds: []string{metal3.BMCInUseReason}, check: sharedMachine},
	{of: unconfirmedHosts, finds: []string{metal3.AnotherDeploymentReason}, check: reservation},
	{of: unconfirmedHosts, finds: []string{metal3.AnotherDeploymentReason}, check: anotherDeployment},
	{of: unconfirmedHosts, finds: []string{metal3.AnotherDeploymentReason}, check: namelessDeployment},
	{of: unconfirmedHosts, finds: []string{metal3.AnotherDeploymentReason}, check: foundDeployment},
}

// guard is one thing that must hold.
type guard struct {
	of scope
	// finds are the reasons that check may return.
	finds []string
	// check returns what contradicts it; nil if nothing does. step is the one that would be taken.
	check func(s Situation, step Step) *contradiction
}

// scope is of which hosts a guard is asked.
type scope int

const (
	everyHost scope = iota
	hostsWithoutNode
	hostsWithNode
	// unconfirmedHosts have a node that no person has confirmed to be theirs, with what runs on it.
	unconfirmedHosts
)

func (of scope) includes(s Situation) bool {
	switch of {
	case hostsWithoutNode:
		return s.node == nil
	case hostsWithNode:
		return s.node != nil
	case unconfirmedHosts:
		return s.node != nil && !isTakenOver(s.Host, s.node)
	}
	return true
}

// contradiction is why a step must not be taken.
type contradiction struct {
	reason, message string
	// blocksAll is set where nothing at all may be asked of Ironic for the node, because it
	// may not be the host's. Otherwise only what interrupts the machine must not.
	blocksAll bool
	// foreign is set where the node is another host's or may be, so that the host may go without it.
	foreign bool
	// other is the host that seems to be of the same machine.
	other types.UID
	// elsewhere is set where a node in another Ironic has, or may have, the machine.
	elsewhere bool
}

// contradictionOf returns what keeps the server from acting on the host's node; nil if
// nothing does. step is the one that would be taken.
func contradictionOf(s Situation, step Step) *contradiction {
	for _, g := range guards {
		if !g.of.includes(s) {
			continue
		}
		if c := g.check(s, step); c != nil {
			return c
		}
	}
	return nil
}

// HoldReasons returns the reasons of the condition Held.
func HoldReasons() []string {
	var reasons []string
	for _, g := range guards {
		reasons = append(reasons, g.finds...)
	}
	slices.Sort(reasons)
	return slices.Compact(reasons)
}
