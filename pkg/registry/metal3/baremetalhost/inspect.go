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
)

// ProvisionStateSetter has Ironic change the provision state of nodes.
type ProvisionStateSetter interface {
	SetProvisionState(ctx context.Context, idOrName string, target ironic.ProvisionTarget, options ironic.ProvisionOptions) error
}

// inspection is the action of baremetalhosts/inspect.
type inspection struct {
	Sources
	changer HostChanger
	states  ProvisionStateSetter
}

// NewInspectREST returns baremetalhosts/inspect: POST begins an inspection, GET tells
// of the one under way, or the last one.
func NewInspectREST(sources Sources, changer HostChanger, states ProvisionStateSetter) rest.Storage {
	return &readableActionREST[*metal3.HostInspection]{actionREST[*metal3.HostInspection]{
		requestKind: requestKind[*metal3.HostInspection]{
			kind:        "HostInspection",
			newRequest:  func() *metal3.HostInspection { return &metal3.HostInspection{} },
			resetStatus: func(r *metal3.HostInspection) { r.Status = metal3.HostInspectionStatus{} },
			validate:    validation.ValidateHostInspection,
		},
		Sources: sources,
		action:  &inspection{sources, changer, states},
	}}
}

func (*inspection) checkHost(host *metal3.BareMetalHost, _ *metal3.HostInspection) error {
	return checkNotDeleting(host)
}

// act begins the inspection. Ironic inspects only manageable nodes: an available
// one is made manageable first, which touches no hardware and takes milliseconds.
// Until the inspection has begun, the annotation that asks for one stands, so that
// the controller goes on where this process dies.
func (i *inspection) act(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, _ *metal3.HostInspection) error {
	available := node.ProvisionState == ironic.Available
	if available {
		if err := i.setAnnotation(ctx, host, true); err != nil {
			return err
		}
		if taken, err := i.awaitController(ctx, host, node); taken || err != nil {
			return err
		}
		if err := i.states.SetProvisionState(ctx, node.UUID, ironic.TargetManage, ironic.ProvisionOptions{}); err != nil {
			return i.giveUp(ctx, host, err)
		}
		if err := i.awaitManageable(ctx, node.UUID); err != nil {
			return ironicError(host, err) // the controller goes on with it
		}
	}
	err := i.states.SetProvisionState(ctx, node.UUID, ironic.TargetInspect, ironic.ProvisionOptions{})
	if !available {
		if err != nil {
			return ironicError(host, err)
		}
		return nil
	}
	if err != nil && !ironic.IsConflict(err) { // Conflict: the controller was quicker
		return i.giveUp(ctx, host, err)
	}
	return i.setAnnotation(ctx, host, false)
}

// controllerGrace is how long the controller has to take an inspection over.
const controllerGrace = time.Second

// awaitController tells whether the controller has taken the inspection over, which
// removes the annotation: two who begin it could have Ironic inspect twice, as it
// queues a request for a node that is locked. Where no controller is running, or it
// must not touch the host, it is up to us.
func (i *inspection) awaitController(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node) (taken bool, err error) {
	err = wait.PollUntilContextTimeout(ctx, 25*time.Millisecond, controllerGrace, true, func(ctx context.Context) (bool, error) {
		recorded, err := i.recordedHost(ctx, host.Name)
		if err != nil {
			return false, err
		}
		_, waits := recorded.Annotations[metal3.InspectAnnotation]
		taken = taken || !waits
		if !taken {
			return false, nil
		}
		now, err := i.Nodes.GetNode(ctx, node.UUID)
		if err != nil {
			return true, nil // what the host is shown with will tell
		}
		return now.ProvisionState != ironic.Available && now.ProvisionState != ironic.Manageable, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		err = nil
	}
	return taken, err
}

// giveUp takes the annotation back when Ironic has refused.
func (i *inspection) giveUp(ctx context.Context, host *metal3.BareMetalHost, err error) error {
	if !isRefusal(err) {
		return ironicError(host, err) // perhaps begun: the annotation sees to it that it is
	}
	if undoErr := i.setAnnotation(context.WithoutCancel(ctx), host, false); undoErr != nil {
		return apierrors.NewInternalError(fmt.Errorf("baremetalhost %q: %w; and its annotation %s could not be removed: %w", host.Name, err, metal3.InspectAnnotation, undoErr))
	}
	return ironicError(host, err)
}

func (i *inspection) setAnnotation(ctx context.Context, host *metal3.BareMetalHost, wanted bool) error {
	_, err := i.changer.Change(ctx, host.Namespace, host.Name, func(h *metal3.BareMetalHost) error {
		if !wanted {
			delete(h.Annotations, metal3.InspectAnnotation)
			return nil
		}
		if h.Annotations == nil {
			h.Annotations = map[string]string{}
		}
		h.Annotations[metal3.InspectAnnotation] = ""
		return nil
	})
	return err
}

func (i *inspection) awaitManageable(ctx context.Context, uuid string) error {
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, actionTimeout/2, true, func(ctx context.Context) (bool, error) {
		node, err := i.Nodes.GetNode(ctx, uuid)
		if err != nil {
			return false, err
		}
		return node.ProvisionState != ironic.Available && node.Reservation == "", nil
	})
}

func (*inspection) checkNode(host *metal3.BareMetalHost, node *ironic.Node, _ *metal3.HostInspection) error {
	switch {
	case host.Spec.ExternallyProvisioned:
		return conflict(host, fmt.Errorf("it is externally provisioned, and an inspection would reboot it"))
	case host.InspectionDisabled():
		return conflict(host, fmt.Errorf("its inspection is disabled: change spec.inspectionMode, or remove the annotation %s", metal3.InspectAnnotation))
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

// describe tells how far the inspection is. Ironic forgets when it began as soon as it
// has ended; the host's history remembers.
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
