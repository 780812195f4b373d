// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
)

// isTakenOver reports whether a person has confirmed that the node, as it is now, is the host's. What this server has written to the
// node since, because of that, changes nothing: the host's marks, and a name for what the node runs.
func isTakenOver(host *metal3.BareMetalHost, node *Node) bool {
	t := host.Status.Record.Takeover
	if t == nil {
		return false
	}
	is := takeoverOf(node, t.Time, t.Held)
	if isMarkedAs(host, node) {
		is.MarkedHost, is.MarkedCluster = t.MarkedHost, t.MarkedCluster
	}
	if d := host.Status.Record.Deployment; t.InstanceUUID == "" && d != nil && d.NodeUUID == node.UUID && d.InstanceUUID == node.InstanceUUID {
		is.InstanceUUID = ""
	}
	return *t == is
}

// isSharedBMCConfirmed reports whether a person has confirmed the node in view of another one with its BMC.
func isSharedBMCConfirmed(host *metal3.BareMetalHost, node *Node) bool {
	return isTakenOver(host, node) && host.Status.Record.Takeover.Held == metal3.BMCInUseReason
}

// isDeploymentConfirmed reports whether a person has confirmed that what is deployed on the node
// is the host's.
func isDeploymentConfirmed(host *metal3.BareMetalHost, node *Node) bool {
	t := host.Status.Record.Takeover
	return t != nil && t.InstanceUUID != "" && t.NodeUUID == node.UUID && t.InstanceUUID == node.InstanceUUID
}

// maxOtherMachines is how many hosts are remembered to be of other machines.
const maxOtherMachines = 32

// confirmApart records that a person has confirmed that the host for which this one is held is of another machine, which no
// deployment and no attachment ends.
func confirmApart(record *metal3.HostRecord) {
	record.OtherMachines = append(record.OtherMachines, record.Hold.Other)
	record.OtherMachines = record.OtherMachines[max(0, len(record.OtherMachines)-maxOtherMachines):]
	endHold(record)
}

// TakeOver makes the node, as it was seen now, the host's: a person has confirmed that it is, and that
// it runs what the spec of now says. Where the spec wants nothing, a provisioned host will be
// deprovisioned. If the host is held because its machine seems to be that of another host, it is only recorded that it is not.
// It returns an error that says why nobody can confirm that now.
func TakeOver(host *metal3.BareMetalHost, seen *ironic.Node, now time.Time) error {
	status, node := &host.Status, NodeFromIronic(seen)
	if held := status.Record.Hold; held != nil && held.Other != "" {
		confirmApart(&status.Record) // the node is not in doubt
		Render(host, now)
		return nil
	}
	if host.Status.Provisioning.State.RunsSomething() && isBeingWiped(node.ProvisionState) {
		return fmt.Errorf("Ironic undeploys or cleans node %s at this moment (%s), so nobody knows what the machine will run: look at it when that has ended", node.UUID, node.ProvisionState)
	}
	held := ""
	if status.Record.Hold != nil {
		held = status.Record.Hold.Reason
	}
	takeover := takeoverOf(node, WholeSeconds(now), held)
	status.Record.Takeover = &takeover
	status.Record.RegisteredWith = nil // so that Ironic is told the host's BMC, and the node gets its marks
	runs := node.ProvisionState.IsDeployed()
	switch {
	case runs:
		status.Record.Deployment = deploymentFound(host, node)
	case status.Record.Deployment != nil && status.Provisioning.State != metal3.StateDeprovisioning: // it runs all the same
		status.Record.Deployment.Gone, status.Record.Deployment.MayAdopt = nil, true
	}
	// The node of a provisioned host may also be one that Ironic is still to adopt.
	if (runs || status.Provisioning.State == metal3.StateProvisioned) && deploy.WantsImage(&host.Spec) {
		status.Provisioning.Image, status.Provisioning.CustomDeploy = *imageOf(host), host.Spec.CustomDeploy.DeepCopy()
		status.LastAttemptedImage = imageOf(host) // which an attempt that is under way ends with
	}
	endHold(&status.Record)
	Render(host, now)
	return nil
}

// isBeingWiped reports whether Ironic is at work on the end of what the node runs, or on its disks.
func isBeingWiped(state ironic.ProvisionState) bool {
	switch state {
	case ironic.Deleting, ironic.Cleaning, ironic.CleanWait:
		return true
	}
	return false
}

// takeoverOf describes a node that a person confirms to be a host's.
func takeoverOf(node *Node, at metav1.Time, held string) metal3.Takeover {
	return metal3.Takeover{
		Time: at, NodeUUID: node.UUID, InstanceUUID: node.InstanceUUID, BMC: node.BMC.String(),
		MarkedHost: node.MarkedHost, MarkedCluster: node.MarkedCluster, Held: held,
	}
}
