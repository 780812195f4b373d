// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// stepFlow is a run of steps: cleaning or servicing.
type stepFlow struct {
	// name is clean or service, as in clean_step and clean_steps.
	name  string
	delay func(d Delays) time.Duration
	// current is the column with the step that runs.
	current func(n *node) **object
	fail    func(t *task, text string, inStep bool)
	done    func(t *task)
}

var cleaning, servicing *stepFlow

func init() { // they refer to functions that refer to them
	cleaning = &stepFlow{
		name: "clean", delay: func(d Delays) time.Duration { return d.Clean }, current: func(n *node) **object { return &n.cleanStep },
		fail: (*task).cleanFailed, done: (*task).cleanDone,
	}
	servicing = &stepFlow{
		name: "service", delay: func(d Delays) time.Duration { return d.Service }, current: func(n *node) **object { return &n.serviceStep },
		fail: (*task).serviceFailed, done: (*task).serviceDone,
	}
}

func stepID(step map[string]any) string { return fmt.Sprintf("%v.%v", step["interface"], step["step"]) }

// supportedSteps are the steps of each implementation of an interface that can be asked for. Those of the ramdisk
// are under agent.
var supportedSteps = map[string]map[string][]string{
	"clean": {
		"bios.fake": {"apply_configuration", "factory_reset"}, "bios.redfish": {"apply_configuration", "factory_reset"},
		"firmware.fake": {"update"}, "firmware.redfish": {"update"},
		"raid.redfish": {"create_configuration", "delete_configuration"}, "raid.agent": {"create_configuration", "delete_configuration"},
		"deploy.agent": {"erase_devices", "erase_devices_metadata", "erase_devices_express", "burnin_cpu"},
		"vendor.fake":  {"log_passthrough"},
	},
	"service": {
		"bios.redfish": {"apply_configuration"}, "firmware.redfish": {"update"},
		"raid.redfish": {"apply_configuration", "delete_configuration"}, "raid.agent": {"apply_configuration"},
		"deploy.agent": {"burnin_cpu"},
		"vendor.fake":  {"log_passthrough", "trigger_servicewait"},
	},
}

// reservedSteps are steps of any interface that Ironic executes itself: power actions.
var reservedSteps = map[string]string{"power_on": fsm.PowerOn, "power_off": fsm.PowerOff, "reboot": fsm.Reboot}

// supports reports whether a node has a step.
func (f *stepFlow) supports(n *node, step map[string]any) bool {
	kind, name, _ := strings.Cut(stepID(step), ".")
	if _, reserved := reservedSteps[name]; reserved {
		return true
	}
	if !slices.Contains(interfaceKinds, kind) {
		return false
	}
	implementation := *interfaceOf(n, kind)
	if kind == "deploy" && bootsRamdisk(n) {
		implementation = "agent"
	}
	return slices.Contains(supportedSteps[f.name][kind+"."+implementation], name)
}

// outOfBand reports whether a step is the BMC's work. All of them need a reset of the machine, in which Ironic waits.
func outOfBand(n *node, step map[string]any) bool {
	kind, _ := step["interface"].(string)
	return slices.Contains([]string{"bios", "firmware", "raid"}, kind) && *interfaceOf(n, kind) == "redfish"
}

// start runs the steps, after it has booted the ramdisk where there is one.
func (f *stepFlow) start(t *task, steps []any) {
	t.updateCache()
	n := t.node()
	if !bootsRamdisk(n) || f.spared(t, steps) {
		f.check(t, steps)
		return
	}
	if err := t.bootRamdisk(); err != nil {
		f.fail(t, fmt.Sprintf("Failed to prepare node %s for %s: %v", n.UUID, f.gerund(), err), false)
		return
	}
	f.wait(t, func(t *task) { f.check(t, steps) })
}

func (f *stepFlow) gerund() string {
	if f == cleaning {
		return "cleaning"
	}
	return "service"
}

// spared reports whether the steps do without a ramdisk: Ironic 32 and later boot none to service a node with
// steps that are the BMC's work.
func (f *stepFlow) spared(t *task, steps []any) bool {
	n := t.node()
	return f == servicing && t.s.minor >= fsm.Ironic32 && !slices.ContainsFunc(steps, func(step any) bool { return !outOfBand(n, step.(map[string]any)) })
}

// wait waits for the ramdisk and then goes on with work.
func (f *stepFlow) wait(t *task, work func(*task)) {
	t.wait(t.s.opts.AutoDeploy, func() { t.resume(work) })
}

func (f *stepFlow) check(t *task, steps []any) {
	n := t.node()
	for _, s := range steps {
		step := s.(map[string]any) // checkSteps has seen to it
		if !f.supports(n, step) {
			f.fail(t, fmt.Sprintf("Cannot %s node %s: node does not support this %s step: %s", f.name, n.UUID, f.name, pyRepr(step, true)), false)
			return
		}
	}
	f.run(t, steps, 0)
}

// run executes the steps from an index on.
func (f *stepFlow) run(t *task, steps []any, from int) {
	for i := from; i < len(steps); i++ {
		if i > from && f.abortedAfter(t, steps) {
			return
		}
		step := maps.Clone(steps[i].(map[string]any))
		id := stepID(step)
		step["abortable"], step["priority"] = false, 0
		t.save(func(n *node) { *f.current(n) = newObject(step); n.atStep(f.name, steps, i) })
		if !t.sleep(f.delay(t.s.opts.Delays)) {
			return
		}
		if id == "vendor.trigger_servicewait" {
			t.wait(false, nil)
			return
		}
		if touchesDisks(id) {
			t.touchDisks(id)
		}
		text := t.planned(f.name)
		if text == "" {
			text = t.planned(id)
		}
		if text == "" {
			text = t.applyStep(step)
		}
		if text != "" {
			f.fail(t, fmt.Sprintf("Node %s failed step %s: %s", t.node().UUID, pyRepr(step, true), text), true)
			return
		}
		if outOfBand(t.node(), step) && bootsRamdisk(t.node()) {
			if err := t.powerAction(fsm.Reboot, 0); err != nil {
				f.fail(t, fmt.Sprintf("Node %s failed step %s: %v", t.node().UUID, pyRepr(step, true), err), true)
				return
			}
			f.wait(t, func(t *task) {
				if !f.abortedAfter(t, steps[i:]) {
					f.run(t, steps, i+1)
				}
			})
			return
		}
	}
	t.updateCache()
	f.done(t)
}

// abortedAfter aborts if that was asked for while a step ran that cannot be aborted. After the last step it is too
// late.
func (f *stepFlow) abortedAfter(t *task, left []any) bool {
	step := (*f.current(t.node())).fields
	if after, _ := step["abort_after"].(bool); !after || len(left) < 2 {
		return false
	}
	text := fmt.Sprintf(`By request, the %s operation was aborted during or after the completion of step "%s"`, f.name, stepID(step))
	t.move(t.s.machine.Fail, func(n *node) { n.LastError = text; *f.current(n) = emptyObject; n.noSteps(f.name) })
	if f == cleaning {
		t.tearDownCleaning()
	} else {
		t.leaveService(text)
	}
	return true
}

// applyStep executes a step of the BMC or of RAID. It returns what went wrong.
func (t *task) applyStep(step map[string]any) string {
	args, _ := step["args"].(map[string]any)
	name, _ := step["step"].(string)
	if target, reserved := reservedSteps[name]; reserved {
		if target == fsm.PowerOn && t.node().PowerState == fsm.PowerOn {
			return ""
		}
		if err := t.powerAction(target, 0); err != nil {
			return err.Error()
		}
		return ""
	}
	switch step["interface"] {
	case "bios":
		return t.biosStep(name, args)
	case "firmware":
		return t.firmwareStep(args)
	case "raid":
		return t.raidStep(name, args)
	}
	return ""
}
