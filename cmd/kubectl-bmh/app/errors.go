// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/view"
)

// The exit codes. docs/plugin.md has the same list.
const (
	exitOK          = 0
	exitError       = 1   // anything that went wrong, also for one of several hosts
	exitHopeless    = 2   // wait: a host has an error that keeps it from getting there
	exitTimeout     = 3   // wait: the time is over
	exitInterrupted = 130 // Ctrl-C, as shells report it
)

// exitError is an error with an exit code of its own.
type codedError struct {
	code int
	err  error
}

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }

// errReported is returned by commands that have printed the errors of single hosts already.
var errReported = errors.New("some hosts failed")

// exitCode prints an error as kubectl does, and returns the exit code that belongs to it.
func (s *session) exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	if !errors.Is(err, errReported) {
		fmt.Fprintln(s.ErrOut, cleaned(err))
	}
	var coded *codedError
	switch {
	case errors.As(err, &coded):
		return coded.code
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	return exitError
}

// mayBeDone reports whether a request that has failed may have been carried out: it may have been sent, and nobody has answered.
func mayBeDone(err error) bool {
	var status apierrors.APIStatus
	var posted *url.Error
	switch {
	case errors.Is(err, errNotSent):
		return false
	case errors.As(err, &status):
		return status.Status().Code >= http.StatusInternalServerError && isOfDeadServer(err)
	case errors.As(err, &posted):
		return !isOfConnecting(posted.Err)
	}
	// What client-go says of a limit of its own cannot be told from the others, and a body that breaks off is of an answer.
	return errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "when reading response body")
}

// isOfDeadServer reports whether a status is what kube-apiserver says when metal3-apiserver has gone while it had the request. With
// "service unavailable", and if it has not reached the server, it has passed nothing on. Other statuses are the server's own words.
func isOfDeadServer(err error) bool {
	cause, isUnexpected := apierrors.StatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
	said := strings.TrimPrefix(strings.TrimSpace(cause.Message), "error trying to reach service: ")
	return isUnexpected && said != "service unavailable" && said != handshakeTimeout &&
		!slices.ContainsFunc([]string{"dial ", "remote error: ", "tls: ", "x509: "}, func(of string) bool { return strings.HasPrefix(said, of) })
}

// handshakeTimeout is an error of net/http, which has no type.
const handshakeTimeout = "net/http: TLS handshake timeout"

// isOfConnecting reports whether a request failed before it was sent: for want of a connection, of trust or of credentials.
func isOfConnecting(err error) bool {
	var op *net.OpError
	var certificate *tls.CertificateVerificationError
	connecting := []string{"dial", "proxyconnect", "socks connect", "remote error"} // the last is of TLS
	return errors.As(err, &op) && slices.Contains(connecting, op.Op) || errors.As(err, &certificate) || errors.Is(err, http.ErrSchemeMismatch) ||
		strings.HasPrefix(err.Error(), "getting credentials: ") || err.Error() == handshakeTimeout
}

// errNotSent is for the hosts whose turn had not come when the user pressed Ctrl-C.
var errNotSent = errors.New("not sent")

// cleaned describes an error for a terminal. What a server says is one line.
func cleaned(err error) string {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return view.Clean(describe(err))
	}
	return view.CleanLines(describe(err))
}

// describe returns an error in the form in which kubectl prints errors.
func describe(err error) string {
	var coded *codedError
	if errors.As(err, &coded) {
		return err.Error()
	}
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		if reason := status.Status().Reason; reason != "" {
			return fmt.Sprintf("Error from server (%s): %s", reason, err)
		}
		return fmt.Sprintf("Error from server: %s", err)
	}
	return "error: " + err.Error()
}
