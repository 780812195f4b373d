// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// bmcTimeout bounds a request that Ironic answers only when it has asked the BMC, which can take
// Ironic minutes if the BMC does not answer. A POST cannot take longer than 34 seconds in any case
// (requestTimeoutUpperBound of k8s.io/apiserver).
const bmcTimeout = 25 * time.Second

// BMCQueue lets one request at a time ask the BMC of a host. Ironic would keep further ones
// waiting for the lock of the node, and they would take the connections that other hosts need.
type BMCQueue struct {
	mu   sync.Mutex
	busy map[types.UID]bool
}

// NewBMCQueue returns a queue in which nobody is.
func NewBMCQueue() *BMCQueue { return &BMCQueue{busy: map[types.UID]bool{}} }

// enter returns the function to call when the BMC has been asked, or a 429 if it is being asked
// already.
func (q *BMCQueue) enter(host *metal3.BareMetalHost) (leave func(), err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.busy[host.UID] {
		return nil, tooMany(fmt.Sprintf("baremetalhost %q: its BMC is being asked already, try again when that is done", host.Name))
	}
	q.busy[host.UID] = true
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.busy, host.UID)
	}, nil
}

// bmcError returns the API error for a request in which Ironic was to ask the BMC. unknown is what
// to do if it is not known whether a change was made; it is empty for a request that changes
// nothing.
func (s *Sources) bmcError(host *metal3.BareMetalHost, err error, unknown string) error {
	var answer *ironic.APIError
	switch {
	case err == nil:
		return nil
	case ironic.IsBusy(err):
		return tooMany(fmt.Sprintf("baremetalhost %q: the BMCs of too many other hosts are being asked; nothing was done, try again", host.Name))
	case ironic.IsTooOld(err):
		return tooOld(host)
	case errors.As(err, &answer):
		if known := bmcAnswerError(host, err, answer, unknown); known != nil {
			return known
		}
	}
	if unknown == "" {
		return gatewayTimeout(host.Name, fmt.Sprintf("Ironic did not answer: %s; its BMC may not answer", ironic.ReasonOf(err)))
	}
	return outcomeUnknown(host, err, unknown)
}

// bmcAnswerError returns the API error for an answer of Ironic's, which is in err; nil if it does not say what was done, as that of a proxy
// which has lost Ironic.
func bmcAnswerError(host *metal3.BareMetalHost, err error, answer *ironic.APIError, unknown string) error {
	switch {
	case ironic.IsUnsupported(err):
		return unprocessable(host, answer.Message)
	case answer.Status == http.StatusServiceUnavailable:
		return nothingDone(host, err)
	case ironic.IsInternal(err):
		// This is how Ironic passes on what the BMC says. There is no Retry-After: clients would
		// repeat the request by themselves.
		message := fmt.Sprintf("the BMC has refused it, or does not answer: %s", answer.Message)
		if unknown != "" {
			message += "; " + unknown
		}
		return unavailable(host.Name, message)
	}
	return refusalOf(host, answer)
}

// unavailable returns a 503 without Retry-After.
func unavailable(name, message string) error {
	return apierrors.NewServiceUnavailable(fmt.Sprintf("baremetalhost %q: %s", name, message))
}

// unprocessable returns the 422 for a request that the host's driver can never fulfil.
func unprocessable(host *metal3.BareMetalHost, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Message: fmt.Sprintf("baremetalhost %q: %s", host.Name, message),
		Details: &metav1.StatusDetails{Group: metal3.GroupName, Kind: "baremetalhosts", Name: host.Name},
	}}
}
