// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
)

// The checks of guards. Their messages say what was found, what is not done to the machine, and what a person can do: first what does
// no harm, and of what erases disks that it does.

// leaveAlone is for hosts in any state: without force, one that is deprovisioning would not be detached.
const leaveAlone = "To leave it alone, detach the host (" + metal3.DetachedAnnotation + `={"force":true})`

func restoredEtcd(s Situation, step Step) *contradiction {
	if s.Restored == "" {
		return nil
	}
	return &contradiction{reason: metal3.RestoredReason, message: s.Restored + step.intention(), blocksAll: true}
}

func runningOperator(s Situation, _ Step) *contradiction {
	if s.OperatorRunning == "" {
		return nil
	}
	return &contradiction{reason: metal3.OperatorRunningReason, message: s.OperatorRunning, blocksAll: true}
}

// unreadableStatus is that a host brings along a status that cannot be read, so that it is not known what its machine runs. Without the
// status, the host would be new, and its machine would be deployed anew.
func unreadableStatus(s Situation, _ Step) *contradiction {
	host := s.Host
	if !hasStatusToRestore(host) || !host.DeletionTimestamp.IsZero() {
		return nil
	}
	_, err := metal3.ParseStatusAnnotation(host.Annotations[metal3.StatusAnnotation])
	if err == nil {
		return nil
	}
	return &contradiction{reason: metal3.StatusUnreadableReason, blocksAll: true, message: fmt.Sprintf(
		"The annotation %s, with which the host was created, cannot be read, so it is not known what the machine runs: it %v. Correct the annotation. Without it, the host would be a new one: if its spec has an image, its disks would be erased",
		metal3.StatusAnnotation, err)}
}

// lostSinceBackup is that a backup was restored of a host that is to be undeployed, and Ironic has no deployment for it.
func lostSinceBackup(s Situation, _ Step) *contradiction {
	if !s.isLostSinceBackup() {
		return nil
	}
	return &contradiction{reason: metal3.AnotherDeploymentReason, message: "This host was restored from a backup in which its deployment was still to be undone. Ironic does not have that deployment any more: it may have been undone since, and the machine given to another user. The machine is not undeployed, cleaned, inspected or switched off. " + leaveAlone + "; to have it undeployed and its disks cleaned, confirm its node with the subresource takeover"}
}

// anotherIronic is that the Ironic which has no node of the host is not the one in which the host was registered, or others were.
func anotherIronic(s Situation, _ Step) *contradiction {
	host := s.Host
	switch {
	case !s.AnotherIronic || !hasBMC(host) || !host.DeletionTimestamp.IsZero() && !IsNodeExpected(host),
		hasAnnotation(host, metal3.DetachedAnnotation): // a person lets it go, and nothing is asked of Ironic for that
		return nil
	}
	return &contradiction{reason: metal3.AnotherIronicReason, blocksAll: true, message: fmt.Sprintf(
		"Ironic has neither the node of this host nor that of any other host that was registered in it, but it has other nodes. Its address seems to lead to another Ironic, while the host's own still manages the machine. Nothing is registered in it. Correct the address (the server's flags, or spec.endpoint of the IronicInstance). If the address is right, and this Ironic has lost its database, create a node in it with the name %q and the address of the host's BMC: all hosts are then registered again. To let this host go without its machine being touched, detach it",
		NodeName(host))}
}

// anotherOwner is that another host has the node, so that no person can confirm it for this one.
func anotherOwner(s Situation, _ Step) *contradiction {
	if s.NodeOfAnother {
		return nodeOfAnotherHost()
	}
	return nil
}

func unprovenNode(s Situation, _ Step) *contradiction { return unproven(s.Host, s.node, s.Cluster) }

// othersMaintenance is that a host is to be undeployed because it is deleted, while somebody works on its machine.
func othersMaintenance(s Situation, step Step) *contradiction {
	if !IsInOthersMaintenance(s.Host, s.node) || !step.undeploys() {
		return nil
	}
	return &contradiction{reason: metal3.NodeInMaintenanceReason, message: fmt.Sprintf(
		"The host is being deleted, but somebody has put node %s into maintenance (%q). Undeploying it now would cut the power, and it would not be cleaned, because Ironic does not answer the ramdisk of a node in maintenance. End the maintenance; or detach the host, which is then deleted without touching the machine",
		s.node.UUID, s.node.MaintenanceReason)}
}

func deploymentGone(s Situation, _ Step) *contradiction {
	if !isGone(s.Host) {
		return nil
	}
	return &contradiction{reason: metal3.DeploymentGoneReason, blocksAll: true, message: goneMessage(&s.Host.Status, s.Host.Status.Record.Deployment.Gone)}
}

// sharedMachine is that somebody may use the machine through another node or host. Whoever has confirmed that another node has the BMC has not
// confirmed anything of another host.
func sharedMachine(s Situation, _ Step) *contradiction {
	if isTakenOver(s.Host, s.node) && isSharedBMCConfirmed(s.Host, s.node) {
		return sameMachine(s)
	}
	return shared(s)
}

// shared is that somebody may use the machine through another node.
func shared(s Situation) *contradiction {
	if s.OtherNodes.Exist {
		return &contradiction{reason: metal3.BMCInUseReason, message: fmt.Sprintf(
			"Ironic has another node with the BMC at %q, through which somebody may use the machine. The machine is not undeployed, cleaned, inspected or switched off. Delete the other node in Ironic or correct its driver_info, or confirm node %s with the subresource takeover",
			s.node.BMC, s.node.UUID)}
	}
	if c := sameMachine(s); c != nil {
		return c
	}
	switch held := s.Host.Status.Record.Hold; {
	case s.OtherNodes.ExistElsewhere:
		return nodeElsewhere(s.node)
	case s.OtherNodes.MayExistElsewhere && !isUnknown(s) && held != nil && held.Elsewhere:
		return maybeElsewhere(s.node)
	}
	return nil
}

// sameMachine is that somebody may use the machine as another host.
func sameMachine(s Situation) *contradiction {
	if s.SameMachine.Host == "" {
		return nil
	}
	return &contradiction{reason: metal3.BMCInUseReason, other: s.SameMachine.Host, message: s.SameMachine.Message +
		", so somebody may use the machine through another BMC address. The machine is not undeployed, deployed, cleaned, inspected or switched off. If they are different machines, confirm that with the subresource takeover, once for both. If they are one, detach the host that is wrong, and delete it then, so that what runs is left alone"}
}

// nodeElsewhere is that another Ironic has a node with the BMC of node, and maybeElsewhere that it had one, and cannot be read.
func nodeElsewhere(node *Node) *contradiction {
	return &contradiction{reason: metal3.BMCInUseReason, elsewhere: true, message: fmt.Sprintf(
		"Another Ironic of this server has a node with the BMC at %q, through which somebody may use the machine. It is not undeployed, cleaned, inspected or switched off. Delete that node or correct its driver_info, or confirm node %s with the subresource takeover",
		node.BMC, node.UUID)}
}

func maybeElsewhere(node *Node) *contradiction {
	return &contradiction{reason: metal3.BMCInUseReason, elsewhere: true, message: fmt.Sprintf(
		"Another Ironic of this server had a node with the BMC at %q. Whether it still has it is not known, because not all Ironics have been read since the server started. The machine is not undeployed, cleaned, inspected or switched off. Have them answer (kubectl get ironicinstances), or confirm node %s with the subresource takeover",
		node.BMC, node.UUID)}
}

func reservation(s Situation, _ Step) *contradiction {
	if !isReserved(s.Host, s.node) {
		return nil
	}
	return &contradiction{reason: metal3.AnotherDeploymentReason, message: fmt.Sprintf(
		"Node %s is reserved: its instance_uuid is %q, which this server has not set, so another user of Ironic seems to be about to deploy it. The machine is not deployed, cleaned, inspected or switched off. Have its user release it, or remove its instance_uuid in Ironic; to have it treated as this host's, confirm it with the subresource takeover",
		s.node.UUID, s.node.InstanceUUID)}
}

func anotherDeployment(s Situation, _ Step) *contradiction {
	if isDeploymentOf(s.Host, s.node) {
		return nil
	}
	return &contradiction{reason: metal3.AnotherDeploymentReason, message: fmt.Sprintf(
		"Node %s is %s with instance_uuid %q, but this host's status is about %s: another user of Ironic has deployed the node, or a backup was restored. The machine is not undeployed, cleaned, inspected or switched off. "+leaveAlone+"; if it runs what the spec says, confirm it with the subresource takeover; without an image in the spec, or if the host is deleted, that has it undeployed and its disks cleaned",
		s.node.UUID, s.node.ProvisionState, s.node.InstanceUUID, describeDeployment(s.Host))}
}

// namelessDeployment is that what is to be undeployed has no identity, so that it may be what another user of Ironic has deployed since.
func namelessDeployment(s Situation, step Step) *contradiction {
	if !step.undeploys() || !isWithoutIdentity(s.Host, s.node) {
		return nil
	}
	return &contradiction{reason: metal3.AnotherDeploymentReason, message: fmt.Sprintf(
		"Node %s is %s and has no instance_uuid, so it is not certain that it runs what this host's status says. The machine is not undeployed or cleaned. "+leaveAlone+"; to have it undeployed and its disks cleaned, confirm it with the subresource takeover",
		s.node.UUID, s.node.ProvisionState)}
}

// foundDeployment is that the spec asks for an image on a node that was deployed already when the host got it.
func foundDeployment(s Situation, _ Step) *contradiction {
	if !isOthersDeployment(s.Host) {
		return nil
	}
	return &contradiction{reason: metal3.AnotherDeploymentReason, message: fmt.Sprintf(
		"Node %s is %s with instance_uuid %q: another user of Ironic has deployed it, and this server has not written the image in the spec to it. The machine is not undeployed, cleaned, inspected or switched off. To leave it alone, remove the image from the spec; if it runs what the spec says, confirm it with the subresource takeover; to have its disks erased and the image written, undeploy the node in Ironic",
		s.node.UUID, s.node.ProvisionState, s.node.InstanceUUID)}
}

// isOthersDeployment reports whether the host is provisioned with what was found on its node, while its spec asks
// for an image.
func isOthersDeployment(host *metal3.BareMetalHost) bool {
	return host.Status.Provisioning.State == metal3.StateProvisioned && host.DeletionTimestamp.IsZero() && deploy.WantsImage(&host.Spec) && !deploy.Deployed(host) && !isUndeployed(host)
}

// IsInOthersMaintenance reports whether a host that is to be deleted, and not only detached, has a node in a
// maintenance that somebody has asked for.
func IsInOthersMaintenance(host *metal3.BareMetalHost, node *Node) bool {
	return !host.DeletionTimestamp.IsZero() && !hasAnnotation(host, metal3.DetachedAnnotation) && isInMaintenance(node, LeavingReason(host))
}

// isInMaintenance reports whether a node is in a maintenance that somebody has asked for. leaving is the reason of the one in which this
// server removes it.
func isInMaintenance(node *Node, leaving string) bool {
	return node.Maintenance && node.Fault == "" && node.MaintenanceReason != leaving
}

// IsInMaintenance reports whether somebody has asked for the maintenance in which the host's node is.
func IsInMaintenance(host *metal3.BareMetalHost) bool {
	node := NodeOf(&host.Status)
	return node != nil && isInMaintenance(node, LeavingReason(host))
}
