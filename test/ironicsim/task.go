package ironicsim

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"
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

// RestartConductor starts the conductor again: it takes its locks away and
// fails what cannot be resumed. Nodes that wait for a ramdisk go on waiting.
func (s *Sim) RestartConductor() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conductor != nil || s.ctx.Err() != nil {
		return
	}
	s.startConductor()
	for _, e := range s.nodes {
		if e.n.reservation == s.opts.Conductor {
			s.update(e, func(n *node) { n.reservation, n.targetPowerState = "", "" })
		}
		state := e.n.provisionState
		if e.n.reservation == "" && slices.Contains(stuckAsFail, state) {
			text := fmt.Sprintf("The %s state can't be resumed by conductor %s. Moving to fail state.", state, s.opts.Conductor)
			s.record(e, "transition", text)
			s.update(e, func(n *node) {
				n.provisionState, n.targetProvisionState, _ = next(state, n.targetProvisionState, "fail", "")
				n.lastError = text
			})
		}
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
		if once || attempt >= s.opts.LockRetryAttempts || err.code != http.StatusConflict {
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
		return nil, errNodeNotFound(e.n.uuid)
	}
	if e.n.reservation != "" {
		return nil, errLocked(e.n.uuid, e.n.reservation)
	}
	s.update(e, func(n *node) { n.reservation = s.opts.Conductor })
	return &task{s: s, c: s.conductor, e: e}, nil
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
func (t *task) release() { t.save(func(n *node) { n.reservation = "" }) }

// sleep waits; it reports false when the conductor was killed meanwhile.
func (t *task) sleep(d time.Duration) bool { return sleep(t.c.ctx, d) }

// event moves the node through the state machine, writing whatever change adds
// in the same save. It reports false where the machine has no such event.
func (t *task) event(event, target string, change func(n *node)) bool {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	n := t.e.n
	state, newTarget, ok := next(n.provisionState, n.targetProvisionState, event, target)
	if !ok || !t.alive() {
		return ok
	}
	t.s.update(t.e, func(n *node) {
		n.provisionState, n.targetProvisionState = state, newTarget
		if change != nil {
			change(n)
		}
	})
	return true
}

// fail records an error of the node; with event it moves the node to the
// failed state in the same write.
func (t *task) fail(eventType, event, text string, change func(n *node)) {
	t.s.mu.Lock()
	if t.alive() && !t.e.gone {
		t.s.record(t.e, eventType, text)
	}
	t.s.mu.Unlock()
	set := func(n *node) {
		n.lastError = text
		if change != nil {
			change(n)
		}
	}
	if event == "" {
		t.save(set)
	} else {
		t.event(event, t.manualTarget(), set)
	}
}

// manualTarget keeps the target of manual cleaning, which is not the machine's own.
func (t *task) manualTarget() string {
	n := t.node()
	if n.targetProvisionState == stManageable && (n.provisionState == stCleaning || n.provisionState == stCleanWait) {
		return stManageable
	}
	return ""
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
			n.lastError, n.reservation = text, ""
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

// begin moves the node by event and runs work. It clears last_error, as each
// start of an operation does.
func (t *task) begin(event, target string, work func()) error {
	before := t.node()
	if !t.event(event, target, func(n *node) { n.lastError = "" }) {
		t.release()
		return errInvalidState(event, before.uuid, before.provisionState)
	}
	return t.run(work, func(n *node) {
		n.provisionState, n.targetProvisionState = before.provisionState, before.targetProvisionState
	})
}

// reject gives the lock back and passes the error on.
func (t *task) reject(err error) error {
	t.release()
	return err
}
