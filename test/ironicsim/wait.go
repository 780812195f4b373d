// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"context"
	"fmt"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// wait moves the node into a wait state, gives the lock back and leaves the rest
// to the ramdisk, which may be simulated: then resume goes on after RamdiskDelay.
// Without one, the node fails after CallbackTimeout.
func (t *task) wait(simulated bool, resume func()) {
	if !t.event("wait") {
		return
	}
	s, e := t.s, t.e
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.gone || !fsm.IsWaiting(e.n.ProvisionState) {
		return
	}
	e.goOn = nil
	if simulated && e.ramdiskHeld {
		simulated, e.goOn = false, resume
	}
	state := e.n.ProvisionState
	ctx, cancel := context.WithCancel(s.ctx)
	e.waitCancel = cancel
	s.spawn(func() {
		defer cancel()
		if !simulated {
			s.timeOut(ctx, e, state)
		} else if sleep(ctx, s.opts.RamdiskDelay) {
			resume()
		}
	})
}

// timeOut fails a node whose ramdisk does not call back in a state, after CallbackTimeout.
func (s *Sim) timeOut(ctx context.Context, e *entry, state string) {
	if !sleep(ctx, s.opts.CallbackTimeout) {
		return
	}
	t, err := s.acquire(e, false)
	if err != nil {
		return // locked or gone: Ironic's periodic task skips it, too
	}
	defer t.release()
	const inSteps = "Timeout reached while %[1]s the node. Please check if the ramdisk responsible for the %[1]s is running on the node. Failed on step {}."
	switch n := t.node(); {
	case n.ProvisionState != state:
	case state == fsm.CleanWait:
		t.cleanFailed(fmt.Sprintf(inSteps, "cleaning"), false)
	case state == fsm.ServiceWait:
		t.serviceFailed(fmt.Sprintf(inSteps, "servicing"), false)
	case state == fsm.DeployWait:
		t.deployFailed(fmt.Sprintf("Timeout reached while waiting for callback for node %s", n.UUID))
	case state == fsm.InspectWait:
		t.inspectFailed("timeout reached while inspecting the node")
	}
}

// resume goes on in a node that waits, when its ramdisk has called back. Like a
// ramdisk, it tries again while the node is locked.
func (t *task) resume(work func(*task)) {
	s := t.s
	for {
		late, err := s.acquire(t.e, true)
		if err == nil {
			if !late.event("resume") {
				late.release()
				return
			}
			work(late)
			late.release()
			return
		}
		if !sleep(s.ctx, s.opts.LockRetryInterval) {
			return
		}
		s.mu.RLock()
		over := t.e.gone || !fsm.IsWaiting(t.e.n.ProvisionState)
		s.mu.RUnlock()
		if over {
			return
		}
	}
}
