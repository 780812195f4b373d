package baremetalhost

import (
	"errors"
	"fmt"
	"net/http"
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
	doing := string(node.ProvisionState)
	if node.TargetPowerState != "" {
		doing += ", target " + string(node.TargetPowerState)
	}
	return tooMany(fmt.Sprintf("baremetalhost %q: Ironic's node %s is locked by conductor %s (%s); try again when that is done",
		host.Name, node.UUID, node.Reservation, doing))
}

func tooMany(message string) error {
	return apierrors.NewTooManyRequests(message, int(lockedRetry.Seconds()))
}

// refusalOf is the API error of an answer with which Ironic declined a request, so
// that nothing of it was done. It is nil if the request may have been done: after a
// time-out, a broken connection or an internal error.
func refusalOf(host *metal3.BareMetalHost, err error) error {
	var answer *ironic.APIError
	if !errors.As(err, &answer) || answer.Status >= 500 || answer.Status == http.StatusRequestTimeout {
		return nil
	}
	switch {
	case ironic.IsLocked(err):
		return tooMany(fmt.Sprintf("baremetalhost %q: %v; try again when that is done", host.Name, err))
	case ironic.IsNotFound(err):
		return conflict(host, fmt.Errorf("Ironic has no node %s any more; wait until it is registered again", host.Status.Provisioning.ID))
	case ironic.IsUnavailable(err): // our credentials, or a proxy in front of Ironic
		return nothingDone(host, err)
	}
	return conflict(host, fmt.Errorf("Ironic refused: %s", answer.Message))
}

// nothingDone is the 503 of an action that did not get as far as changing anything,
// because Ironic cannot be asked.
func nothingDone(host *metal3.BareMetalHost, err error) error {
	return serviceUnavailable(host.Name, fmt.Sprintf("Ironic cannot be asked: %s; nothing was done, try again", ironic.ReasonOf(err)))
}

// serviceUnavailable is a 503 with Retry-After, with which clients repeat the request
// by themselves.
func serviceUnavailable(name, message string) error {
	status := apierrors.NewServiceUnavailable(fmt.Sprintf("baremetalhost %q: %s", name, message))
	status.ErrStatus.Details = &metav1.StatusDetails{
		Group: metal3.GroupName, Kind: "baremetalhosts", Name: name, RetryAfterSeconds: int32(awayRetry.Seconds()),
	}
	return status
}

// outcomeUnknown is the 504 of an action that may have begun. It has no Retry-After,
// with which clients would begin the action again. next is what the user can do.
func outcomeUnknown(host *metal3.BareMetalHost, err error, next string) error {
	return gatewayTimeout(host.Name, fmt.Sprintf("Ironic did not confirm it: %s; %s", ironic.ReasonOf(err), next))
}

// gatewayTimeout is a 504 without Retry-After.
func gatewayTimeout(name, message string) error {
	return apierrors.NewTimeoutError(fmt.Sprintf("baremetalhost %q: %s", name, message), 0)
}

// readError is the API error of a host that could not be read from etcd. What the
// store has no API error for, such as a deadline, would be a 500 without a reason.
func readError(name string, err error) error {
	if err == nil || isAPIError(err) {
		return err
	}
	return serviceUnavailable(name, fmt.Sprintf("it cannot be read from etcd: %v; nothing was done, try again", err))
}

// writeError is readError for a host that could not be written.
func writeError(name string, err error) error {
	if err == nil || isAPIError(err) {
		return err
	}
	return gatewayTimeout(name, fmt.Sprintf("etcd did not confirm the change: %v; see whether it was made before you try again", err))
}

func isAPIError(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}
