// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"context"
	"time"

	"k8s.io/apiserver/pkg/registry/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// NewRebuildREST returns the storage of baremetalhosts/rebuild: POST has the leader write the image
// of a provisioned host again.
func NewRebuildREST(sources Sources, recorder HostRecorder) rest.Storage {
	return &recordingREST[*metal3.HostRebuild]{
		requestKind: requestKind[*metal3.HostRebuild]{
			kind:        "HostRebuild",
			newRequest:  func() *metal3.HostRebuild { return &metal3.HostRebuild{} },
			resetStatus: func(r *metal3.HostRebuild) { r.Status = metal3.HostRebuildStatus{} },
		},
		Sources: sources, recorder: recorder,
		change: func(_ context.Context, host *metal3.BareMetalHost, node *ironic.Node, rebuild *metal3.HostRebuild) error {
			if err := checkNotDeleting(host); err != nil {
				return err
			}
			if node.Reservation != "" {
				return locked(host, node)
			}
			if err := lifecycle.RequestRebuild(host, node, time.Now()); err != nil {
				return conflict(host, err)
			}
			image := host.Status.Provisioning.Image
			rebuild.Status.Image = &image
			rebuild.Status.Message = "the image is written again, with a new config drive; the host is provisioning until that is done"
			return nil
		},
	}
}
