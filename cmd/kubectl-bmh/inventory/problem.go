// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"fmt"
	"strings"
)

// LineError is a mistake in a line of an inventory. It never contains a password.
type LineError struct {
	// Line is counted from 1.
	Line int
	// Name is the name of the machine, if it is known.
	Name string
	Err  error
	// IsOther is set if it is about something that is not a machine, such as an object of another kind.
	IsOther bool
}

func (e *LineError) Error() string {
	var b strings.Builder
	if e.Line != 0 {
		fmt.Fprintf(&b, "line %d: ", e.Line)
	}
	if e.Name != "" {
		b.WriteString(e.Name + ": ")
	}
	return b.String() + e.Err.Error()
}

func (e *LineError) Unwrap() error { return e.Err }

// all are several errors in one line of text.
type all []error

func (a all) Error() string {
	texts := make([]string, len(a))
	for i, err := range a {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (a all) Unwrap() []error { return a }

// join returns the errors that are not nil as one, or nil.
func join(errs ...error) error {
	var some all
	for _, err := range errs {
		if several := (all)(nil); errors.As(err, &several) {
			some = append(some, several...)
		} else if err != nil {
			some = append(some, err)
		}
	}
	switch len(some) {
	case 0:
		return nil
	case 1:
		return some[0]
	}
	return some
}
