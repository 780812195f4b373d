// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
)

// Report prints the progress of a migration for the user.
type Report struct {
	mu    sync.Mutex
	w     io.Writer
	steps int
}

// NewReport returns a Report that writes to w.
func NewReport(w io.Writer) *Report { return &Report{w: w} }

// Step prints the title of the next step.
func (r *Report) Step(format string, args ...any) {
	r.steps++
	r.print(fmt.Sprintf("%d. ", r.steps), format, args)
}

// Done prints what was done, or was found to be in order.
func (r *Report) Done(format string, args ...any) { r.print("   ", format, args) }

// Warn prints a problem that the user should look at, but that does not stop the migration.
func (r *Report) Warn(format string, args ...any) { r.print("   warning: ", format, args) }

func (r *Report) print(prefix, format string, args []any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// The migration continues even if its output can no longer be written.
	_, _ = fmt.Fprintln(r.w, prefix+fmt.Sprintf(format, args...))
}

// refusals are the reasons to refuse to continue. They are collected, so that the user
// learns of all of them at once.
type refusals []string

func (r *refusals) add(format string, args ...any) { *r = append(*r, fmt.Sprintf(format, args...)) }

// maxNamed is how many reasons an error lists.
const maxNamed = 20

// err returns an error that lists the reasons, or nil if there are none.
func (r refusals) err(what string) error {
	if len(r) == 0 {
		return nil
	}
	named := r[:min(len(r), maxNamed)]
	text := what + ":\n - " + strings.Join(named, "\n - ")
	if more := len(r) - len(named); more > 0 {
		text += fmt.Sprintf("\n - and %d more", more)
	}
	return errors.New(text)
}
