package baremetalhost

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// InspectREST serves baremetalhosts/inspect: POST begins an inspection, GET tells
// of the last one.
type InspectREST struct {
	hosts *REST
	nodes Nodes
	actionTable
}

// NewInspectREST returns the inspect subresource of hosts.
func NewInspectREST(hosts *REST, nodes Nodes) *InspectREST {
	return &InspectREST{hosts: hosts, nodes: nodes}
}

var (
	_ rest.NamedCreater   = &InspectREST{}
	_ rest.Getter         = &InspectREST{}
	_ rest.TableConvertor = &InspectREST{}
)

// New returns an empty HostInspection.
func (*InspectREST) New() runtime.Object { return &metal3.HostInspection{} }

// Destroy has nothing to destroy.
func (*InspectREST) Destroy() {}

// Get tells what Ironic says of the last inspection, or the one under way.
func (r *InspectREST) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	host, node, err := hostAndNode(ctx, r.hosts, r.nodes, name)
	if err != nil {
		return nil, err
	}
	inspection := &metal3.HostInspection{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: host.Namespace}}
	describeInspection(inspection, host, node)
	return inspection, nil
}

// Create has Ironic inspect the host.
func (r *InspectREST) Create(ctx context.Context, name string, obj runtime.Object, createValidation rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	inspection, ok := obj.(*metal3.HostInspection)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a HostInspection: %T", obj))
	}
	inspection.Status = metal3.HostInspectionStatus{}
	err := admit(ctx, "HostInspection", name, inspection, &inspection.ObjectMeta, createValidation, func() field.ErrorList { return validation.ValidateHostInspection(inspection) })
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	host, err := recordedHost(ctx, r.hosts, name)
	if err != nil {
		return nil, err
	}
	if !host.DeletionTimestamp.IsZero() {
		return nil, conflict(host, fmt.Errorf("it is being deleted"))
	}
	node, err := nodeOf(ctx, r.hosts, r.nodes, host)
	if err != nil {
		return nil, err
	}
	if err := checkInspectAllowed(host, node); err != nil {
		return nil, err
	}
	if !dryrun.IsDryRun(options.DryRun) {
		if err := r.act(ctx, host, node); err != nil {
			return nil, err
		}
		_ = r.hosts.live.RefreshHost(ctx, host.Namespace, name) // too late for an error: Ironic has accepted
		if after, err := nodeOf(ctx, r.hosts, r.nodes, host); err == nil {
			node = after
		}
	}
	describeInspection(inspection, host, node)
	return inspection, nil
}

// act begins the inspection. Ironic inspects only manageable nodes: an available
// one is made manageable first, which touches no hardware and takes milliseconds.
// Until the inspection has begun, the annotation that asks for one stands, so that
// the controller goes on where this process dies.
func (r *InspectREST) act(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node) error {
	available := node.ProvisionState == ironic.Available
	if available {
		if err := r.setAnnotation(ctx, host, true); err != nil {
			return err
		}
		if taken, err := r.awaitController(ctx, host, node); taken || err != nil {
			return err
		}
		if err := r.nodes.SetProvisionState(ctx, node.UUID, ironic.TargetManage, ironic.ProvisionOptions{}); err != nil {
			return r.giveUp(ctx, host, err)
		}
		if err := r.awaitManageable(ctx, node.UUID); err != nil {
			return ironicError(host, err) // the controller goes on with it
		}
	}
	err := r.nodes.SetProvisionState(ctx, node.UUID, ironic.TargetInspect, ironic.ProvisionOptions{})
	if !available {
		if err != nil {
			return ironicError(host, err)
		}
		return nil
	}
	if err != nil && !ironic.IsConflict(err) { // Conflict: the controller was quicker
		return r.giveUp(ctx, host, err)
	}
	return r.setAnnotation(ctx, host, false)
}

// controllerGrace is how long the controller has to take an inspection over.
const controllerGrace = time.Second

// awaitController tells whether the controller has taken the inspection over, which
// removes the annotation: two who begin it could have Ironic inspect twice, as it
// queues a request for a node that is locked. Where no controller is running, or it
// must not touch the host, it is up to us.
func (r *InspectREST) awaitController(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node) (taken bool, err error) {
	err = wait.PollUntilContextTimeout(ctx, 25*time.Millisecond, controllerGrace, true, func(ctx context.Context) (bool, error) {
		recorded, err := recordedHost(ctx, r.hosts, host.Name)
		if err != nil {
			return false, err
		}
		_, waits := recorded.Annotations[metal3.InspectAnnotation]
		taken = taken || !waits
		if !taken {
			return false, nil
		}
		now, err := r.nodes.GetNode(ctx, node.UUID)
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
func (r *InspectREST) giveUp(ctx context.Context, host *metal3.BareMetalHost, err error) error {
	if !isRefusal(err) {
		return ironicError(host, err) // perhaps begun: the annotation sees to it that it is
	}
	if undoErr := r.setAnnotation(context.WithoutCancel(ctx), host, false); undoErr != nil {
		return apierrors.NewInternalError(fmt.Errorf("baremetalhost %q: %w; and its annotation %s could not be removed: %w", host.Name, err, metal3.InspectAnnotation, undoErr))
	}
	return ironicError(host, err)
}

func (r *InspectREST) setAnnotation(ctx context.Context, host *metal3.BareMetalHost, wanted bool) error {
	_, err := updateHost(ctx, r.hosts, host.Name, &metav1.UpdateOptions{}, func(h *metal3.BareMetalHost) error {
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

func (r *InspectREST) awaitManageable(ctx context.Context, uuid string) error {
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, actionTimeout/2, true, func(ctx context.Context) (bool, error) {
		node, err := r.nodes.GetNode(ctx, uuid)
		if err != nil {
			return false, err
		}
		return node.ProvisionState != ironic.Available && node.Reservation == "", nil
	})
}

func checkInspectAllowed(host *metal3.BareMetalHost, node *ironic.Node) error {
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
		return conflict(host, fmt.Errorf("its BMC has not been verified (Ironic: %s); see its status for what is missing%s", node.ProvisionState, because(host)))
	case ironic.Active:
		return conflict(host, fmt.Errorf("it is provisioned (Ironic: %s), and an inspection would reboot it; deprovision it first", node.ProvisionState))
	}
	return conflict(host, fmt.Errorf("Ironic is busy with it (%s, target %s); wait until it is manageable or available", node.ProvisionState, node.TargetProvisionState))
}

// describeInspection tells of the inspection. Ironic forgets when it began as
// soon as it has ended; the host's history remembers.
func describeInspection(inspection *metal3.HostInspection, host *metal3.BareMetalHost, node *ironic.Node) {
	status := &inspection.Status
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
