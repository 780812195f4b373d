// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/store"
)

// lockedRetry is the Retry-After while the node is locked, mostly for a short time.
const lockedRetry = 2 * time.Second

// conflict returns the error for an action that the state of the host does not permit now.
func conflict(host *metal3.BareMetalHost, err error) error {
	return apierrors.NewConflict(metal3.Resource("baremetalhosts"), host.Name, err)
}

// errorSuffix returns the host's error, which may be why an action is not possible, for the end
// of a message.
func errorSuffix(host *metal3.BareMetalHost) string {
	if host.Status.ErrorMessage == "" {
		return ""
	}
	return ": " + host.Status.ErrorMessage
}

// checkNotDeleting returns an error if the host is being deleted.
func checkNotDeleting(host *metal3.BareMetalHost) error {
	if host.DeletionTimestamp.IsZero() {
		return nil
	}
	return conflict(host, errors.New("it is being deleted"))
}

// notVerified returns the error for an action that needs a BMC which Ironic has not reached yet.
func notVerified(host *metal3.BareMetalHost, node *ironic.Node) error {
	return conflict(host, fmt.Errorf("its BMC has not been verified (Ironic: %s); see its status for what is missing%s", node.ProvisionState, errorSuffix(host)))
}

// busy returns the error for an action that is possible only after another operation.
func busy(host *metal3.BareMetalHost, node *ironic.Node, until string) error {
	return conflict(host, fmt.Errorf("Ironic is busy with it (%s, target %s); wait until %s", node.ProvisionState, node.TargetProvisionState, until))
}

// locked returns the error for an action on a node that a conductor has locked. It is a 429, after
// which clients wait and repeat the request, and not a 409, which many take for a lost update.
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

// refusalOf returns the API error if Ironic has refused a request, so that nothing was done. It
// is nil if there is no error, and if the request may have been carried out: after a timeout, a
// broken connection or an internal error of Ironic.
func refusalOf(host *metal3.BareMetalHost, err error) error {
	var answer *ironic.APIError
	if !errors.As(err, &answer) || answer.Status >= 500 || answer.Status == http.StatusRequestTimeout {
		return nil
	}
	switch {
	case ironic.IsLocked(err):
		return tooMany(fmt.Sprintf("baremetalhost %q: %v; try again when that is done", host.Name, err))
	case ironic.IsNotFound(err):
		return conflict(host, fmt.Errorf("%s has no node %s any more; wait until it is registered again", ironicName(host), host.Status.Provisioning.ID))
	case ironic.IsUnavailable(err): // Ironic refuses the server's credentials, or a proxy answers instead of Ironic
		return nothingDone(host, err)
	}
	return conflict(host, fmt.Errorf("Ironic refused: %s", answer.Message))
}

// nothingDone returns the 503 for an action that has not changed anything because Ironic cannot
// be asked.
func nothingDone(host *metal3.BareMetalHost, err error) error {
	return store.Unavailable(host.Name, fmt.Sprintf("%s cannot be asked: %s; nothing was done, try again", ironicName(host), ironic.ReasonOf(err)))
}

// notRead returns the error for what Ironic could not say of a node, without asking its BMC.
func notRead(host *metal3.BareMetalHost, err error) error {
	if ironic.IsTooOld(err) {
		return tooOld(host)
	}
	if refusal := refusalOf(host, err); refusal != nil {
		return refusal
	}
	return store.Unavailable(host.Name, fmt.Sprintf("%s could not answer: %s; try again", ironicName(host), ironic.MessageOf(err)))
}

// tooOld returns the error for a request that the host's Ironic does not know.
func tooOld(host *metal3.BareMetalHost) error {
	return conflict(host, errors.New("this Ironic does not know the request: its release is too old"))
}

// outcomeUnknown returns the 504 for an action that may have begun. It has no Retry-After, because
// clients would repeat the action by themselves. next tells the user what to do.
func outcomeUnknown(host *metal3.BareMetalHost, err error, next string) error {
	return gatewayTimeout(host.Name, fmt.Sprintf("Ironic did not confirm it: %s; %s", ironic.ReasonOf(err), next))
}

// gatewayTimeout returns a 504 without Retry-After.
func gatewayTimeout(name, message string) error {
	return apierrors.NewTimeoutError(fmt.Sprintf("baremetalhost %q: %s", name, message), 0)
}

// readError returns the API error for a host that could not be read from etcd. Errors for which
// the store has no API error, such as an exceeded deadline, would otherwise become a 500.
func readError(name string, err error) error {
	if err == nil || isAPIError(err) {
		return err
	}
	return store.Unavailable(name, fmt.Sprintf("it cannot be read from etcd: %v; nothing was done, try again", err))
}

// writeError returns the API error for a host that could not be written to etcd.
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
