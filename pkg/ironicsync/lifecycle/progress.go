// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// operationOf returns what Ironic is doing on the node.
func operationOf(node *ironic.Node) metal3.IronicOperation {
	switch node.ProvisionState {
	case ironic.Inspecting, ironic.InspectWait:
		return metal3.OperationInspect
	case ironic.Cleaning, ironic.CleanWait, ironic.CleanHold:
		return metal3.OperationClean
	case ironic.Deploying, ironic.DeployWait, ironic.DeployHold:
		return metal3.OperationDeploy
	case ironic.Servicing, ironic.ServiceWait, ironic.ServiceHold:
		return metal3.OperationService
	}
	return ""
}

func stepOf(node *ironic.Node) string {
	for _, s := range []ironic.Step{node.CleanStep, node.DeployStep, node.ServiceStep} {
		if s.Step != "" {
			return s.Interface + "." + s.Step
		}
	}
	return ""
}

// positionOf returns where the current step is among those of the operation.
func positionOf(node *ironic.Node, operation metal3.IronicOperation) ironic.StepPosition {
	switch operation {
	case metal3.OperationClean:
		return node.Internals.Clean
	case metal3.OperationDeploy:
		return node.Internals.Deploy
	case metal3.OperationService:
		return node.Internals.Service
	}
	return ironic.StepPosition{}
}

// observeProgress sets how far the operation of status is. before is what was recorded of the
// node; nil if nothing was. Ironic does not tell when an operation or a step began, so that is
// when a change was first seen.
func observeProgress(status, before *metal3.IronicStatus, node *ironic.Node, now time.Time) {
	if before == nil || before.NodeUUID != status.NodeUUID {
		before = &metal3.IronicStatus{}
	}
	if status.Step != "" {
		position := positionOf(node, status.Operation)
		status.StepIndex, status.StepCount = position.Number, position.Count
	}
	began := begunAt(node, now)
	switch {
	case status.Operation == "":
	case status.Operation == before.Operation && before.OperationStartedAt != nil:
		status.OperationStartedAt = before.OperationStartedAt
	default:
		status.OperationStartedAt = &began
	}
	switch {
	case status.Step == "":
	case status.Operation == before.Operation && status.Step == before.Step && status.StepIndex == before.StepIndex && before.StepStartedAt != nil:
		status.StepStartedAt = before.StepStartedAt
	default:
		status.StepStartedAt = &began
	}
}

// begunAt returns the best guess of when something began that is seen now for the first time:
// when Ironic last changed the node's state. That moment is never before the beginning, but each
// heartbeat of a ramdisk renews it. Our clock may differ from Ironic's, so only the time that
// has passed by Ironic's clock counts.
func begunAt(node *ironic.Node, now time.Time) metav1.Time {
	if node.ProvisionUpdatedAt != nil && node.AnsweredAt.After(*node.ProvisionUpdatedAt) {
		now = now.Add(-node.AnsweredAt.Sub(*node.ProvisionUpdatedAt))
	}
	return WholeSeconds(now)
}
