// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// A host that is moved to another Ironic leaves the one where it is as if it were detached, and is adopted in the
// other one as if that had lost its node: neither touches the machine. The request is recorded first, and the
// record's Ironic changes in one write with the end of the request, when Ironic has no node of the host any more. So
// a leader that is killed anywhere has a successor that goes on, there is never a node in two Ironics, and until the
// node is gone the request can be called off.

// RequestTransfer records that a host is to be moved to another Ironic. It returns an error that says why the host does
// not permit it.
func RequestTransfer(host *metal3.BareMetalHost, node *ironic.Node, to string, now time.Time) error {
	if pending := host.Status.Record.Transfer; pending != nil && pending.To == to {
		return nil // it is as requested
	}
	if err := transferObstacle(host, NodeFromIronic(node)); err != nil {
		return err
	}
	host.Status.Record.Transfer = &metal3.Transfer{To: to, RequestedAt: WholeSeconds(now)}
	Render(host, now)
	return nil
}

// CallOffTransfer records that a host stays in its Ironic. If its node was taken out already, it is created again. It returns
// whether the host was to be moved.
func CallOffTransfer(host *metal3.BareMetalHost, now time.Time) bool {
	if host.Status.Record.Transfer == nil {
		return false
	}
	host.Status.Record.Transfer = nil
	keepNode(host)
	endDetachError(host)
	Render(host, now)
	return true
}

func endDetachError(host *metal3.BareMetalHost) {
	if HasFailureOf(&host.Status, metal3.DetachError) {
		ClearFailure(host)
		resetErrorCount(&host.Status)
	}
}

// transferObstacle returns why a host cannot be moved to any other Ironic; nil if it can.
func transferObstacle(host *metal3.BareMetalHost, node *Node) error {
	record := &host.Status.Record
	contradiction := contradictionOf(Situation{Host: host, node: node, Cluster: node.MarkedCluster}, Step{Do: LeaveIronic})
	switch {
	case metal3.IsPaused(host):
		return fmt.Errorf("it is paused: remove the annotation %s first", metal3.PausedAnnotation)
	case host.IsDetached(), hasAnnotation(host, metal3.DetachedAnnotation):
		return fmt.Errorf("it is detached: remove the annotation %s first", metal3.DetachedAnnotation)
	case record.Transfer != nil:
		return fmt.Errorf("it is being moved to %s already: call that off first, with a transfer to %s", ironic.DescribeInstance(record.Transfer.To), ironic.DescribeInstance(record.Ironic))
	case !isTransferable(host, node):
		return fmt.Errorf("it is %s: it can be moved when it is available, provisioned or externally provisioned, or when its Ironic does not reach its BMC", cmp.Or(string(host.Status.Provisioning.State), "new"))
	case record.Hold != nil:
		return fmt.Errorf("its machine is left alone: %s", record.Hold.Message)
	case contradiction != nil:
		return fmt.Errorf("its machine is left alone: %s", contradiction.message)
	case record.Error != nil && !isUnverified(node) && !(node.isSwitchForgotten() && record.Error.Type == metal3.PowerManagementError):
		return fmt.Errorf("it has an error, which has to end first: %s", record.Error.Message)
	case record.Asked != nil:
		return fmt.Errorf("Ironic may still carry out a request (%s) that got no answer: wait until status.record.asked is gone, some minutes at most", record.Asked.Target)
	case record.PowerCut != nil:
		return errors.New("its power is being cut: wait until it is off")
	case record.RequestedClean != nil:
		return errors.New("a clean was requested and has not ended (status.record.requestedClean)")
	case openService(host, node) != nil:
		return errors.New("its settings are being changed (status.record.servicing)")
	case node.Maintenance:
		return fmt.Errorf("its node is in maintenance, which would not go with it: end that first (%s)", cmp.Or(node.MaintenanceReason, "no reason is given"))
	case !isAtRest(host, node):
		return fmt.Errorf("Ironic is still working on it (%s, target power state %q): wait until that has ended", node.ProvisionState, string(node.TargetPowerState))
	}
	return nil
}

// isTransferable reports whether a host in its state can be moved: nothing is under way, and what its machine runs is known. One that
// waits for its Ironic to reach the BMC can be moved to an Ironic that does, such as that from which it came.
func isTransferable(host *metal3.BareMetalHost, node *Node) bool {
	switch state := host.Status.Provisioning.State; state {
	case metal3.StateAvailable, metal3.StateReady:
		return true
	case metal3.StateRegistering:
		return node == nil || isUnverified(node)
	default:
		return state.RunsSomething()
	}
}

// isUnverified reports whether Ironic has not reached the BMC for the node yet, nor tries to. It is at work on nothing then.
func isUnverified(node *Node) bool { return node.ProvisionState == ironic.Enroll }

// isAtRest reports whether neither Ironic nor this server is at work on the node.
func isAtRest(host *metal3.BareMetalHost, node *Node) bool {
	record := &host.Status.Record
	switch {
	case node.IsLocked(), node.isBeingSwitched(), record.Asked != nil, record.PowerCut != nil, openService(host, node) != nil:
		return false
	case isUnverified(node):
		return true
	case host.Status.Provisioning.State.RunsSomething():
		return node.ProvisionState == ironic.Active
	}
	return node.ProvisionState == ironic.Manageable || node.ProvisionState == ironic.Available
}

// nextOfTransfer takes a host out of its Ironic that is to be moved to another one, and records that it is there when
// its node is gone. The second result is false if neither is to be done now.
func nextOfTransfer(s Situation) (Step, bool) {
	host, node := s.Host, s.node
	if host.Status.Record.Transfer == nil || host.IsDetached() || hasAnnotation(host, metal3.DetachedAnnotation) || !isTransferable(host, node) {
		return Step{}, false
	}
	switch {
	case node == nil:
		return Step{Do: ChangeIronic, Error: metal3.DetachError}, true
	case node.IsLocked():
		return Step{Do: Wait}, true
	case isInLeavingMaintenance(host, node), !node.Maintenance && isAtRest(host, node):
		return Step{Do: LeaveIronic, Error: metal3.DetachError}, true
	}
	return Step{}, false // it leaves when it is at rest again
}

// MarkTransferred records that a host is in the Ironic to which it was to be moved. It is registered there, with a node of
// the same UUID.
func MarkTransferred(host *metal3.BareMetalHost, now time.Time) {
	status, record := &host.Status, &host.Status.Record
	record.Ironic, record.Transfer = record.Transfer.To, nil
	record.Takeover = nil // which is about the former node
	MarkNodeRemoved(host) // the new Ironic has none yet, whoever has removed that from the former one
	record.Registration = newRegistration(host, metal3.NodeLostReason, "The host was moved to "+ironic.DescribeInstance(record.Ironic)+", where it is registered again")
	forgetNode(status)
	status.OperationHistory.Register = metal3.OperationMetric{Start: WholeSeconds(now)}
	if d := record.Deployment; d != nil {
		d.MayAdopt, d.ActiveSince = true, nil // the other Ironic's clock may differ
	}
	endDetachError(host)
}
