// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

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
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return false // the server says it itself
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "dial" {
		return false
	}
	if t := (interface{ Timeout() bool })(nil); errors.As(err, &t) && t.Timeout() {
		return true
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}

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
