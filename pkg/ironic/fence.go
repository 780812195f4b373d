// SPDX-License-Identifier: Apache-2.0

package ironic

import (
	"errors"
	"fmt"
	"time"
)

// The reasons for which a Fence refuses a request.
var (
	// ErrNotLeading says that the term of leadership is over under which the request was decided on, or that nothing
	// may be touched in it, because etcd may have been restored from a backup.
	ErrNotLeading = errors.New("another replica may lead by now, or etcd was restored from a backup")
	// ErrLookedTooLongAgo says that what the request was decided on may be outdated.
	ErrLookedTooLongAgo = errors.New("the node or its host may have changed since they were read, as happens when Ironic answers slowly")
	// errNoFence says that the caller has forgotten to say on what it has decided.
	errNoFence = errors.New("a changing request without a fence")
)

// A Term reports whether the term of leadership lasts in which a decision was made. It must turn false
// before another replica can lead.
type Term func() bool

// TermOf returns the term that lasts as long as leading returns true. A nil leading means that there
// is no other replica, so the term never ends.
func TermOf(leading func() bool) Term {
	if leading == nil {
		return func() bool { return true }
	}
	return leading
}

// Fence says on what a changing request was decided, and refuses the request once that no longer
// holds. The client checks it immediately before it sends the request, after it has waited for a
// connection: this process may have been suspended since the decision. The zero Fence refuses every
// request, so none is sent whose fence was forgotten.
type Fence struct {
	// Term is the term of leadership in which the request was decided on.
	Term Term
	// LookedAt is when Ironic was asked for what the request was decided on, and MaxAge for how long
	// after that the request may be sent; 0 means for any time. LookedAt has no monotonic reading, which
	// stands still while the machine is suspended.
	LookedAt time.Time
	MaxAge   time.Duration
	// Superseded reports whether something else is known to be asked for by now; nil if that does not matter. It does not block.
	Superseded func() bool
	// ResourceVersion is the one of the object whose spec and recorded status the request was decided
	// on.
	ResourceVersion string
}

// NoFence is the fence of a request that a user has made, by an action such as power or inspect. There is
// nothing that it could be checked against: the user's request itself is the decision, it is carried
// out while the user waits, and each replica serves such requests, whoever leads.
var NoFence = Fence{Term: TermOf(nil)}

// At returns the fence for a request that was decided on the given version of an object.
func (f Fence) At(resourceVersion string) Fence {
	f.ResourceVersion = resourceVersion
	return f
}

// Check returns why a request must no longer be sent, or nil.
func (f Fence) Check() error {
	switch {
	case f.Term == nil:
		return errNoFence
	case !f.Term():
		return ErrNotLeading
	}
	if age := time.Now().Round(0).Sub(f.LookedAt.Round(0)); f.MaxAge > 0 && (age > f.MaxAge || age < 0) {
		return fmt.Errorf("%w (%s)", ErrLookedTooLongAgo, age)
	}
	if f.Superseded != nil && f.Superseded() {
		return fmt.Errorf("%w: its host was changed", ErrLookedTooLongAgo)
	}
	return nil
}
