// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
)

// Whose a deployment is: what is recorded of it, and the instance_uuid by which it is known again.

// isDeploymentOf reports whether what is deployed on the node, if anything, is what the
// host's status is about. It is asked of hosts that are in a state of being deployed only:
// others take over what they find.
func isDeploymentOf(host *metal3.BareMetalHost, node *Node) bool {
	undeploying := false
	switch host.Status.Provisioning.State {
	case metal3.StateProvisioned, metal3.StateExternallyProvisioned:
	case metal3.StateProvisioning:
		if !isUnderWay(host.Status.OperationHistory.Provision) {
			return true // another user's deployment, which is followed and not touched
		}
	case metal3.StateDeprovisioning:
		if undeploying = isUnderWay(host.Status.OperationHistory.Deprovision); !undeploying {
			return true
		}
	case metal3.StatePoweringOffBeforeDelete, metal3.StateDeleting:
	default:
		return true // nothing on it is this host's, and nothing is done to what somebody deploys
	}
	switch state := node.ProvisionState; {
	case state == ironic.Deleting, state == ironic.Error && node.InstanceUUID == "":
		return true // Ironic forgets the instance on the way
	case !state.IsDeployed() && !isDeploymentBegun(state):
		return true
	}
	recorded := host.Status.Record.Deployment
	if recorded == nil {
		// By the Bare Metal Operator, which gives the host's UID to the node; or begun on
		// a node that was left over from an earlier host of the name.
		return node.InstanceUUID == string(host.UID) || undeploying && !node.ProvisionState.IsDeployed()
	}
	return recorded.NodeUUID == node.UUID && recorded.InstanceUUID == node.InstanceUUID
}

// isWithoutIdentity reports whether nothing tells what a node runs from another deployment, because whoever deployed it gave it no
// instance_uuid. That suffices for what ends nothing. A node that has been active ever since the deployment was recorded runs that.
func isWithoutIdentity(host *metal3.BareMetalHost, node *Node) bool {
	if !node.ProvisionState.IsDeployed() || node.InstanceUUID != "" || !isToBeUndeployed(host) {
		return false
	}
	d := host.Status.Record.Deployment
	return d == nil || d.NodeUUID != node.UUID || d.ActiveSince == nil || !d.ActiveSince.Equal(node.StateChangedAt)
}

// isLostSinceBackup reports whether the host, whose record is of a backup or was held for another deployment, is to be
// undeployed, while Ironic has no deployment for it, nor is at work on its end. A node that
// Ironic has lost without a restore is cleaned: its host is of today.
func (s Situation) isLostSinceBackup() bool {
	held := s.Host.Status.Record.Hold
	if !s.isOfBackup() && (held == nil || held.Reason != metal3.AnotherDeploymentReason) || !isToBeUndeployed(s.Host) {
		return false
	}
	return hasNoDeployment(s.node) && (s.node == nil || !isTakenOver(s.Host, s.node))
}

// isOfBackup reports whether etcd was restored since the machine was last seen to be as the host's record says. Nobody has to have marked
// the host: not all are planned for between a restore and the moment when a person lets the server go on.
func (s Situation) isOfBackup() bool { return s.Host.Status.Record.AsOfRestore < s.RestoredAt }

// asOfRestore returns the restore of etcd since which the machine is as recorded, if that is known now. Of what a host has run, it is
// known when Ironic shows that deployment, or works on its end.
func (s Situation) asOfRestore() int64 {
	switch s.Host.Status.Provisioning.State {
	case metal3.StateProvisioning, metal3.StateProvisioned, metal3.StateDeprovisioning:
		if hasNoDeployment(s.node) {
			return 0
		}
	}
	return s.RestoredAt
}

// MayUndoOfBackup reports whether a host is to be undeployed that is of a backup, so that its machine may be another user's since. restoredAt is
// that of Situation.
func MayUndoOfBackup(host *metal3.BareMetalHost, restoredAt int64) bool {
	return Situation{Host: host, RestoredAt: restoredAt}.isOfBackup() && isToBeUndeployed(host)
}

// hasNoDeployment reports whether Ironic has no deployment on a node, nor is at work on its end.
func hasNoDeployment(node *Node) bool {
	if node == nil {
		return true
	}
	switch node.ProvisionState {
	case ironic.Enroll, ironic.Verifying, ironic.Manageable, ironic.InspectFail, ironic.CleanFail, ironic.AdoptFail:
		return true
	}
	return false
}

// isToBeUndeployed reports whether the host's record and its spec ask for the end of what this
// server has deployed.
func isToBeUndeployed(host *metal3.BareMetalHost) bool {
	deleted := !host.DeletionTimestamp.IsZero()
	switch host.Status.Provisioning.State {
	case metal3.StateProvisioning:
		return deleted && isUnderWay(host.Status.OperationHistory.Provision)
	case metal3.StateProvisioned:
		return deploy.Deployed(host) && (deleted || deploy.MustDeprovision(host))
	case metal3.StateDeprovisioning:
		return isUnderWay(host.Status.OperationHistory.Deprovision)
	}
	return false
}

func recordedInstance(host *metal3.BareMetalHost) string {
	if d := host.Status.Record.Deployment; d != nil {
		return d.InstanceUUID
	}
	return string(host.UID)
}

// describeDeployment says what the host's status is about.
func describeDeployment(host *metal3.BareMetalHost) string {
	if d := host.Status.Record.Deployment; d != nil {
		return fmt.Sprintf("instance_uuid %q on node %s", d.InstanceUUID, d.NodeUUID)
	}
	return fmt.Sprintf("instance_uuid %q", host.UID)
}

// observeDeployment records what is deployed on the node of a host whose status is by the Bare Metal
// Operator, or was restored from an annotation. What is recorded already stays: that Ironic reports
// something else now is what Hold is about.
func observeDeployment(status *metal3.BareMetalHostStatus, host *metal3.BareMetalHost, node *ironic.Node) {
	if status.Record.Deployment != nil && host.Spec.Online { // as in CountOnline
		status.Record.Deployment.KeepPower = false // spec.online counts from now on
	}
	if status.Record.Deployment != nil || node.ProvisionState != ironic.Active {
		return
	}
	switch status.Provisioning.State {
	case metal3.StateProvisioned, metal3.StateExternallyProvisioned:
		// A name is given to a node of whatever runs. What an external host runs may have no identity; nothing of it is ended.
		isExternal := status.Provisioning.State == metal3.StateExternallyProvisioned && node.InstanceUUID == "" && node.Name == NodeName(host)
		// The operator's instance_uuid is the UID that the host had when it was deployed, and a host that was moved has another one
		// since; and it gives none to a node that it adopts anew, because Ironic has lost its database or the host was moved. The
		// status of such a host has named the node before this server was told of either.
		isLeft := host.Status.Record.RegisteredWith == nil && host.Status.Provisioning.ID == node.UUID && node.Name == NodeName(host)
		if isExternal || isLeft || node.InstanceUUID == string(host.UID) || string(node.Marks.Host) == string(host.UID) {
			status.Record.Deployment = deploymentFound(host, NodeOf(status))
			if node.InstanceUUID == string(host.UID) {
				// By the operator, with which nobody can leave spec.online out. It may have been about to switch the machine off.
				status.Record.Deployment.KeepPower = false
			}
		}
	}
}

// deploymentFound is what is deployed on a node on which it was found, whoever records that. If the machine is on although spec.online
// is false, it is left on, because false may only mean that the field was omitted. The same holds while Ironic does not know its power,
// or the BMC says nothing that Ironic understands. What is recorded of the same deployment already says whether spec.online has counted since.
func deploymentFound(host *metal3.BareMetalHost, node *Node) *metal3.Deployment {
	d := deploymentOn(node)
	was := host.Status.Record.Deployment
	if was != nil && was.NodeUUID == node.UUID && (was.KeepPower || was.InstanceUUID == node.InstanceUUID) {
		d.KeepPower = was.KeepPower
	} else {
		_, off := powerOf(node)
		d.KeepPower = !(off && node.TargetPowerState == "") && !host.Spec.Online
	}
	return d
}

// deploymentOn is what is deployed on a node.
func deploymentOn(node *Node) *metal3.Deployment {
	return &metal3.Deployment{NodeUUID: node.UUID, InstanceUUID: node.InstanceUUID}
}

// newInstanceUUID is the instance_uuid of an attempt to provision host. Another attempt
// begins at another time, and so has another one. Its first groups follow from the host, and the last one from that time, so that
// the server knows what it has set itself, whatever has become of the record of that attempt.
func newInstanceUUID(host *metal3.BareMetalHost, began metav1.Time) string {
	id := instanceUUIDsOf(host)
	seconds := binary.BigEndian.AppendUint64(nil, uint64(began.Unix()))
	copy(id[lastGroup:], seconds[len(seconds)-len(id[lastGroup:]):])
	return id.String()
}

// AdoptedInstanceUUID is the instance_uuid with which the node of a host is created that Ironic is to adopt although nothing is
// recorded of what it runs. It is another one after each registration.
func AdoptedInstanceUUID(host *metal3.BareMetalHost) string {
	return newInstanceUUID(host, host.Status.OperationHistory.Register.Start)
}

// IdentifyDeployment records what Ironic is to adopt on a node, and gives it an instance_uuid, if it has none. Nothing is recorded yet of
// what a host runs that was moved here.
func IdentifyDeployment(host *metal3.BareMetalHost, node *ironic.Node, now time.Time) {
	record := &host.Status.Record
	if record.Deployment == nil {
		isOwn := IsOwnInstance(host, node.UUID, node.InstanceUUID)
		takeDeployment(host, NodeFromIronic(node))
		if !isOwn {
			record.Deployment.InstanceUUID = ""
		}
	}
	if record.Deployment.InstanceUUID == "" {
		record.Deployment.InstanceUUID = newInstanceUUID(host, WholeSeconds(now))
	}
	if record.Deployment.MayAdopt { // a person may have created the node again, with another UUID
		record.Deployment.NodeUUID = node.UUID
	}
}

// IsIdentified reports whether IdentifyDeployment has nothing to record.
func IsIdentified(host *metal3.BareMetalHost, node *ironic.Node) bool {
	d := host.Status.Record.Deployment
	return d != nil && (d.InstanceUUID != "" || node.InstanceUUID != "") && (d.NodeUUID == node.UUID || !d.MayAdopt)
}

// lastGroup is where the last of the groups of a UUID begins.
const lastGroup = 10

// instanceUUIDsOf has the first groups of all instance_uuids of host.
func instanceUUIDsOf(host *metal3.BareMetalHost) uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("metal3-apiserver/"+string(host.UID)))
}

// IsOwnInstance reports whether instance, which is not empty, is an instance_uuid that this server has set for host, at some time, or
// that the Bare Metal Operator has: the host's UID; or that a person has confirmed to be the host's.
func IsOwnInstance(host *metal3.BareMetalHost, nodeUUID, instance string) bool {
	record := &host.Status.Record
	if instance == string(host.UID) || record.Deployment != nil && record.Deployment.InstanceUUID == instance ||
		record.Takeover != nil && record.Takeover.NodeUUID == nodeUUID && record.Takeover.InstanceUUID == instance {
		return true
	}
	given, err := uuid.Parse(instance)
	own := instanceUUIDsOf(host)
	return err == nil && bytes.Equal(given[:lastGroup], own[:lastGroup])
}

// isReserved reports whether another user of Ironic has set the instance_uuid of a node on which nothing is deployed: that is how users of
// Ironic reserve a node before they deploy it.
func isReserved(host *metal3.BareMetalHost, node *Node) bool {
	switch node.ProvisionState {
	case ironic.Available, ironic.Manageable:
		return node.InstanceUUID != "" && !IsOwnInstance(host, node.UUID, node.InstanceUUID)
	}
	return false
}

// HasFailedForAnother reports whether another user of Ironic has tried to deploy or to undeploy a node that no host of this server ever
// had, and has the node reserved still.
func HasFailedForAnother(host *metal3.BareMetalHost, node *ironic.Node) bool {
	switch node.ProvisionState {
	case ironic.DeployFail, ironic.Error:
		return node.InstanceUUID != "" && node.Marks.Host == "" && !IsOwnInstance(host, node.UUID, node.InstanceUUID)
	}
	return false
}

// InstanceUUID is the instance_uuid that the node of a host has while it is deployed.
func InstanceUUID(host *metal3.BareMetalHost) string { return recordedInstance(host) }
