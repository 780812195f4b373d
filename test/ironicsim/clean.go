// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"cmp"
	"fmt"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// bootsRamdisk reports whether the node's deploy interface works through an
// agent in a ramdisk; the fake one does not.
func bootsRamdisk(n *node) bool { return n.deployInterface != "fake" }

// clean is do_node_clean for automated cleaning, in a node that is cleaning.
func (t *task) clean() {
	n := t.node()
	if n.automatedClean != nil && !*n.automatedClean {
		t.done(func(n *node) { n.cleanStep = emptyObject })
		return
	}
	if err := cmp.Or(validatePower(n), t.s.validateNetwork(n)); err != nil {
		t.cleanFailed(fmt.Sprintf("Validation of node %s for cleaning failed: %v", n.UUID, err), false)
		return
	}
	step := map[string]any{"interface": "vendor", "step": "log_passthrough"}
	if bootsRamdisk(n) { // with erase_devices_priority 0, as Metal3's Ironic
		step = map[string]any{"interface": "deploy", "step": "erase_devices_metadata"}
	}
	cleaning.start(t, []any{step})
}

// startManualClean is the clean verb.
func (t *task) startManualClean(steps []any) error {
	n := t.node()
	if err := cmp.Or(validatePower(n), t.s.validateNetwork(n)); err != nil {
		return t.reject(badRequest("Validation of node %s for cleaning failed: %v", n.UUID, err))
	}
	return t.begin("clean", func() { cleaning.start(t, steps) })
}

// bootRamdisk starts the machine into the ramdisk.
func (t *task) bootRamdisk() error {
	if err := t.s.validateRamdisk(t.node()); err != nil {
		return err
	}
	return t.powerAction(fsm.Reboot, 0)
}

// leaveRamdisk switches a machine to what Ironic leaves it at when the work is over
// for which it has booted the ramdisk.
func (t *task) leaveRamdisk() error {
	return t.powerAction(t.node().PowerAfter(), 0)
}

// cleanDone ends cleaning, which switches a machine off that has booted the ramdisk.
func (t *task) cleanDone() {
	if bootsRamdisk(t.node()) {
		if err := t.leaveRamdisk(); err != nil {
			t.cleanFailed(fmt.Sprintf("Failed to tear down from cleaning for node %s, reason: %v", t.node().UUID, err), false)
			return
		}
	}
	t.done(func(n *node) { n.cleanStep = emptyObject; n.noSteps("clean") })
}

// tearDownCleaning switches a node off that has booted the ramdisk. If the BMC
// does not obey, that is one more line in Ironic's log.
func (t *task) tearDownCleaning() {
	if n := t.node(); bootsRamdisk(n) && n.ProvisionState == fsm.CleanFail {
		_ = t.leaveRamdisk()
	}
}

// cleanFailed moves the node to clean failed; when it was in a step, into
// maintenance as well. The error text follows the state, so that a reader can
// see the one without the other while the node is still locked.
func (t *task) cleanFailed(text string, inStep bool) {
	if !t.move(t.s.machine.Fail, nil) {
		return
	}
	if !t.sleep(errorLag) {
		return
	}
	t.tearDownCleaning()
	t.explain("cleaning", text, func(n *node) {
		n.LastError = text
		n.cleanStep = emptyObject
		n.driverInternalInfo = newSecretObject(n.driverInternalInfo.without("clean_step_index")) // the list stays
		if inStep {
			n.BreakDown()
		}
	})
}

// atStep notes in driver_internal_info which of the steps of a flow (clean, deploy or service) is
// the current one.
func (n *node) atStep(flow string, steps []any, index int) {
	info := n.driverInternalInfo.with(flow+"_steps", steps)
	info[flow+"_step_index"] = index
	n.driverInternalInfo = newSecretObject(info)
}

// noSteps is what remains of a flow that has succeeded.
func (n *node) noSteps(flow string) {
	info := n.driverInternalInfo.without(flow+"_step_index", "steps_validated")
	info[flow+"_steps"] = nil
	n.driverInternalInfo = newSecretObject(info)
}
