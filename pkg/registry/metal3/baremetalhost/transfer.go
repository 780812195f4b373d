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
	"github.com/metal3-io/metal3-apiserver/pkg/store"
)

// Destinations are the Ironics to which hosts can be moved.
type Destinations interface {
	// WhyNotTaken tells the user of a host why an Ironic cannot take it, as it says now; empty if it can. The error is an
	// *ironic.UnavailableError if there is no such Ironic, or if it cannot be used.
	WhyNotTaken(ctx context.Context, name string, host *metal3.BareMetalHost) (why string, err error)
}

// NewTransferREST returns the storage of baremetalhosts/transfer: POST has the leader move a host to another Ironic, or
// calls that off.
func NewTransferREST(sources Sources, destinations Destinations, recorder HostRecorder) rest.Storage {
	isHere := func(host *metal3.BareMetalHost, transfer *metal3.HostTransfer) bool {
		return *transfer.Spec.Ironic == host.Status.Record.Ironic
	}
	return &recordingREST[*metal3.HostTransfer]{
		requestKind: requestKind[*metal3.HostTransfer]{
			kind:        "HostTransfer",
			newRequest:  func() *metal3.HostTransfer { return &metal3.HostTransfer{} },
			resetStatus: func(r *metal3.HostTransfer) { r.Status = metal3.HostTransferStatus{} },
			validate: func(r *metal3.HostTransfer) field.ErrorList {
				if r.Spec.Ironic != nil {
					return nil
				}
				return field.ErrorList{field.Required(field.NewPath("spec", "ironic"), `the name of an IronicInstance, or "" for the Ironic of the server's flags`)}
			},
		},
		Sources: sources, recorder: recorder,
		needsNoNode: func(host *metal3.BareMetalHost, transfer *metal3.HostTransfer) bool { return isHere(host, transfer) },
		change: func(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, transfer *metal3.HostTransfer) error {
			if err := checkNotDeleting(host); err != nil {
				return err
			}
			from, to := host.Status.Record.Ironic, *transfer.Spec.Ironic
			transfer.Status.Ironic = from
			if isHere(host, transfer) {
				transfer.Status.Message = "the host is in " + ironic.DescribeInstance(from) + " already"
				if lifecycle.CallOffTransfer(host, time.Now()) {
					transfer.Status.Message = "the host stays in " + ironic.DescribeInstance(from)
				}
				return nil
			}
			if node.Reservation != "" {
				return locked(host, node)
			}
			if err := lifecycle.RequestTransfer(host, node, to, time.Now()); err != nil {
				return conflict(host, err)
			}
			why, err := destinations.WhyNotTaken(ctx, to, host)
			switch {
			case err != nil:
				return store.Unavailable(host.Name, fmt.Sprintf("%s, to which it is to be moved, cannot be asked: %s; nothing was done, try again", ironic.DescribeInstance(to), ironic.ReasonOf(err)))
			case why != "":
				return conflict(host, fmt.Errorf("%s cannot take it: %s", ironic.DescribeInstance(to), why))
			}
			transfer.Status.Message = fmt.Sprintf("the node is removed from %s, and created and adopted in %s; the machine goes on running as it is", ironic.DescribeInstance(from), ironic.DescribeInstance(to))
			return nil
		},
	}
}
