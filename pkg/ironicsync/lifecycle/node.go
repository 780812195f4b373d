// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
)

// Node is what is recorded of a host's node in status.ironic, in the types of package ironic. Decisions
// are made with it rather than with an ironic.Node, so that they cannot depend on anything that is not
// recorded.
type Node struct {
	UUID, Name string
	// Unproven is set if nothing but the UUID is recorded, because the node may not be the host's.
	Unproven             string
	ProvisionState       ironic.ProvisionState
	TargetProvisionState string
	// StateChangedAt is when the node came into its provision state, by Ironic's clock; nil while the
	// node is in transit.
	StateChangedAt    *metav1.MicroTime
	PowerState        ironic.PowerState
	TargetPowerState  ironic.PowerTarget
	Maintenance       bool
	MaintenanceReason string
	Fault             string
	Reservation       string
	LastError         string
	InstanceUUID      string
	// BMC is the key of the BMC that Ironic talks to; a zero one if it knows none.
	BMC bmc.Key
	// MarkedHost and MarkedCluster are the UIDs in the node's ironic.Marks.
	MarkedHost, MarkedCluster string
	// AutomatedClean is as in ironic.Node.
	AutomatedClean string
	// Forgotten is set if no conductor works on the node any more whose state or power target says that one does.
	Forgotten bool
	// UpdatingFirmware is as in ironic.Internals.
	UpdatingFirmware bool
	// OwnParent is ironic.Node.IsOwnParent.
	OwnParent bool
	// InventoryPending is set if the inventory of an inspection that has ended is not read yet.
	InventoryPending bool
}

// NodeOf returns what status has of the host's node; nil if the host has none in Ironic.
func NodeOf(status *metal3.BareMetalHostStatus) *Node {
	s := status.Ironic
	if s == nil {
		return nil
	}
	return &Node{
		UUID:                 s.NodeUUID,
		Name:                 s.NodeName,
		Unproven:             s.Unproven,
		ProvisionState:       ironic.ProvisionState(s.ProvisionState),
		TargetProvisionState: s.TargetProvisionState,
		StateChangedAt:       s.StateChangedAt,
		PowerState:           ironic.PowerState(s.PowerState),
		TargetPowerState:     ironic.PowerTarget(s.TargetPowerState),
		Maintenance:          s.Maintenance,
		MaintenanceReason:    s.MaintenanceReason,
		Fault:                s.Fault,
		Reservation:          s.Reservation,
		LastError:            s.LastError,
		InstanceUUID:         s.InstanceUUID,
		BMC:                  bmc.ParseKey(s.BMC),
		MarkedHost:           s.MarkedHost,
		MarkedCluster:        s.MarkedCluster,
		AutomatedClean:       s.AutomatedClean,
		Forgotten:            s.Forgotten,
		UpdatingFirmware:     s.UpdatingFirmware,
		OwnParent:            s.OwnParent,
		InventoryPending:     s.InventoryPending,
	}
}

// IsLocked reports whether a conductor is working on the node. When it has finished, the node changes, which
// triggers another plan.
func (n *Node) IsLocked() bool { return ironic.IsWorkedOn(n.ProvisionState, n.Reservation) }

// IsLockedByItself is ironic.IsLockedByItself.
func (n *Node) IsLockedByItself() bool { return ironic.IsLockedByItself(n.OwnParent, n.LastError) }

// NodeFromIronic returns node as an observation records it.
func NodeFromIronic(node *ironic.Node) *Node {
	return NodeOf(&metal3.BareMetalHostStatus{Ironic: ironicStatus(node)})
}

// ironicStatus returns what is recorded of a node, apart from the progress of what Ironic does with it.
func ironicStatus(node *ironic.Node) *metal3.IronicStatus {
	status := &metal3.IronicStatus{
		NodeUUID:             node.UUID,
		NodeName:             CutMessage(node.Name),
		ProvisionState:       string(node.ProvisionState),
		TargetProvisionState: node.TargetProvisionState,
		RAIDVolumes:          node.RAIDVolumes.Count(),
		PowerState:           string(node.PowerState),
		TargetPowerState:     string(node.TargetPowerState),
		Operation:            operationOf(node),
		Step:                 CutMessage(stepOf(node)),
		Maintenance:          node.Maintenance,
		MaintenanceReason:    CutMessage(node.MaintenanceReason),
		Fault:                node.Fault,
		Reservation:          node.Reservation,
		LastError:            CutMessage(node.LastError),
		InstanceUUID:         node.InstanceUUID,
		BMC:                  KeyOfNode(node).String(),
		MarkedHost:           string(node.Marks.Host),
		MarkedCluster:        string(node.Marks.Cluster),
		AutomatedClean:       string(node.AutomatedClean),
		UpdatingFirmware:     node.Internals.HasFirmwareUpdates,
		OwnParent:            node.IsOwnParent(),
	}
	if node.ProvisionUpdatedAt != nil && !node.ProvisionState.IsInTransit() { // in transit, each heartbeat of a ramdisk renews it
		changed := metav1.NewMicroTime(node.ProvisionUpdatedAt.Truncate(time.Microsecond))
		status.StateChangedAt = &changed
	}
	return status
}
