// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// conductor is one life of the conductor process. Killing it ends ctx, and with
// it all of its workers, at whatever they are doing.
type conductor struct {
	ctx    context.Context
	cancel context.CancelFunc
	free   int // workers, guarded by Sim.mu
}

// startConductor must be called with s.mu held.
func (s *Sim) startConductor() {
	c := &conductor{free: s.opts.Workers}
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	s.conductor = c
}

// KillConductor stops the conductor as kill -9 does: locks stay, transient
// states stay, power sync stops. The API goes on with reads and answers 500 to
// whatever needs the conductor, as separate API processes do.
func (s *Sim) KillConductor() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conductor != nil {
		s.conductor.cancel()
		s.conductor = nil
	}
}

// maxInterrupted is how many nodes a conductor that starts fails in each state: [conductor]periodic_max_workers. The others stay as they are.
const maxInterrupted = 8

// RestartConductor starts the conductor again: it takes its locks away and
// fails what cannot be resumed. Nodes that wait for a ramdisk go on waiting.
func (s *Sim) RestartConductor() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conductor != nil || s.ctx.Err() != nil {
		return
	}
	s.startConductor()
	interrupted := map[string][]*entry{}
	for _, e := range s.nodes {
		s.change(e, func(found *fsm.Node) { s.machine.ReleaseLocks(found, conductorName) })
		if e.n.IsInterrupted() {
			interrupted[e.n.ProvisionState] = append(interrupted[e.n.ProvisionState], e)
		}
	}
	for _, nodes := range interrupted {
		slices.SortFunc(nodes, func(a, b *entry) int { return a.n.provisionUpdatedAt.Compare(b.n.provisionUpdatedAt) })
		for _, e := range nodes[:min(len(nodes), maxInterrupted)] {
			s.change(e, func(found *fsm.Node) { s.record(e, "transition", s.machine.FailInterrupted(found, conductorName)) })
		}
	}
}

// change writes what becomes of a node in its state machine, if it changes.
func (s *Sim) change(e *entry, change func(*fsm.Node)) {
	found := e.n.Node
	if change(&found); found != e.n.Node {
		s.update(e, func(n *node) { n.Node = found })
	}
}

// task is an operation that holds the exclusive lock of a node.
type task struct {
	s *Sim
	c *conductor
	e *entry
}

// acquire takes the lock of a node as task_manager.acquire does: it tries a few
// times, a second apart, and gives up with 409. With once it does not retry.
func (s *Sim) acquire(e *entry, once bool) (*task, error) {
	for attempt := 1; ; attempt++ {
		t, err := s.tryAcquire(e)
		if err == nil {
			return t, nil
		}
		if once || attempt >= lockAttempts || err.code != http.StatusConflict {
			return nil, err
		}
		if !sleep(s.ctx, s.opts.LockRetryInterval) {
			return nil, errConductorDown()
		}
	}
}

func (s *Sim) tryAcquire(e *entry) (*task, *apiError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conductor == nil {
		return nil, errConductorDown()
	}
	if e.gone {
		return nil, errNodeNotFound(e.n.UUID)
	}
	if err := s.lock(e, conductorName); err != nil {
		return nil, asAPIError(err, http.StatusConflict)
	}
	return &task{s: s, c: s.conductor, e: e}, nil
}

// lock gives a node to a conductor. s.mu must be held.
func (s *Sim) lock(e *entry, conductor string) error {
	lock := e.n.Node
	if err := lock.Lock(conductor); err != nil {
		return err
	}
	s.update(e, func(n *node) { n.Node = lock })
	return nil
}

// alive reports whether the conductor that runs the task still does.
// s.mu must be held.
func (t *task) alive() bool { return t.s.conductor == t.c && t.c.ctx.Err() == nil }

// node is the node as it is now.
func (t *task) node() *node { return t.s.current(t.e) }

// save writes to the node, unless the conductor was killed meanwhile.
func (t *task) save(change func(n *node)) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if t.alive() {
		t.s.update(t.e, change)
	}
}

// release gives the lock back.
func (t *task) release() { t.save(func(n *node) { n.Unlock() }) }

// sleep waits; it reports false when the conductor was killed meanwhile.
func (t *task) sleep(d time.Duration) bool { return sleep(t.c.ctx, d) }

// move moves the node by a transition of the state machine, writing whatever
// change adds in the same save. It reports false where the machine has none.
func (t *task) move(transition func(n *fsm.Node) bool, change func(n *node)) bool {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	moved := t.e.n.Node
	if !transition(&moved) {
		return false
	}
	if t.alive() {
		t.s.update(t.e, func(n *node) {
			n.Node = moved
			if change != nil {
				change(n)
			}
		})
	}
	return true
}

// event moves the node by an event.
func (t *task) event(event string) bool {
	return t.move(func(n *fsm.Node) bool { return t.s.machine.Move(n, event) }, nil)
}

// done ends the work on the node.
func (t *task) done(change func(n *node)) bool { return t.move(t.s.machine.Done, change) }

// explain records what has gone wrong with the node, in the history and with change.
func (t *task) explain(eventType, text string, change func(n *node)) {
	t.logError(eventType, text)
	t.save(change)
}

// fail moves the node to the failed state of its work and says why in the same
// write.
func (t *task) fail(eventType, text string, change func(n *node)) {
	t.logError(eventType, text)
	t.move(t.s.machine.Fail, func(n *node) {
		n.LastError = text
		if change != nil {
			change(n)
		}
	})
}

// logError adds to the history of the node.
func (t *task) logError(eventType, text string) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if t.alive() && !t.e.gone {
		t.s.record(t.e, eventType, text)
	}
}

// planned takes the failure that FailNext asked for in this phase, if any.
func (t *task) planned(phase string) string {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	text := t.e.failNext[phase]
	delete(t.e.failNext, phase)
	return text
}

// run starts the rest of the operation in a worker, which releases the lock. If
// there is none, it undoes what the request has changed so far and answers 503.
func (t *task) run(work func(), undo func(n *node)) error {
	t.s.mu.Lock()
	if !t.alive() {
		t.s.mu.Unlock()
		return errConductorDown()
	}
	if t.c.free == 0 {
		const text = "No free conductor workers available"
		t.s.record(t.e, "provisioning", text)
		t.s.update(t.e, func(n *node) {
			undo(n)
			n.LastError, n.Reservation = text, ""
		})
		t.s.mu.Unlock()
		return errNoWorker()
	}
	t.c.free--
	t.s.mu.Unlock()
	t.s.spawn(func() {
		work()
		t.release()
		t.s.mu.Lock()
		t.c.free++
		t.s.mu.Unlock()
	})
	return nil
}

// begin starts what a verb asks for, which the machine has admitted, and runs work.
func (t *task) begin(verb string, work func()) error {
	before := t.node()
	t.move(func(n *fsm.Node) bool { return t.s.machine.Start(n, verb) }, nil)
	return t.run(work, func(n *node) {
		n.ProvisionState, n.TargetProvisionState = before.ProvisionState, before.TargetProvisionState
	})
}

// reject gives the lock back and passes the error on.
func (t *task) reject(err error) error {
	t.release()
	return err
}
