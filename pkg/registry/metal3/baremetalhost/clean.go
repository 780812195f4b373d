package baremetalhost

import (
	"context"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// Cleaner records that clean steps are to be carried out on the machine of a host.
type Cleaner interface {
	// RequestClean changes the status of the host. The error says why it cannot be.
	RequestClean(host *metal3.BareMetalHost, node *ironic.Node, steps []metal3.CleanStep) error
}

// NewCleanREST returns the storage of baremetalhosts/clean: POST has the leader have Ironic carry out
// clean steps, any of those that are allowed, once, on the machine of an available host.
func NewCleanREST(sources Sources, cleaner Cleaner, recorder HostRecorder, allowed validation.CleanSteps) rest.Storage {
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
			if err := cleaner.RequestClean(host, node, clean.Spec.Steps); err != nil {
				return conflict(host, err)
			}
			clean.Status.Message = "the steps are carried out, once; the host is preparing until that is done"
			return nil
		},
	}
}
