// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// A user can also ask for clean steps by name, with the subresource clean. They are no setting:
// nothing is compared, they are carried out once, and they are not tried again if one fails, because
// nobody knows what they have done. So the request is kept (status.record.requestedClean) until the
// preparation that it leads to has ended.

// requestedClean returns the clean that a user has asked for by name; nil if there is none.
func requestedClean(host *metal3.BareMetalHost) (*Clean, error) {
	request := host.Status.Record.RequestedClean
	if request == nil {
		return nil, nil
	}
	clean := &Clean{IsRequested: true}
	for _, step := range request.Steps {
		wanted := ironic.StepRequest{Interface: step.Interface, Step: step.Step, Args: map[string]any{}}
		if step.Args != nil && len(step.Args.Raw) > 0 {
			if err := json.Unmarshal(step.Args.Raw, &wanted.Args); err != nil {
				return nil, fmt.Errorf("the arguments of the clean step %s.%s are no object: %w", step.Interface, step.Step, err)
			}
		}
		clean.Steps = append(clean.Steps, wanted)
	}
	return clean, nil
}

// NewRequestedClean returns the request for steps on node.
func NewRequestedClean(steps []metal3.CleanStep, node *ironic.Node, now metav1.Time) *metal3.RequestedClean {
	return &metal3.RequestedClean{RequestedAt: now, NodeUUID: node.UUID, StateChangedAt: stateChangedAt(node), Steps: steps}
}

// FailRequestedClean records that the clean that a user has asked for has failed, and ends the
// request.
func FailRequestedClean(status *metal3.BareMetalHostStatus, message string, now metav1.Time) {
	request := status.Record.RequestedClean
	if request == nil {
		return
	}
	failed := &metal3.Preparation{
		NodeUUID: request.NodeUUID, Phase: metal3.PreparationFailed, StartedAt: request.RequestedAt, EndedAt: &now, IsRequested: true, Message: message,
		Steps: []string{},
	}
	for _, step := range request.Steps {
		failed.Steps = append(failed.Steps, nameOf(step.Interface, step.Step))
	}
	status.Record.Preparation, status.Record.RequestedClean = failed, nil
}

// observeRequest ends a request for a clean that has not begun if the node is not as it was when the
// user asked for it: the machine may hold something else now. before is what was recorded of the node.
func observeRequest(status *metal3.BareMetalHostStatus, before *metal3.IronicStatus, node *ironic.Node, now metav1.Time) {
	request := status.Record.RequestedClean
	if request == nil {
		return
	}
	if p := status.Record.Preparation; p != nil && p.IsRequested && p.EndedAt == nil {
		return // the preparation of this request, which has been recorded or has begun
	}
	changed := stateChangedAt(node)
	switch {
	case request.NodeUUID == node.UUID && (changed == nil || request.StateChangedAt == nil || changed.Equal(request.StateChangedAt)):
	case request.NodeUUID == node.UUID && node.ProvisionState == ironic.Manageable && before != nil &&
		before.ProvisionState == string(ironic.Available) && before.StateChangedAt.Equal(request.StateChangedAt):
		request.StateChangedAt = changed // only the verb manage, which the clean needs, leads from the one state to the other
	default:
		FailRequestedClean(status, fmt.Sprintf("It has not begun, because the node has been used otherwise since it was requested (it is %s now)", node.ProvisionState), now)
	}
}
