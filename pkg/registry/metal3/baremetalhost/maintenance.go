// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/store"
)

// maintenance is the action of baremetalhosts/maintenance.
type maintenance struct {
	plainAction[*metal3.HostMaintenance]
}

// NewMaintenanceREST returns the storage of baremetalhosts/maintenance: POST switches maintenance
// on or off, and GET reports whether it is on.
func NewMaintenanceREST(sources Sources) rest.Storage {
	m := &maintenance{}
	kind := requestKind[*metal3.HostMaintenance]{
		kind:        "HostMaintenance",
		newRequest:  func() *metal3.HostMaintenance { return &metal3.HostMaintenance{} },
		resetStatus: func(r *metal3.HostMaintenance) { r.Status = metal3.HostMaintenanceStatus{} },
		validate:    validation.ValidateHostMaintenance,
	}
	return newReadableActionREST(kind, sources, nil, m, describing(m))
}

// checkHost leaves it to checkNode whether the deletion of a host waits for the end of a maintenance.
func (*maintenance) checkHost(host *metal3.BareMetalHost, request *metal3.HostMaintenance) error {
	if request.Spec.Action == metal3.MaintenanceActionOff {
		return nil
	}
	return checkNotDeleting(host)
}

// checkNode refuses to end the maintenance in which the server itself removes the node of a host.
func (*maintenance) checkNode(host *metal3.BareMetalHost, node *ironic.Node, _ *metal3.HostMaintenance) error {
	if !host.DeletionTimestamp.IsZero() && !lifecycle.IsInOthersMaintenance(host, lifecycle.NodeFromIronic(node)) {
		return conflict(host, errors.New("it is being deleted, which waits for no maintenance that somebody has asked for"))
	}
	if node.Reservation != "" {
		return locked(host, node)
	}
	return nil
}

// act asks Ironic, which has done it when it answers. To repeat it does no harm, so the error of an
// unknown outcome has a Retry-After.
func (*maintenance) act(ctx context.Context, asked Ironic, host, _ *metal3.BareMetalHost, node *ironic.Node, request *metal3.HostMaintenance) error {
	err := changeMaintenance(ctx, asked, node, request)
	if refused := refusalOf(host, err); refused != nil {
		return refused
	}
	if err != nil {
		return store.Unavailable(host.Name, fmt.Sprintf("Ironic did not confirm it: %s; try again", ironic.ReasonOf(err)))
	}
	return nil
}

func changeMaintenance(ctx context.Context, asked Ironic, node *ironic.Node, request *metal3.HostMaintenance) error {
	if request.Spec.Action == metal3.MaintenanceActionOff {
		request.Status.Message = "the node is out of maintenance"
		if !node.Maintenance {
			request.Status.Message = "the node was not in maintenance"
		}
		return asked.ClearMaintenance(ctx, ironic.NoFence, node.UUID)
	}
	request.Status.Message = "the node is in maintenance until that is switched off"
	user := "somebody" // without authentication
	if info, ok := genericapirequest.UserFrom(ctx); ok {
		user = info.GetName()
	}
	reason := ironic.RequestedMaintenance(user, request.Spec.Reason)
	if node.Fault == "" {
		return asked.SetMaintenance(ctx, ironic.NoFence, node.UUID, reason)
	}
	// Ironic itself would end this maintenance, together with the reason, when the fault is
	// over. It keeps a fault until the maintenance is cleared.
	if err := asked.ClearMaintenance(ctx, ironic.NoFence, node.UUID); err != nil {
		return err
	}
	return setMaintenanceAgain(ctx, asked, node, reason)
}

// setMaintenanceAgain sets the maintenance of a node whose fault was just cleared. Until then, Ironic and this server may switch or clean its
// machine, so neither a client that goes away nor a conductor that has the node locked ends the attempt.
func setMaintenanceAgain(ctx context.Context, asked Ironic, node *ironic.Node, reason string) error {
	ctx, cancel := undoContext(ctx)
	defer cancel()
	var last error
	err := wait.PollUntilContextCancel(ctx, maintenancePause, true, func(ctx context.Context) (bool, error) {
		last = asked.SetMaintenance(ctx, ironic.NoFence, node.UUID, reason)
		if ironic.IsLocked(last) {
			return false, nil
		}
		return true, last
	})
	if err != nil { // not wrapped: it is no refusal that has left the node as it was
		return fmt.Errorf("the maintenance for its fault has ended, and the one that was asked for has not begun: %s", ironic.MessageOf(cmp.Or(last, err)))
	}
	return nil
}

// maintenancePause is when to ask again for the maintenance of a node that a conductor has locked.
const maintenancePause = 500 * time.Millisecond

func (*maintenance) describe(request *metal3.HostMaintenance, _ *metal3.BareMetalHost, node *ironic.Node) {
	status := &request.Status
	status.Maintenance, status.Reason, status.Fault = node.Maintenance, node.MaintenanceReason, node.Fault
}
