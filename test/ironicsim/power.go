// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"fmt"
	"slices"
	"time"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// putPower is PUT /v1/nodes/X/states/power.
func (s *Sim) putPower(c *call) error {
	target, timeout := c.required("target"), c.intArg("timeout", 0)
	if c.refused != nil {
		return c.refused
	}
	e, n, err := s.nodeArg(c)
	if err != nil {
		return err
	}
	soft := target == fsm.SoftReboot || target == fsm.SoftPowerOff
	if c.args["timeout"] != nil && timeout < 1 {
		return badRequest("timeout has to be positive integer")
	}
	if err := n.CheckPower(target, c.path["node"]); err != nil {
		return err
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
	before := n.PowerState
	t.save(func(n *node) { n.AskPower(target) })
	err = t.run(
		func() { t.powerAction(target, time.Duration(timeout)*time.Second) },
		func(n *node) { n.PowerState, n.TargetPowerState = before, "" })
	if err != nil {
		return err
	}
	c.location("nodes/" + c.path["node"] + "/states")
	return c.accepted()
}

// powerAction is node_power_action: it changes the power state, records what
// goes wrong in last_error, and returns it too. A zero timeout stands for the default.
func (t *task) powerAction(target string, timeout time.Duration) error {
	s, goal := t.s, fsm.PowerGoal(target)
	if timeout == 0 {
		timeout = powerChangeTimeout
		if target == fsm.SoftPowerOff || target == fsm.SoftReboot {
			timeout = softPowerOffTimeout
		}
	}
	if limit := s.opts.MaxPowerTimeout; limit > 0 {
		timeout = min(timeout, limit)
	}
	if goal == fsm.PowerOff && t.node().DisablePowerOff {
		return pythonError("Failed to set node power state to %s.", target)
	}
	if target == fsm.PowerOn || target == fsm.PowerOff || target == fsm.SoftPowerOff {
		state, err := s.readPower(t.c.ctx, t.node())
		if err != nil {
			t.powerFailed(fmt.Sprintf("Failed to change power state to '%s': %v", target, err))
			return err
		}
		if state == goal {
			t.save(func(n *node) { n.LastError, n.PowerState, n.TargetPowerState = "", state, "" })
			return nil
		}
	}
	t.save(func(n *node) {
		n.ChangePower(target)
		n.driverInternalInfo = newSecretObject(n.driverInternalInfo.with("last_power_state_change", t.s.timeFor(t.e).Format("2006-01-02T15:04:05.000000")))
	})
	if err := t.switchTo(target, timeout); err != nil {
		text := fmt.Sprintf("Failed to change power state to '%s' by '%s': %v", goal, target, err)
		t.powerFailed(text)
		return err
	}
	t.save(func(n *node) { n.PowerChanged(target) })
	return nil
}

func (t *task) powerFailed(text string) {
	t.explain("", text, func(n *node) { n.PowerFailed(text) })
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
	case fsm.Reboot:
		if n.DisablePowerOff && n.powerInterface == "ipmitool" {
			return t.reset(n, timeout)
		}
		state, err := t.s.readPower(t.c.ctx, n)
		if err != nil {
			return err
		}
		if state == fsm.PowerOn && !n.DisablePowerOff {
			if err := t.s.switchPower(t.c.ctx, n, fsm.PowerOff, timeout); err != nil {
				return err
			}
		}
		return t.s.switchPower(t.c.ctx, n, fsm.PowerOn, timeout)
	case fsm.SoftReboot:
		if n.DisablePowerOff && n.powerInterface == "ipmitool" {
			return pythonError("Node %s hardware does not support feature soft power off, which is required based upon the requested configuration.", n.UUID)
		}
		if err := t.s.switchPower(t.c.ctx, n, fsm.SoftPowerOff, timeout); err != nil {
			return err
		}
		return t.s.switchPower(t.c.ctx, n, fsm.PowerOn, timeout)
	}
	return t.s.switchPower(t.c.ctx, n, target, timeout)
}

// reset is how a machine is rebooted that must not be switched off, with IPMI. A machine that is off cannot be reset.
func (t *task) reset(n *node, timeout time.Duration) error {
	refused := false
	if err := t.s.command(t.c.ctx, n, "power reset", func(b *BMC) { refused = b.power != fsm.PowerOn }); err != nil {
		return err
	}
	if refused {
		return errBMC(n, "power reset", false)
	}
	return t.s.switchPower(t.c.ctx, n, fsm.PowerOn, timeout)
}

// relatives is the part of a power change that concerns parent and child nodes.
// Only one case is simulated, which Ironic 29.0.5 brings about with each PATCH: a
// node that is its own parent waits for the lock that it holds itself. A node
// with has_dedicated_power_supply in driver_info is spared.
func (t *task) relatives(n *node, target string) error {
	dedicated, _ := n.driverInfo.fields["has_dedicated_power_supply"].(bool)
	if n.parentNode != n.UUID || dedicated || target != fsm.PowerOn && target != fsm.PowerOff {
		return nil
	}
	if !t.sleep(time.Duration(lockAttempts-1) * t.s.opts.LockRetryInterval) {
		return errKilled
	}
	relative := "parent_node"
	if target == fsm.PowerOff {
		relative = "child_node"
	}
	return pythonError("Node %s %s %s is presently locked and we are unable to perform any action on it at this time. Please retry after the current operation is completed.", n.UUID, relative, n.UUID)
}
