package baremetalhost

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// Nodes is what the actions ask of Ironic.
type Nodes interface {
	GetNode(ctx context.Context, idOrName string) (*ironic.Node, error)
	SetPowerState(ctx context.Context, idOrName string, target ironic.PowerTarget, timeout time.Duration) error
	SetProvisionState(ctx context.Context, idOrName string, target ironic.ProvisionTarget, options ironic.ProvisionOptions) error
}

// actionTimeout bounds an action. Ironic answers 202 as soon as it has the node's
// lock, which it tries to get for about two seconds; nobody waits for hardware.
const actionTimeout = 10 * time.Second

const (
	lockedRetry = 2 * time.Second // Ironic's locks are short, but for those of long operations
	awayRetry   = time.Second     // clients repeat ten times by themselves, while their user waits
)

// recordedHost is the host as it is in etcd.
func recordedHost(ctx context.Context, r *REST, name string) (*metal3.BareMetalHost, error) {
	obj, err := r.Store.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return obj.(*metal3.BareMetalHost), nil
}

// nodeOf reads the host's node from Ironic, with no password in its words.
func nodeOf(ctx context.Context, r *REST, nodes Nodes, host *metal3.BareMetalHost) (*ironic.Node, error) {
	if host.Status.Provisioning.ID == "" {
		return nil, conflict(host, fmt.Errorf("it is not registered in Ironic yet (provisioning state %q)%s", host.Status.Provisioning.State, because(host)))
	}
	node, err := nodes.GetNode(ctx, host.Status.Provisioning.ID)
	if ironic.IsNotFound(err) {
		return nil, conflict(host, fmt.Errorf("Ironic has no node %s; wait until it is registered%s", host.Status.Provisioning.ID, because(host)))
	}
	if err != nil {
		return nil, ironicError(host, err)
	}
	if node.IsAnothers(host.Namespace, host.Name) {
		return nil, conflict(host, fmt.Errorf("node %s in Ironic is that of another host; wait until this one is registered%s", node.UUID, because(host)))
	}
	if err := r.live.RedactPassword(ctx, host, node); err != nil {
		node.LastError, node.MaintenanceReason = "withheld: "+err.Error(), "" // no reason not to act
	}
	return node, nil
}

func because(host *metal3.BareMetalHost) string {
	if host.Status.ErrorMessage == "" {
		return ""
	}
	return ": " + host.Status.ErrorMessage
}

// conflict is the error of an action that the host's state does not allow now.
func conflict(host *metal3.BareMetalHost, err error) error {
	return apierrors.NewConflict(metal3.Resource("baremetalhosts"), host.Name, err)
}

// locked is the error of a node that a conductor works on. It is a 429, which
// clients wait for and repeat, and not a 409, which many take for a lost update.
func locked(host *metal3.BareMetalHost, node *ironic.Node) error {
	return tooMany(fmt.Sprintf("baremetalhost %q: Ironic's node %s is locked by conductor %s (%s); try again when that is done",
		host.Name, node.UUID, node.Reservation, node.ProvisionState))
}

func tooMany(message string) error {
	return apierrors.NewTooManyRequests(message, int(lockedRetry.Seconds()))
}

// ironicError turns what Ironic answered to an action into what its user can act on.
func ironicError(host *metal3.BareMetalHost, err error) error {
	var answer *ironic.APIError
	switch {
	case ironic.IsLocked(err):
		return tooMany(fmt.Sprintf("baremetalhost %q: %v; try again when that is done", host.Name, err))
	case ironic.IsNotFound(err):
		return conflict(host, fmt.Errorf("Ironic has no node %s any more; wait until it is registered again", host.Status.Provisioning.ID))
	case ironic.IsUnavailable(err), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return unavailable(host, err)
	case errors.As(err, &answer) && answer.Status < 500:
		return conflict(host, fmt.Errorf("Ironic refused: %s", answer.Message))
	}
	return unavailable(host, err)
}

// wordsOf is what Ironic itself said.
func wordsOf(err error) string {
	var answer *ironic.APIError
	if errors.As(err, &answer) {
		return answer.Message
	}
	return ironic.ReasonOf(err)
}

// unavailable is a 503 with Retry-After.
func unavailable(host *metal3.BareMetalHost, err error) error {
	status := apierrors.NewServiceUnavailable(fmt.Sprintf("baremetalhost %q: Ironic cannot be asked: %s; nothing was done, try again", host.Name, ironic.ReasonOf(err)))
	status.ErrStatus.Details = &metav1.StatusDetails{
		Group: metal3.GroupName, Kind: "baremetalhosts", Name: host.Name, RetryAfterSeconds: int32(awayRetry.Seconds()),
	}
	return status
}

// updateHost changes the host as a PUT to r would, with validation, and gives back
// what was written. Somebody else's write in between is not overwritten: change is
// made on the newest host, again if need be.
func updateHost(ctx context.Context, r rest.Updater, name string, options *metav1.UpdateOptions, change func(*metal3.BareMetalHost) error) (*metal3.BareMetalHost, error) {
	info := rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, existing runtime.Object) (runtime.Object, error) {
		host := existing.DeepCopyObject().(*metal3.BareMetalHost)
		return host, change(host)
	})
	obj, _, err := r.Update(ctx, name, info, rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, options)
	if err != nil {
		return nil, err
	}
	return obj.(*metal3.BareMetalHost), nil
}

// admit is what every action begins with, before anything is looked up: the
// body must be about the host in the URL, the users' admission and our validation
// must accept it.
func admit(ctx context.Context, kind, name string, obj runtime.Object, meta *metav1.ObjectMeta, createValidation rest.ValidateObjectFunc, validate func() field.ErrorList) error {
	if meta.Name != "" && meta.Name != name {
		return apierrors.NewBadRequest(fmt.Sprintf("the %s names host %q, the URL host %q: leave metadata.name out, or make them agree", kind, meta.Name, name))
	}
	meta.Name = name
	meta.Namespace = genericapirequest.NamespaceValue(ctx)
	meta.ManagedFields = nil // a request is nobody's field
	if createValidation != nil {
		if err := createValidation(ctx, obj.DeepCopyObject()); err != nil {
			return err
		}
	}
	if errs := validate(); len(errs) > 0 {
		return apierrors.NewInvalid(metal3.Kind(kind), name, errs)
	}
	return nil
}

// hostAndNode reads the host from etcd and its node from Ironic.
func hostAndNode(ctx context.Context, r *REST, nodes Nodes, name string) (*metal3.BareMetalHost, *ironic.Node, error) {
	host, err := recordedHost(ctx, r, name)
	if err != nil {
		return nil, nil, err
	}
	node, err := nodeOf(ctx, r, nodes, host)
	return host, node, err
}
