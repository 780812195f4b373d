package ironicsim

import (
	"context"
	"fmt"
)

// verify is do_node_verify: enroll to manageable, or back.
func (t *task) verify() {
	s := t.s
	if !t.sleep(s.opts.Delays.Verify) {
		return
	}
	n := t.node()
	if text := t.planned("verify"); text != "" {
		t.fail("verify", "fail", fmt.Sprintf("Failed to get power state for node %s. Error: %s", n.uuid, text), nil)
		return
	}
	if err := validatePower(n); err != nil {
		t.fail("verify", "fail", fmt.Sprintf("Failed to validate power driver interface for node %s. Error: %v", n.uuid, err), nil)
		return
	}
	state, err := s.readPower(t.c.ctx, n)
	if err != nil {
		t.fail("verify", "fail", fmt.Sprintf("Failed to get power state for node %s. Error: %v", n.uuid, err), nil)
		return
	}
	t.updateCache()
	t.event("done", "", func(n *node) { n.powerState = state })
}

// adopt takes a node over that somebody else has installed.
func (t *task) adopt() {
	if !t.sleep(t.s.opts.Delays.Adopt) {
		return
	}
	n := t.node()
	text := t.planned("adopt")
	if text == "" && bootsISO(n) { // a node that boots from its disk needs nothing of us
		if err := t.s.validateBoot(n); err != nil {
			text = err.Error()
		}
	}
	if text != "" {
		t.fail("adoption", "fail", fmt.Sprintf("Error while attempting to adopt node %s: %s.", n.uuid, text),
			func(n *node) { n.powerState = "" })
		return
	}
	t.event("done", "", nil)
}

// abort ends a wait state at the user's request.
func (t *task) abort() error {
	n := t.node()
	switch n.provisionState {
	case stInspectWait:
		t.fail("introspection", "abort", "Inspection was aborted by request.", nil)
		t.release()
		return nil
	case stCleanWait, stCleanHold:
		if t.abortAfter(cleaning) {
			return nil
		}
		const text = "By request, the clean operation was aborted"
		manual := t.manualTarget()
		if !t.event("abort", manual, func(n *node) { n.lastError = text }) {
			break
		}
		return t.run(func() {
			if t.sleep(t.s.opts.Delays.Clean) {
				t.tearDownCleaning()
				t.save(func(n *node) { n.cleanStep, n.lastError = emptyObject, text })
			}
		}, func(to *node) {
			to.provisionState, to.targetProvisionState = n.provisionState, n.targetProvisionState
		})
	case stServiceWait, stServiceFail:
		if t.s.minor < ironic32 {
			break
		}
		if n.provisionState == stServiceFail && n.maintenance {
			return t.reject(conflict("Can not abort service on node \"%s\" while it is in maintenance mode. Please remove the node from maintenance prior to issuing the request to abort the service operation.", n.uuid))
		}
		if n.provisionState == stServiceWait {
			if t.abortAfter(servicing) {
				return nil
			}
			t.event("fail", "", nil)
		}
		return t.run(func() { t.leaveService("By request, the service operation was aborted") }, func(to *node) { to.provisionState = n.provisionState })
	}
	if n.provisionState != stServiceFail {
		// Of the others, service wait goes to service failed without an error text.
		if t.event("abort", "", nil) {
			t.release()
			return nil
		}
	}
	return t.reject(errInvalidState("abort", n.uuid, n.provisionState))
}

// abortAfter notes an abort of a step that cannot be aborted, and reports whether there is one.
func (t *task) abortAfter(f *stepFlow) bool {
	step := *f.current(t.node())
	if len(step.fields) == 0 {
		return false
	}
	t.save(func(n *node) { *f.current(n) = newObject(step.with("abort_after", true)) })
	t.release()
	return true
}

// startRescue is do_node_rescue. Only the fake rescue interface does anything.
func (t *task) startRescue(password string) error {
	n := t.node()
	if n.maintenance {
		return t.reject(errInMaintenance("rescuing", n.uuid))
	}
	if n.rescueInterface != "fake" {
		return t.reject(fault(500, "Failed to rescue instance %s for node %s: Validation failed: %s",
			orNone(n.instanceUUID), n.uuid, errUnsupported(n.driver, "rescue").text))
	}
	t.save(func(n *node) {
		n.instanceInfo = newSecretObject(n.instanceInfo.with("rescue_password", password))
	})
	return t.begin("rescue", "", func() {
		if t.sleep(t.s.opts.Delays.Rescue) {
			t.event("done", "", nil)
		}
	})
}

// wait moves the node into a wait state, gives the lock back and leaves the rest
// to the ramdisk, which may be simulated: then resume goes on after RamdiskDelay.
// Without one, the node fails with timeout after CallbackTimeout.
func (t *task) wait(simulated bool, resume func(), timeout func(*task)) {
	if !t.event("wait", t.manualTarget(), nil) {
		return
	}
	s, e := t.s, t.e
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.gone || !waiting(e.n.provisionState) {
		return
	}
	e.goOn = nil
	if simulated && e.ramdiskHeld {
		simulated, e.goOn = false, resume
	}
	state := e.n.provisionState
	ctx, cancel := context.WithCancel(s.ctx)
	e.waitCancel = cancel
	s.spawn(func() {
		defer cancel()
		if simulated {
			if sleep(ctx, s.opts.RamdiskDelay) {
				resume()
			}
			return
		}
		if !sleep(ctx, s.opts.CallbackTimeout) {
			return
		}
		late, err := s.acquire(e, false)
		if err != nil {
			return // locked or gone: Ironic's periodic task skips it, too
		}
		if late.node().provisionState == state {
			timeout(late)
		}
		late.release()
	})
}
