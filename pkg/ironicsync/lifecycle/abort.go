// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
)

// isAbortRequested reports whether the host requests that Ironic abort what it is doing on the
// node, or has requested the abort that left the node in a failed state. Ironic reports an
// abort as a failure, also in last_error, and does not tell who requested it. Therefore the
// request is recorded while there is something to abort. That is before Next asks Ironic for
// the abort, because every step follows an observation. It remains recorded as long as the
// node is in the failed state, by when the annotation may have been removed.
func isAbortRequested(host *metal3.BareMetalHost, node *Node) bool {
	if isFailedState(node.ProvisionState) {
		before := host.Status.Ironic
		return before != nil && before.AbortRequested
	}
	if metal3.IsPaused(host) || !node.ProvisionState.IsInTransit() {
		return false
	}
	state, isDeleted := host.Status.Provisioning.State, !host.DeletionTimestamp.IsZero()
	if value, detach := host.Annotations[metal3.DetachedAnnotation]; detach {
		args, _ := metal3.ParseDetachedAnnotation(value)
		if args.Force || isDeleted && args.DeleteAction != metal3.DetachedDeleteActionDelay {
			return true
		}
	}
	switch node.ProvisionState {
	case ironic.Deploying, ironic.DeployWait, ironic.DeployHold:
		return isDeleted || state == metal3.StateDeprovisioning || state == metal3.StateProvisioning && (isForced(host) || deploy.AttemptChanged(host))
	case ironic.Inspecting, ironic.InspectWait, ironic.Cleaning, ironic.CleanWait, ironic.CleanHold, ironic.Servicing, ironic.ServiceWait, ironic.ServiceHold:
		switch state {
		case metal3.StateProvisioned, metal3.StateDeprovisioning:
			return false // Ironic is deprovisioning the host, which is not aborted
		case metal3.StateProvisioning:
			return isForced(host) // the cleaning before a deployment
		case metal3.StateInspecting, metal3.StatePreparing:
			return isDeleted || isForced(host)
		}
		return isDeleted
	}
	return false
}

// isFailedState reports whether the state is one in which an abort may leave a node.
func isFailedState(state ironic.ProvisionState) bool {
	switch state {
	case ironic.InspectFail, ironic.CleanFail, ironic.DeployFail, ironic.ServiceFail:
		return true
	}
	return false
}
