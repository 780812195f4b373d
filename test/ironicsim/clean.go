package ironicsim

import (
	"fmt"
	"maps"
)

// bootsRamdisk reports whether the node's deploy interface works through an
// agent in a ramdisk; the fake one does not.
func bootsRamdisk(n *node) bool { return n.deployInterface != "fake" }

// clean is do_node_clean for automated cleaning, in a node that is cleaning.
func (t *task) clean() {
	n := t.node()
	if t.s.opts.NoAutomatedClean || n.automatedClean != nil && !*n.automatedClean {
		t.event("done", "", func(n *node) { n.cleanStep = emptyObject })
		return
	}
	if err := validatePower(n); err != nil {
		t.cleanFailed(fmt.Sprintf("Validation of node %s for cleaning failed: %v", n.uuid, err), false)
		return
	}
	step := map[string]any{"interface": "vendor", "step": "log_passthrough"}
	if bootsRamdisk(n) { // with erase_devices_priority 0, as Metal3's Ironic
		step = map[string]any{"interface": "deploy", "step": "erase_devices_metadata"}
	}
	t.cleanSteps([]any{step})
}

// startManualClean is the clean verb.
func (t *task) startManualClean(steps []any) error {
	n := t.node()
	if n.maintenance {
		return t.reject(errInMaintenance("cleaning", n.uuid))
	}
	if err := validatePower(n); err != nil {
		return t.reject(badRequest("Validation of node %s for cleaning failed: %v", n.uuid, err))
	}
	return t.begin("clean", stManageable, func() { t.cleanSteps(steps) })
}

// cleanSteps boots the ramdisk where there is one, and runs the steps.
func (t *task) cleanSteps(steps []any) {
	n := t.node()
	if !bootsRamdisk(n) {
		t.runCleanSteps(steps)
		return
	}
	if err := t.bootRamdisk(); err != nil {
		t.cleanFailed(fmt.Sprintf("Failed to prepare node %s for cleaning: %v", n.uuid, err), false)
		return
	}
	t.wait(t.s.opts.AutoDeploy, func() {
		t.resume(func(t *task) {
			t.runCleanSteps(steps)
			// Tearing down cleaning switches the node off.
		}, powerOff)
	}, func(late *task) {
		late.cleanFailed("Timeout reached while cleaning the node. Please check if the ramdisk responsible for the cleaning is running on the node. Failed on step {}.", false)
	})
}

// bootRamdisk starts the machine into the ramdisk.
func (t *task) bootRamdisk() error {
	if err := t.s.validateRamdisk(t.node()); err != nil {
		return err
	}
	return t.powerAction(reboot, 0)
}

// resume goes on in a node that waits, when its ramdisk has called back. Like a
// ramdisk, it tries again while the node is locked.
func (t *task) resume(work func(*task), finally string) {
	s := t.s
	for {
		late, err := s.acquire(t.e, true)
		if err == nil {
			if !late.event("resume", late.manualTarget(), nil) {
				late.release()
				return
			}
			if finally != "" {
				if err := late.powerAction(finally, 0); err != nil {
					late.release()
					return
				}
			}
			work(late)
			late.release()
			return
		}
		if !sleep(s.ctx, s.opts.LockRetryInterval) {
			return
		}
		s.mu.RLock()
		over := t.e.gone || !waiting(t.e.n.provisionState)
		s.mu.RUnlock()
		if over {
			return
		}
	}
}

// knownSteps are the clean and service steps of the fake interfaces.
var knownSteps = map[string]bool{
	"vendor.log_passthrough": true, "vendor.trigger_servicewait": true, "bios.apply_configuration": true,
	"bios.factory_reset": true, "bios.cache_bios_settings": true, "firmware.update": true,
	"raid.create_configuration": true, "raid.delete_configuration": true, "deploy.erase_devices": true,
	"deploy.erase_devices_metadata": true,
}

func stepID(step map[string]any) string { return fmt.Sprintf("%v.%v", step["interface"], step["step"]) }

func (t *task) runCleanSteps(steps []any) {
	n := t.node()
	for _, s := range steps {
		step := s.(map[string]any) // checkSteps has seen to it
		if !knownSteps[stepID(step)] || stepID(step) == "vendor.trigger_servicewait" {
			t.cleanFailed(fmt.Sprintf("Cannot clean node %s: node does not support this clean step: %s", n.uuid, pyRepr(step, true)), false)
			return
		}
	}
	for i, s := range steps {
		step := maps.Clone(s.(map[string]any))
		step["abortable"], step["priority"] = false, 0
		t.save(func(n *node) { n.cleanStep = newObject(step); n.atStep("clean", steps, i) })
		if !t.sleep(t.s.opts.Delays.Clean) {
			return
		}
		if id := stepID(step); touchesDisks(id) {
			t.touchDisks(id)
		}
		text := t.planned("clean")
		if text == "" {
			text = t.applyStep(step)
		}
		if text != "" {
			t.cleanFailed(fmt.Sprintf("Node %s failed step %s: %s", n.uuid, pyRepr(step, true), text), true)
			return
		}
	}
	event := "done"
	if t.node().targetProvisionState == stManageable || t.node().retired {
		event = "manage"
	}
	t.event(event, "", func(n *node) { n.cleanStep = emptyObject; n.noSteps("clean") })
}

// applyStep has an effect for BIOS settings only. It returns what went wrong.
func (t *task) applyStep(step map[string]any) string {
	switch stepID(step) {
	case "bios.factory_reset":
		t.s.mu.Lock()
		t.e.bios = nil
		t.s.mu.Unlock()
	case "bios.apply_configuration":
		args, _ := step["args"].(map[string]any)
		settings, _ := args["settings"].([]any)
		var applied []map[string]any
		for _, s := range settings {
			m, _ := s.(map[string]any)
			name, ok := m["name"].(string)
			if !ok {
				return "'name'" // Python's KeyError
			}
			applied = append(applied, map[string]any{"name": name, "value": textOf(m["value"])})
		}
		t.s.mu.Lock()
		t.e.bios = applied
		t.s.mu.Unlock()
	}
	return ""
}

// tearDownCleaning switches a node off that has booted the ramdisk. If the BMC
// does not obey, that is one more line in Ironic's log.
func (t *task) tearDownCleaning() {
	if n := t.node(); bootsRamdisk(n) && n.provisionState == stCleanFail {
		_ = t.powerAction(powerOff, 0)
	}
}

// cleanFailed moves the node to clean failed; when it was in a step, into
// maintenance as well. The error text follows the state, so that a reader can
// see the one without the other while the node is still locked.
func (t *task) cleanFailed(text string, inStep bool) {
	if !t.event("fail", t.manualTarget(), nil) {
		return
	}
	if !t.sleep(errorLag) {
		return
	}
	t.tearDownCleaning()
	t.fail("cleaning", "", text, func(n *node) {
		n.cleanStep = emptyObject
		n.driverInternalInfo = newSecretObject(n.driverInternalInfo.without("clean_step_index")) // the list stays
		if inStep {
			n.maintenance, n.fault = true, "clean failure"
			if n.maintenanceReason == "" {
				n.maintenanceReason = text
			}
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
