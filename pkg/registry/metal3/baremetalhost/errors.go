package baremetalhost

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

const (
	lockedRetry = 2 * time.Second // Ironic's locks are short, but for those of long operations
	awayRetry   = time.Second     // clients repeat ten times by themselves, while their user waits
)

// conflict is the error of an action that the host's state does not allow now.
func conflict(host *metal3.BareMetalHost, err error) error {
	return apierrors.NewConflict(metal3.Resource("baremetalhosts"), host.Name, err)
}

// because is the host's own error, which may be why an action is not possible.
func because(host *metal3.BareMetalHost) string {
	if host.Status.ErrorMessage == "" {
		return ""
	}
	return ": " + host.Status.ErrorMessage
}

// checkNotDeleting refuses an action on a host that is on its way out.
func checkNotDeleting(host *metal3.BareMetalHost) error {
	if host.DeletionTimestamp.IsZero() {
		return nil
	}
	return conflict(host, errors.New("it is being deleted"))
}

// notVerified is the error of an action that needs the BMC, which Ironic has not
// reached yet.
func notVerified(host *metal3.BareMetalHost, node *ironic.Node) error {
	return conflict(host, fmt.Errorf("its BMC has not been verified (Ironic: %s); see its status for what is missing%s", node.ProvisionState, because(host)))
}

// busy is the error of an action that has to wait for the end of another operation.
func busy(host *metal3.BareMetalHost, node *ironic.Node, until string) error {
	return conflict(host, fmt.Errorf("Ironic is busy with it (%s, target %s); wait until %s", node.ProvisionState, node.TargetProvisionState, until))
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

// isRefusal tells whether Ironic has certainly not begun the action. After a
// time-out or a broken connection it may have.
func isRefusal(err error) bool {
	return ironic.IsLocked(err) || ironic.IsNotFound(err) || ironic.IsBadRequest(err) || ironic.IsConflict(err)
}

// unavailable is the 503 of an action that was not begun, because Ironic cannot be asked.
func unavailable(host *metal3.BareMetalHost, err error) error {
	return serviceUnavailable(host, fmt.Sprintf("Ironic cannot be asked: %s; nothing was done, try again", ironic.ReasonOf(err)))
}

// serviceUnavailable is a 503 with Retry-After, with which clients repeat the request.
func serviceUnavailable(host *metal3.BareMetalHost, message string) error {
	status := apierrors.NewServiceUnavailable(fmt.Sprintf("baremetalhost %q: %s", host.Name, message))
	status.ErrStatus.Details = &metav1.StatusDetails{
		Group: metal3.GroupName, Kind: "baremetalhosts", Name: host.Name, RetryAfterSeconds: int32(awayRetry.Seconds()),
	}
	return status
}
