// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// Faults are the troubles of the API process that a test can ask for. They do
// not touch the paths under /_sim/.
type Faults struct {
	// FailWrites answers every request that is no read with this status, which is
	// 401, 403, 500 or 503: credentials that were taken away, a role that may only
	// read, a database that is full, no free conductor worker. 0: none.
	FailWrites int
	// Hang accepts every request and answers none, until Hang is off again; those
	// that hung then lose their connection.
	Hang bool
	// Latency is added to every request.
	Latency time.Duration
	// LatencyPerNode is added to a list of nodes for each node that it returns,
	// after they were read from the database: a real Ironic takes most of the time
	// of a list to encode it, and what it then sends is as old as that.
	LatencyPerNode time.Duration
	// Unreadable are the UUIDs of nodes whose driver_internal_info is cut off in the database. Ironic reads that column
	// of the node in a path and of a marker, and in a list if it is asked for it.
	Unreadable []string
}

// read fails if one of the nodes cannot be read from the database as a whole.
func (f *faultSwitch) read(nodes ...*node) error {
	unreadable := f.get().Unreadable
	if !slices.ContainsFunc(nodes, func(n *node) bool { return slices.Contains(unreadable, n.UUID) }) {
		return nil
	}
	return fault(http.StatusInternalServerError, "Unterminated string starting at: line 1 column 2 (char 1)")
}

type faultSwitch struct {
	mu      sync.Mutex
	now     Faults
	judge   func(kind string, r *http.Request) Verdict
	release chan struct{} // closed when Hang ends
}

func (f *faultSwitch) init() { f.release = make(chan struct{}) }

// SetFaults replaces the faults that are in force; the zero Faults ends all.
func (s *Sim) SetFaults(f Faults) { s.faults.set(f) }

// Verdict is what becomes of one request. The zero Verdict lets it pass.
type Verdict struct {
	// Refusal is answered, if it is not nil, and the request is not executed.
	Refusal *fsm.Refusal
	// Lost closes the connection of a request that is executed, instead of an answer.
	Lost bool
	// Late executes the request after so long, whether or not the client is still there, and answers it never. 0
	// executes it at once. A request can wait that long in the queue of a load balancer or for a conductor.
	Late time.Duration
	// Queued is how long the request waits in such a queue before it is executed and answered. If its client leaves meanwhile, it is
	// executed all the same, as much later as Orphaned returns.
	Queued   time.Duration
	Orphaned func() time.Duration
}

// Judge lets a test decide about each request, by its kind as in Stats, after the
// other faults. nil ends that. The body of a request must not be read.
func (s *Sim) Judge(judge func(kind string, r *http.Request) Verdict) {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.judge = judge
}

// verdict asks who judges.
func (f *faultSwitch) verdict(kind string, r *http.Request) Verdict {
	f.mu.Lock()
	judge := f.judge
	f.mu.Unlock()
	if judge == nil {
		return Verdict{}
	}
	return judge(kind, r)
}

func (f *faultSwitch) get() Faults {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *faultSwitch) set(faults Faults) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = faults
	if !faults.Hang {
		close(f.release)
		f.release = make(chan struct{})
	}
}

// pass holds a request up as the faults say. It reports false for one that must
// not be answered.
func (f *faultSwitch) pass(ctx context.Context, r *http.Request) bool {
	f.mu.Lock()
	now, release := f.now, f.release
	f.mu.Unlock()
	if now.Hang {
		select {
		case <-release:
		case <-r.Context().Done():
		case <-ctx.Done():
		}
		return false
	}
	return holdUp(ctx, r, now.Latency)
}

// passList holds a list of n nodes up. It reports false as pass does.
func (f *faultSwitch) passList(ctx context.Context, r *http.Request, n int) bool {
	return holdUp(ctx, r, time.Duration(n)*f.get().LatencyPerNode)
}

// holdUp waits for d. It reports false when the client or the Sim went away before.
func holdUp(ctx context.Context, r *http.Request, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
	case <-ctx.Done():
	}
	return false
}
