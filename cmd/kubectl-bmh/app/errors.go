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
	var op *net.OpError
	var certificate *tls.CertificateVerificationError
	var posted *url.Error
	switch {
	case errors.Is(err, errNotSent):
		return false
	case errors.As(err, &status): // the server says it itself, or kube-apiserver that the server has gone
		_, isUnexpected := apierrors.StatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
		return isUnexpected && status.Status().Code >= http.StatusInternalServerError
	case errors.As(err, &op) && op.Op == "dial", errors.As(err, &certificate):
		return false
	}
	return errors.As(err, &posted) || errors.Is(err, context.DeadlineExceeded)
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
