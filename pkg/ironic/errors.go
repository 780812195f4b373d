// SPDX-License-Identifier: Apache-2.0

package ironic

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic/redact"
)

// APIError is an answer of Ironic other than success.
type APIError struct {
	// Status is the HTTP status code.
	Status int
	// Message is what Ironic said, decoded.
	Message string
	// Op is what was tried, such as "set power state of node N".
	Op string
	// RetryAfter is for how long the answer asks the client to wait; 0 if it does not.
	RetryAfter time.Duration

	// said are those of the phrases that were in the answer as it came.
	said []string
	// foreign marks an answer that is not an application error of Ironic: a
	// proxy's page, or an unknown URL. Its 404 does not say that a node is gone.
	foreign bool
}

// Error implements error.
func (e *APIError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("%s: Ironic answered HTTP %d %s", e.Op, e.Status, http.StatusText(e.Status))
	}
	return fmt.Sprintf("%s: %s (HTTP %d)", e.Op, e.Message, e.Status)
}

// UnavailableError reports that Ironic could not be asked, or that its answer
// did not arrive. A write may have been executed all the same.
type UnavailableError struct {
	// Op is what was tried.
	Op string
	// Reason is why it failed, in a few words.
	Reason string
	// Err is the error behind it; nil where there is none.
	Err error

	// Class is the reason as a label of metrics.
	Class string
}

// Error implements error.
func (e *UnavailableError) Error() string { return e.Op + ": Ironic is not available: " + e.Reason }

// Unwrap returns the error behind it.
func (e *UnavailableError) Unwrap() error { return e.Err }

// IsNotFound reports whether Ironic itself said that the thing does not exist.
func IsNotFound(err error) bool {
	return isStatus(err, http.StatusNotFound) && !IsWithoutConductor(err)
}

// IsWithoutConductor reports whether none of the conductors that could work on the node is alive. Ironic's API has that as a 404, too
// (NoValidHost), though the node is there.
func IsWithoutConductor(err error) bool {
	var api *APIError
	return errors.As(err, &api) && api.Status == http.StatusNotFound && api.says(noConductor)
}

// IsConflict reports whether Ironic refused because of the state of the thing.
func IsConflict(err error) bool { return isStatus(err, http.StatusConflict) }

// IsBadRequest reports whether Ironic refused the request for what it asks: a bad
// value, or an action that the node's state does not allow.
func IsBadRequest(err error) bool { return isStatus(err, http.StatusBadRequest) }

// IsWrongState reports whether Ironic refused a transition because the node is not
// in a state that it starts from.
func IsWrongState(err error) bool {
	var api *APIError
	return errors.As(err, &api) && (api.Status == http.StatusBadRequest || api.Status == http.StatusConflict) && api.says(inWrongState)
}

// IsLocked reports whether a conductor works on the node right now: the same
// request may succeed a little later.
func IsLocked(err error) bool {
	return conflictSays(err, isLocked) || conflictSays(err, inTransition) || conflictSays(err, isInspecting)
}

// IsDuplicate reports whether a node of that name or UUID, or a port of that MAC
// address, exists already.
func IsDuplicate(err error) bool { return conflictSays(err, exists) }

// IsUnsupported reports whether Ironic refused because the driver of the node has no such function,
// or that is disabled.
func IsUnsupported(err error) bool {
	var api *APIError
	return errors.As(err, &api) && api.Status == http.StatusBadRequest && saysUnsupported(api.Message)
}

// IsTooOld reports whether Ironic does not know the request: its release does not have what was
// asked for.
func IsTooOld(err error) bool {
	var api *APIError
	return errors.As(err, &api) && (api.Status == http.StatusNotAcceptable || api.Status == http.StatusNotFound && api.foreign)
}

// IsProtected reports whether Ironic refused to undeploy, rebuild or delete a node because somebody has protected it. That is the
// only 403 that is about a node, and not about the server.
func IsProtected(err error) bool {
	var api *APIError
	return errors.As(err, &api) && api.Status == http.StatusForbidden && api.says(isProtected)
}

// IsInternal reports whether Ironic failed while it carried the request out. With requests that make
// Ironic ask the BMC, that is how it passes on what the BMC says, or that it does not answer.
func IsInternal(err error) bool { return isStatus(err, http.StatusInternalServerError) }

// IsBusy reports whether the request was not sent, because too many were under way or were given up.
func IsBusy(err error) bool {
	var unavailable *UnavailableError
	return errors.As(err, &unavailable) && unavailable.Class == ClassBusy
}

// ClassTimeout is the class of a request that was not answered in time.
const ClassTimeout = "timeout"

// IsTimeout reports whether a request was not answered in time.
func IsTimeout(err error) bool {
	var unavailable *UnavailableError
	return errors.As(err, &unavailable) && unavailable.Class == ClassTimeout
}

// ClassBusy is the class of a request that was not sent, because too many were under way or were given up.
const ClassBusy = "busy"

// IsNotCarriedOut reports whether it is certain that Ironic has not carried out a request, nor ever will: Ironic itself has
// refused it, or it was never sent. Of any other failed request nothing is known.
func IsNotCarriedOut(err error) bool {
	var api *APIError
	var unavailable *UnavailableError
	switch {
	case errors.Is(err, ErrNotLeading), errors.Is(err, ErrLookedTooLongAgo), errors.Is(err, errNoFence):
		return true
	case errors.As(err, &api): // 503: no conductor has a free worker
		return !api.foreign && (api.Status < http.StatusInternalServerError || api.Status == http.StatusServiceUnavailable)
	case errors.As(err, &unavailable):
		switch unavailable.Class {
		case ClassBusy, ClassAuth, "refused", "unreachable", "dns":
			return true
		}
	}
	return false
}

func conflictSays(err error, words string) bool {
	var api *APIError
	return errors.As(err, &api) && api.Status == http.StatusConflict && api.says(words)
}

// Ironic's words that decisions hang on.
const (
	inWrongState = "can not be performed on node"
	isLocked     = "is locked by host"
	inTransition = "while a state transition is in progress"
	isInspecting = `while it is in state "inspecting"`
	exists       = "already exists"
	noConductor  = "No valid host was found"
	isProtected  = "is protected and cannot be"
)

var phrases = []string{inWrongState, isLocked, inTransition, isInspecting, exists, noConductor, isProtected}

// says reports whether a phrase was in the answer. It may be no longer in the
// message, where a password of "host" was struck out.
func (e *APIError) says(phrase string) bool {
	return slices.Contains(e.said, phrase) || strings.Contains(e.Message, phrase)
}

func isStatus(err error, status int) bool {
	var api *APIError
	return errors.As(err, &api) && api.Status == status && !api.foreign
}

// IsUnavailable reports whether the failure is one of Ironic as a whole, and not
// an answer about the thing that was asked for: no connection, a time-out, an
// internal error, no conductor, or no free worker of one, refused credentials, an API that is
// too old. A request that the caller cancelled is not a failure of Ironic.
func IsUnavailable(err error) bool {
	var unavailable *UnavailableError
	if errors.As(err, &unavailable) {
		return true
	}
	var api *APIError
	if errors.As(err, &api) {
		switch {
		case IsProtected(err):
			return false
		case api.Status >= 500, api.Status == http.StatusTooManyRequests:
			return true
		case api.Status == http.StatusUnauthorized, api.Status == http.StatusForbidden, IsWithoutConductor(err):
			return true
		default:
			return api.foreign
		}
	}
	return errors.Is(err, context.DeadlineExceeded)
}

// ClassNotIronic is the class of an answer that is not what Ironic sends.
const ClassNotIronic = "not_ironic"

// ClassAuth is the class of a login that failed.
const ClassAuth = "auth"

// IsRefused reports whether Ironic or Keystone answers, but refuses the credentials of this server, which lasts
// until somebody corrects them.
func IsRefused(err error) bool {
	var unavailable *UnavailableError
	if errors.As(err, &unavailable) {
		return unavailable.Class == ClassAuth
	}
	return isStatus(err, http.StatusUnauthorized) || isStatus(err, http.StatusForbidden) && !IsProtected(err)
}

// ClassOfNode is the class of what Ironic does not show of a node, while it shows the others.
const ClassOfNode = "of_node"

// MayBeOfOneNode reports whether a read may have failed because of one of the nodes that it was to show: Ironic has answered.
func MayBeOfOneNode(err error) bool {
	var unavailable *UnavailableError
	var tooLong *http.MaxBytesError
	return IsInternal(err) || IsNotIronic(err) || errors.As(err, &tooLong) || errors.As(err, &unavailable) && unavailable.Class == ClassOfNode
}

// IsNotIronic reports whether an answer arrived that cannot be decoded.
func IsNotIronic(err error) bool {
	var unavailable *UnavailableError
	return errors.As(err, &unavailable) && unavailable.Class == ClassNotIronic
}

// MessageOf returns what Ironic has said about why a request failed, or else ReasonOf.
func MessageOf(err error) string {
	var answer *APIError
	if errors.As(err, &answer) && answer.Message != "" {
		return answer.Message
	}
	return ReasonOf(err)
}

// ReasonOf says in a few words why a request failed: "connection refused", "no
// answer within 2s", "HTTP 500".
func ReasonOf(err error) string {
	var unavailable *UnavailableError
	var api *APIError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &unavailable):
		return unavailable.Reason
	case errors.As(err, &api) && api.Status == http.StatusUnauthorized:
		return "credentials refused (HTTP 401)"
	case IsProtected(err):
		return MessageOf(err)
	case errors.As(err, &api) && api.Status == http.StatusForbidden && api.Message != "":
		return "not permitted by Ironic's policy (HTTP 403): " + api.Message
	case errors.As(err, &api):
		return fmt.Sprintf("HTTP %d", api.Status)
	case errors.Is(err, context.Canceled):
		return "request cancelled"
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	default:
		return err.Error()
	}
}

// NewUnavailableError explains a request that got no answer. The url.Error around
// it is dropped: it repeats the whole URL.
func NewUnavailableError(op string, err error, waited time.Duration) *UnavailableError {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	e := &UnavailableError{Op: op, Err: err}

	var timeout net.Error
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var tooLong *http.MaxBytesError
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		e.Class, e.Reason = ClassTimeout, "no answer within "+RoundForPeople(waited)
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Class, e.Reason = "refused", "connection refused"
	case IsConnectionReset(err):
		e.Class, e.Reason = "reset", "connection closed before the answer"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		e.Class, e.Reason = "unreachable", "no route to host"
	case errors.As(err, &dns):
		e.Class, e.Reason = "dns", fmt.Sprintf("host name %q cannot be resolved", dns.Name)
	case errors.As(err, &cert):
		e.Class, e.Reason = "tls", "certificate not accepted: "+cert.Err.Error()
	case isAlert(err), errors.As(err, &record):
		e.Class, e.Reason = "tls", "TLS: "+err.Error()
	case errors.As(err, &tooLong):
		e.Class, e.Reason = "other", "the answer is longer than any of Ironic's"
	default:
		e.Class, e.Reason = "other", err.Error()
	}
	return e
}

// isAlert reports whether the other side has ended TLS with an alert. crypto/tls exports only those of QUIC.
func isAlert(err error) bool {
	var alert *net.OpError
	return errors.As(err, &alert) && alert.Op == "remote error"
}

// IsConnectionReset reports whether the connection broke. Ironic's own server does this to
// some of many connections that arrive at once, and when it restarts.
func IsConnectionReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// RoundForPeople rounds a duration to what is worth reading in a message.
func RoundForPeople(d time.Duration) string {
	if d < time.Second {
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// NewAPIError makes the error of an answer other than success. It has neither the secrets that were sent nor those that the context of the
// request knows of: see redact.With.
func NewAPIError(ctx context.Context, op string, status int, body []byte, secrets []string) *APIError {
	message, foreign := DecodeMessage(status, body)
	said := slices.DeleteFunc(slices.Clone(phrases), func(phrase string) bool { return !strings.Contains(message, phrase) })
	return &APIError{Op: op, Status: status, Message: redact.Words(ctx, message, secrets...), said: said, foreign: foreign}
}

// DecodeMessage finds Ironic's own words in an error body, which has one of
// three forms: error_message holding the text of a JSON object with
// faultstring (application) or with title and description (framework, for an
// unknown URL or version), or an error object (authentication middleware, but also Keystone and other services, which are at the
// address by mistake). Some releases send the inner object as an object.
func DecodeMessage(status int, body []byte) (message string, foreign bool) {
	var outer struct {
		ErrorMessage json.RawMessage `json:"error_message"`
		Error        struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &outer) != nil {
		return "", true
	}
	if outer.Error.Message != "" {
		return outer.Error.Message, status == http.StatusNotFound // the middleware looks for nothing
	}
	inner := []byte(outer.ErrorMessage)
	var text string
	if json.Unmarshal(inner, &text) == nil {
		inner = []byte(text)
	}
	var fault struct {
		FaultString string `json:"faultstring"`
		Title       string `json:"title"`
		Description string `json:"description"`
	}
	if json.Unmarshal(inner, &fault) != nil {
		return strings.TrimSpace(text), text == ""
	}
	switch {
	case fault.FaultString != "":
		return strings.TrimSpace(fault.FaultString), false
	case fault.Description != "":
		return strings.TrimSpace(fault.Description), true
	default:
		return fault.Title, true
	}
}
