// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// NewTakeoverREST returns the storage of baremetalhosts/takeover: POST confirms that a node is the
// host's. Nothing is asked of Ironic but what the node is now; the leader goes on from there.
func NewTakeoverREST(sources Sources, recorder HostRecorder) rest.Storage {
	return &recordingREST[*metal3.HostTakeover]{
		requestKind: requestKind[*metal3.HostTakeover]{
			kind:        "HostTakeover",
			newRequest:  func() *metal3.HostTakeover { return &metal3.HostTakeover{} },
			resetStatus: func(r *metal3.HostTakeover) { r.Status = metal3.HostTakeoverStatus{} },
			validate: func(r *metal3.HostTakeover) field.ErrorList {
				if r.Spec.NodeUUID != "" {
					return nil
				}
				return field.ErrorList{field.Required(field.NewPath("spec", "nodeUUID"), "the UUID of the node, as status.provisioning.ID of the host has it")}
			},
		},
		Sources: sources, recorder: recorder, takesOver: true,
		change: func(_ context.Context, host *metal3.BareMetalHost, node *ironic.Node, takeover *metal3.HostTakeover) error {
			if takeover.Spec.NodeUUID != node.UUID {
				return conflict(host, fmt.Errorf("its node is %s, and spec.nodeUUID is %s: look at the machine once more", node.UUID, takeover.Spec.NodeUUID))
			}
			if seen := takeover.Spec.InstanceUUID; seen != nil && *seen != node.InstanceUUID {
				return conflict(host, fmt.Errorf("the instance_uuid of node %s is %q, and spec.instanceUUID is %q: look at the machine once more", node.UUID, node.InstanceUUID, *seen))
			}
			held := host.Status.Record.Hold
			if err := lifecycle.TakeOver(host, node, time.Now()); err != nil {
				return conflict(host, err)
			}
			if held != nil && held.Other != "" {
				takeover.Status.Message = "from now on, its machine counts as a different one from that of the host for which it was held"
				return nil
			}
			takeover.Status.Confirmed = host.Status.Record.Takeover
			takeover.Status.Message = fmt.Sprintf("node %s is treated as the host's, and as its spec asks, from now on", node.UUID)
			return nil
		},
	}
}
