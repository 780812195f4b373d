// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/registry/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// inspection is the action of baremetalhosts/inspect.
type inspection struct {
	Sources
	hosts HostChangers
}

// NewInspectREST returns the storage of baremetalhosts/inspect: POST begins an inspection, and GET
// returns the state of the one that is under way, or of the last one.
func NewInspectREST(sources Sources, hosts HostChangers) rest.Storage {
	i := &inspection{sources, hosts}
	kind := requestKind[*metal3.HostInspection]{
		kind:        "HostInspection",
		newRequest:  func() *metal3.HostInspection { return &metal3.HostInspection{} },
		resetStatus: func(r *metal3.HostInspection) { r.Status = metal3.HostInspectionStatus{} },
		validate:    validation.ValidateHostInspection,
	}
	return newReadableActionREST(kind, sources, nil, i, describing(i))
}

func (*inspection) checkHost(host *metal3.BareMetalHost, _ *metal3.HostInspection) error {
	return checkNotDeleting(host)
}

// These messages tell the user what to do while it is not known whether an inspection has begun.
// Simply trying again could reboot the host twice.
const (
	inspectionUnknown = "whether the inspection has begun is not known, look before you try again (GET of its subresource inspect)"
	inspectionPending = "the annotation " + metal3.InspectAnnotation + " of the host asks for the inspection now, so that it begins if it has not yet; " +
		"see how far it is (GET of its subresource inspect)"
)

// write sets the annotation that requests an inspection, if the node is available. The annotation
// remains until the inspection has begun, so that the controller begins it if this process dies.
func (i *inspection) write(ctx context.Context, _ Ironic, host *metal3.BareMetalHost, node *ironic.Node, _ *metal3.HostInspection, dryRun bool) (*metal3.BareMetalHost, error) {
	if node.ProvisionState != ironic.Available {
		return host, nil
	}
	return changeHost(ctx, i.hosts.User, host, dryRun, func(h *metal3.BareMetalHost) error {
		if err := mayInspect(h); err != nil {
			return err // Ironic may have taken long to show the node
		}
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, metal3.InspectAnnotation, "")
		return nil
	})
}

// act begins the inspection. Ironic inspects only manageable nodes.
func (i *inspection) act(ctx context.Context, asked Ironic, host, _ *metal3.BareMetalHost, node *ironic.Node, _ *metal3.HostInspection) error {
	if node.ProvisionState == ironic.Available {
		return i.inspectAvailable(ctx, asked, host, node)
	}
	err := i.stillMayInspect(ctx, host)
	if err != nil {
		return err
	}
	if err = asked.SetProvisionState(ctx, ironic.NoFence, node.UUID, ironic.TargetInspect, ironic.ProvisionOptions{}); err == nil {
		return nil
	}
	if refused := refusalOf(host, err); refused != nil {
		return refused
	}
	return outcomeUnknown(host, err, inspectionUnknown)
}

// inspectAvailable makes an available node manageable first, which touches no hardware
// and takes milliseconds.
func (i *inspection) inspectAvailable(ctx context.Context, asked Ironic, host *metal3.BareMetalHost, node *ironic.Node) error {
	switch taken, err := i.awaitController(ctx, asked, host, node); {
	case apierrors.IsNotFound(err):
		return err
	case apierrors.IsConflict(err):
		return i.withdraw(ctx, host, err)
	case err != nil:
		return gatewayTimeout(host.Name, fmt.Sprintf("it cannot be read from etcd: %v; %s", err, inspectionPending))
	case taken:
		return nil
	}
	if err := asked.SetProvisionState(ctx, ironic.NoFence, node.UUID, ironic.TargetManage, ironic.ProvisionOptions{}); err != nil {
		return i.failedToBegin(ctx, host, err)
	}
	switch err := awaitManageable(ctx, asked, node.UUID); {
	case ironic.IsNotFound(err):
		return i.failedToBegin(ctx, host, err)
	case err != nil:
		return outcomeUnknown(host, err, inspectionPending)
	}
	if err := i.stillMayInspect(ctx, host); err != nil {
		return i.withdraw(ctx, host, err)
	}
	err := asked.SetProvisionState(ctx, ironic.NoFence, node.UUID, ironic.TargetInspect, ironic.ProvisionOptions{})
	if ironic.IsConflict(err) {
		now, getErr := asked.GetNode(ctx, node.UUID)
		switch {
		case getErr != nil:
			return outcomeUnknown(host, getErr, inspectionPending)
		case now.ProvisionState == ironic.Inspecting || now.ProvisionState == ironic.InspectWait:
			err = nil // another client has begun it, most likely the controller
		}
	}
	if err != nil {
		return i.failedToBegin(ctx, host, err)
	}
	if err := i.removeAnnotation(ctx, host); err != nil && !apierrors.IsNotFound(err) {
		return apierrors.NewInternalError(fmt.Errorf("baremetalhost %q: the inspection has begun, but the annotation %s could not be removed and may cause another one: %w", host.Name, metal3.InspectAnnotation, err))
	}
	return nil
}

// controllerGrace is how long the action waits for the controller to begin the inspection.
const controllerGrace = time.Second

// awaitController reports whether the controller begins the inspection, which it shows by removing
// the annotation. If the action and the controller both began it, Ironic could inspect the node
// twice, because it queues requests for a locked node. If no controller is running, or it must
// not touch the host, the result is false, and the action begins the inspection.
func (i *inspection) awaitController(ctx context.Context, asked Ironic, host *metal3.BareMetalHost, node *ironic.Node) (taken bool, err error) {
	err = wait.PollUntilContextTimeout(ctx, 25*time.Millisecond, controllerGrace, true, func(ctx context.Context) (bool, error) {
		recorded, err := i.Hosts.Get(ctx, host.Namespace, host.Name)
		if err == nil {
			err = checkSame(host, recorded)
		}
		if err != nil {
			return false, err
		}
		_, waits := recorded.Annotations[metal3.InspectAnnotation]
		taken = taken || !waits
		if !taken {
			return false, mayInspect(recorded) // somebody may have fenced it meanwhile
		}
		now, err := asked.GetNode(ctx, node.UUID)
		if err != nil {
			return true, nil // the controller has begun it; the node is only read to wait for its new state
		}
		return now.ProvisionState != ironic.Available && now.ProvisionState != ironic.Manageable, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		err = nil
	}
	return taken, err
}

// failedToBegin returns the error for an inspection that could not begin because of err. If Ironic
// has refused it, the request is withdrawn.
func (i *inspection) failedToBegin(ctx context.Context, host *metal3.BareMetalHost, err error) error {
	refused := refusalOf(host, err)
	if refused == nil {
		return outcomeUnknown(host, err, inspectionPending)
	}
	return i.withdraw(ctx, host, refused)
}

// withdraw returns refused, and removes the annotation unless it was set before the action.
func (i *inspection) withdraw(ctx context.Context, host *metal3.BareMetalHost, refused error) error {
	if _, asked := host.Annotations[metal3.InspectAnnotation]; asked {
		return refused
	}
	if err := i.removeAnnotation(ctx, host); err != nil && !apierrors.IsNotFound(err) {
		return apierrors.NewInternalError(fmt.Errorf("%w; and the annotation %s could not be removed: %w", refused, metal3.InspectAnnotation, err))
	}
	return refused
}

// removeAnnotation removes the annotation, unless somebody has disabled inspections with it meanwhile.
func (i *inspection) removeAnnotation(ctx context.Context, host *metal3.BareMetalHost) error {
	return undoChange(ctx, i.hosts.Own, host, func(h *metal3.BareMetalHost) {
		if h.Annotations[metal3.InspectAnnotation] != metal3.InspectAnnotationValueDisabled {
			delete(h.Annotations, metal3.InspectAnnotation)
		}
	})
}

func awaitManageable(ctx context.Context, asked Ironic, uuid string) error {
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, actionTimeout/2, true, func(ctx context.Context) (bool, error) {
		node, err := asked.GetNode(ctx, uuid)
		if err != nil {
			return false, err
		}
		return node.ProvisionState != ironic.Available && node.Reservation == "", nil
	})
}

// stillMayInspect looks at the host once more, right before its machine is rebooted: somebody may have fenced it meanwhile.
func (i *inspection) stillMayInspect(ctx context.Context, host *metal3.BareMetalHost) error {
	newest, err := i.Hosts.Get(ctx, host.Namespace, host.Name)
	if err == nil {
		err = checkSame(host, newest)
	}
	if err == nil {
		err = mayInspect(newest)
	}
	return err
}

// mayInspect refuses inspections that the host does not permit, whatever its node is.
func mayInspect(host *metal3.BareMetalHost) error {
	switch {
	case host.Spec.ExternallyProvisioned:
		return conflict(host, fmt.Errorf("it is externally provisioned, and an inspection would reboot it"))
	case host.InspectionDisabled():
		return conflict(host, fmt.Errorf("its inspection is disabled: change spec.inspectionMode, or remove the annotation %s", metal3.InspectAnnotation))
	}
	// The node of a provisioned host is manageable after Ironic has lost it and it was registered
	// again, while the machine is still running.
	switch state := host.Status.Provisioning.State; state {
	case metal3.StateProvisioning, metal3.StateProvisioned, metal3.StateExternallyProvisioned, metal3.StateDeprovisioning:
		return conflict(host, fmt.Errorf("it is %s, and an inspection would reboot it; deprovision it first", state))
	}
	if hold := host.Status.Record.Hold; hold != nil {
		return conflict(host, fmt.Errorf("its machine is left alone: %s", hold.Message))
	}
	if key := lifecycle.HeldBackBy(host); key != "" {
		return conflict(host, fmt.Errorf("the annotation %s lets no inspection begin until its owner removes it", key))
	}
	return nil
}

func (*inspection) checkNode(host *metal3.BareMetalHost, node *ironic.Node, _ *metal3.HostInspection) error {
	if err := mayInspect(host); err != nil {
		return err
	}
	switch node.ProvisionState {
	case ironic.Manageable, ironic.InspectFail, ironic.Available:
		if node.Reservation != "" {
			return locked(host, node)
		}
		return nil
	case ironic.Inspecting, ironic.InspectWait:
		return conflict(host, fmt.Errorf("an inspection is under way already (Ironic: %s)", node.ProvisionState))
	case ironic.Enroll, ironic.Verifying:
		return notVerified(host, node)
	case ironic.Active:
		return conflict(host, fmt.Errorf("it is provisioned (Ironic: %s), and an inspection would reboot it; deprovision it first", node.ProvisionState))
	}
	return busy(host, node, "it is manageable or available")
}

// describe sets the status of the request. When an inspection has ended, Ironic no longer tells
// when it began, so that time comes from the host's operation history.
func (*inspection) describe(request *metal3.HostInspection, host *metal3.BareMetalHost, node *ironic.Node) {
	status := &request.Status
	status.State = string(node.ProvisionState)
	if node.InspectionStartedAt != nil {
		status.StartedAt = &metav1.Time{Time: *node.InspectionStartedAt}
	} else if start := host.Status.OperationHistory.Inspect.Start; !start.IsZero() {
		status.StartedAt = &start
	}
	if node.InspectionFinishedAt != nil {
		status.FinishedAt = &metav1.Time{Time: *node.InspectionFinishedAt}
	}
	status.LastError = node.LastError
}
