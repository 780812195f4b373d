package ironicsim

import (
	"fmt"
	"slices"
	"time"
)

var powerTargets = []string{powerOn, powerOff, reboot, softReboot, softPowerOff}

// putPower is PUT /v1/nodes/X/states/power.
func (s *Sim) putPower(c *call) error {
	target, err := c.required("target")
	if err != nil {
		return err
	}
	timeout, given, err := c.intArg("timeout")
	if err != nil {
		return err
	}
	e, n, err := s.nodeArg(c)
	if err != nil {
		return err
	}
	soft := target == softReboot || target == softPowerOff
	if (soft || timeout != 0) && c.minor < 27 {
		return errNotAcceptable()
	}
	if given && timeout < 1 {
		return badRequest("timeout has to be positive integer")
	}
	if !slices.Contains(powerTargets, target) {
		return errInvalidState(orNone(target), c.path["node"], orNone(n.powerState))
	}
	if n.provisionState == stCleaning || n.provisionState == stCleanWait {
		return errInvalidState(target, c.path["node"], n.provisionState)
	}
	if (target == powerOff || target == softPowerOff) && n.disablePowerOff {
		return conflict("Failed to set node power state to %s.", target)
	}

	t, err := s.acquire(e, false)
	if err != nil {
		return err
	}
	n = t.node()
	if err := validatePower(n); err != nil {
		return t.reject(err)
	}
	if soft && slices.Contains(s.opts.NoSoftPowerOff, n.driver) {
		return t.reject(badRequest("The driver %s does not support the power state, %s", n.driver, target))
	}
	before := n.powerState
	t.save(func(n *node) { n.targetPowerState, n.lastError = powerGoal(target), "" })
	err = t.run(
		func() { t.powerAction(target, time.Duration(timeout)*time.Second) },
		func(n *node) { n.powerState, n.targetPowerState = before, "" })
	if err != nil {
		return err
	}
	c.location("nodes/" + c.path["node"] + "/states")
	return c.accepted()
}

func orNone(s string) string {
	if s == "" {
		return "None"
	}
	return s
}

// powerGoal is the power state that a target leads to.
func powerGoal(target string) string {
	if target == powerOff || target == softPowerOff {
		return powerOff
	}
	return powerOn
}

// powerAction is node_power_action: it changes the power state, records what
// goes wrong in last_error, and returns it too. A zero timeout stands for the default.
func (t *task) powerAction(target string, timeout time.Duration) error {
	s, goal := t.s, powerGoal(target)
	if timeout == 0 {
		timeout = s.opts.PowerChangeTimeout
		if target == softPowerOff || target == softReboot {
			timeout = s.opts.SoftPowerOffTimeout
		}
	}
	if limit := s.opts.MaxPowerTimeout; limit > 0 {
		timeout = min(timeout, limit)
	}
	if goal == powerOff && t.node().disablePowerOff {
		return pythonError("Failed to set node power state to %s.", target)
	}
	if target == powerOn || target == powerOff || target == softPowerOff {
		state, err := s.readPower(t.c.ctx, t.node())
		if err != nil {
			t.fail("", "", fmt.Sprintf("Failed to change power state to '%s': %v", target, err), func(n *node) { n.targetPowerState = "" })
			return err
		}
		if state == goal {
			t.save(func(n *node) { n.lastError, n.powerState, n.targetPowerState = "", state, "" })
			return nil
		}
	}
	t.save(func(n *node) {
		n.targetPowerState = goal
		if !failureState(n.provisionState) {
			n.lastError = ""
		}
		n.driverInternalInfo = newSecretObject(n.driverInternalInfo.with("last_power_state_change", t.s.timeFor(t.e).Format("2006-01-02T15:04:05.000000")))
	})
	if err := t.switchTo(target, timeout); err != nil {
		text := fmt.Sprintf("Failed to change power state to '%s' by '%s': %v", goal, target, err)
		t.fail("", "", text, func(n *node) { n.targetPowerState = "" })
		return err
	}
	t.save(func(n *node) { n.powerState, n.targetPowerState = goal, "" })
	return nil
}

func (t *task) switchTo(target string, timeout time.Duration) error {
	if text := t.planned("power"); text != "" {
		return pythonError("%s", text)
	}
	n := t.node()
	if err := t.relatives(n, target); err != nil {
		return err
	}
	switch target {
	case reboot:
		state, err := t.s.readPower(t.c.ctx, n)
		if err != nil {
			return err
		}
		if state == powerOn && !n.disablePowerOff {
			if err := t.s.switchPower(t.c.ctx, n, powerOff, timeout); err != nil {
				return err
			}
		}
		return t.s.switchPower(t.c.ctx, n, powerOn, timeout)
	case softReboot:
		if err := t.s.switchPower(t.c.ctx, n, softPowerOff, timeout); err != nil {
			return err
		}
		return t.s.switchPower(t.c.ctx, n, powerOn, timeout)
	}
	return t.s.switchPower(t.c.ctx, n, target, timeout)
}

// relatives is the part of a power change that concerns parent and child nodes.
// Only one case is simulated, which Ironic 29.0.5 brings about with each PATCH: a
// node that is its own parent waits for the lock that it holds itself. A node
// with has_dedicated_power_supply in driver_info is spared.
func (t *task) relatives(n *node, target string) error {
	dedicated, _ := n.driverInfo.fields["has_dedicated_power_supply"].(bool)
	if n.parentNode != n.uuid || dedicated || target != powerOn && target != powerOff {
		return nil
	}
	if !t.sleep(time.Duration(t.s.opts.LockRetryAttempts-1) * t.s.opts.LockRetryInterval) {
		return errKilled
	}
	relative := "parent_node"
	if target == powerOff {
		relative = "child_node"
	}
	return pythonError("Node %s %s %s is presently locked and we are unable to perform any action on it at this time. Please retry after the current operation is completed.", n.uuid, relative, n.uuid)
}

func failureState(state string) bool {
	switch state {
	case stDeployFail, stCleanFail, stInspectFail, stRescueFail, stUnrescueFail, stAdoptFail, stServiceFail:
		return true
	}
	return false
}
