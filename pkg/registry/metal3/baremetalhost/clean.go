// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// NewCleanREST returns the storage of baremetalhosts/clean: POST has the leader have Ironic carry out
// clean steps, any of those that are allowed, once, on the machine of an available host.
func NewCleanREST(sources Sources, recorder HostRecorder, allowed validation.CleanSteps) rest.Storage {
	return &recordingREST[*metal3.HostClean]{
		requestKind: requestKind[*metal3.HostClean]{
			kind:        "HostClean",
			newRequest:  func() *metal3.HostClean { return &metal3.HostClean{} },
			resetStatus: func(r *metal3.HostClean) { r.Status = metal3.HostCleanStatus{} },
			validate: func(r *metal3.HostClean) field.ErrorList {
				return validation.ValidateHostClean(r, allowed)
			},
		},
		Sources: sources, recorder: recorder,
		change: func(_ context.Context, host *metal3.BareMetalHost, node *ironic.Node, clean *metal3.HostClean) error {
			if err := checkNotDeleting(host); err != nil {
				return err
			}
			if node.Reservation != "" {
				return locked(host, node)
			}
			if err := lifecycle.RequestClean(host, node, clean.Spec.Steps, time.Now()); err != nil {
				return conflict(host, err)
			}
			clean.Status.Message = "the steps are carried out, once; the host is preparing until that is done"
			return nil
		},
	}
}
