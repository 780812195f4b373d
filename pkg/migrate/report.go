package migrate

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
)

// Report is what a person reads while a migration goes on.
type Report struct {
	mu    sync.Mutex
	w     io.Writer
	steps int
}

// NewReport writes to w.
func NewReport(w io.Writer) *Report { return &Report{w: w} }

// Step begins another step.
func (r *Report) Step(format string, args ...any) {
	r.steps++
	r.print(fmt.Sprintf("%d. ", r.steps), format, args)
}

// Done tells what was found in order, or done.
func (r *Report) Done(format string, args ...any) { r.print("   ", format, args) }

// Warn tells what somebody has to look at, and what does not hold up anything.
func (r *Report) Warn(format string, args ...any) { r.print("   warning: ", format, args) }

func (r *Report) print(prefix, format string, args []any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Where the terminal went away, the migration is still to be finished.
	_, _ = fmt.Fprintln(r.w, prefix+fmt.Sprintf(format, args...))
}

// refusals are the reasons not to go on. All are told at once.
type refusals []string

func (r *refusals) add(format string, args ...any) { *r = append(*r, fmt.Sprintf(format, args...)) }

// maxNamed is how many objects are named one by one.
const maxNamed = 20

// err names the first of many.
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
