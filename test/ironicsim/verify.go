// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"fmt"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// verify is do_node_verify: enroll to manageable, or back.
func (t *task) verify() {
	s := t.s
	if !t.sleep(s.opts.Delays.Verify) {
		return
	}
	n := t.node()
	if text := t.planned("verify"); text != "" {
		t.fail("verify", fmt.Sprintf("Failed to get power state for node %s. Error: %s", n.UUID, text), nil)
		return
	}
	if err := validatePower(n); err != nil {
		t.fail("verify", fmt.Sprintf("Failed to validate power driver interface for node %s. Error: %v", n.UUID, err), nil)
		return
	}
	state, err := s.readPower(t.c.ctx, n)
	if err != nil {
		t.fail("verify", fmt.Sprintf("Failed to get power state for node %s. Error: %v", n.UUID, err), nil)
		return
	}
	t.updateCache()
	t.move(func(n *fsm.Node) bool { return s.machine.Verified(n, state) }, nil)
}

// adopt takes a node over that another tool has installed.
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
		t.fail("adoption", fmt.Sprintf("Error while attempting to adopt node %s: %s.", n.UUID, text), nil)
		return
	}
	t.done(nil)
}

// abort ends a wait state, or a service that has failed, at the user's request.
func (t *task) abort() error {
	before := t.node()
	switch before.ProvisionState {
	case fsm.CleanWait, fsm.CleanHold:
		if t.abortAfter(cleaning) {
			return nil
		}
	case fsm.ServiceWait:
		if t.s.machine.AbortsService() && t.abortAfter(servicing) {
			return nil
		}
	}
	works := false
	t.move(func(n *fsm.Node) bool { works = t.s.machine.Start(n, "abort"); return true }, nil)
	if before.ProvisionState == fsm.InspectWait {
		t.logError("introspection", t.node().LastError)
	}
	if !works {
		t.release()
		return nil
	}
	return t.run(func() {
		if !isCleaned(before) {
			t.leaveService("By request, the service operation was aborted")
			return
		}
		text := t.node().LastError
		if t.sleep(t.s.opts.Delays.Clean) {
			t.tearDownCleaning()
			t.save(func(n *node) { n.cleanStep, n.LastError = emptyObject, text })
		}
	}, func(n *node) {
		n.ProvisionState, n.TargetProvisionState = before.ProvisionState, before.TargetProvisionState
	})
}

func isCleaned(n *node) bool {
	return n.ProvisionState == fsm.CleanWait || n.ProvisionState == fsm.CleanHold
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
