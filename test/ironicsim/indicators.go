// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"net/http"
	"slices"
	"strings"
)

// indicatorStates are the states of the lights.
var indicatorStates = []string{"blinking", "off", "on"}

// systemLight is the light that each Redfish BMC has: the name and the component.
const systemLight = "system-0@system"

// getIndicators is GET management/indicators. Only the redfish interface has lights that can be
// switched; the fake one has one that cannot.
func (s *Sim) getIndicators(c *call) error {
	e, n, err := s.nodeArg(c)
	if err != nil {
		return err
	}
	light := map[string]any{"name": systemLight, "component": "system", "readonly": false, "states": indicatorStates,
		"links": []link{{c.base + "/v1/nodes/" + n.UUID + "/management/indicators/" + systemLight, "self"}}}
	switch n.managementInterface {
	case "redfish":
		if err := s.command(s.ctx, s.current(e), "indicators", func(*BMC) {}); err != nil {
			return err
		}
	case "fake":
		light["name"], light["component"], light["readonly"] = "led-0@chassis", "chassis", true
	default:
		return errUnsupported(n.driver, "get_supported_indicators")
	}
	return c.json(http.StatusOK, map[string]any{"indicators": []any{light}})
}

func (s *Sim) getIndicator(c *call) error {
	return s.atIndicator(c, func(t *task) error {
		state := "on"
		if contactsBMC(t.node()) {
			if err := s.command(s.ctx, t.node(), "get indicator", func(b *BMC) { state = b.light }); err != nil {
				return err
			}
		}
		return c.json(http.StatusOK, map[string]any{"state": state})
	})
}

func (s *Sim) putIndicator(c *call) error {
	state := c.required("state")
	if c.refused != nil {
		return c.refused
	}
	return s.atIndicator(c, func(t *task) error {
		if !slices.Contains(indicatorStates, state) {
			return fault(http.StatusInternalServerError, "'%s'", state) // Python's KeyError
		}
		if err := s.command(s.ctx, t.node(), "set indicator", func(b *BMC) { b.light = state }); err != nil {
			return err
		}
		return c.noContent()
	})
}

// atIndicator calls use with the node of a light locked.
func (s *Sim) atIndicator(c *call, use func(*task) error) error {
	t, err := s.lockedNode(c)
	if err != nil {
		return err
	}
	defer t.release()
	id := c.path["indicator"]
	name, component, found := strings.Cut(id, "@")
	switch {
	case !found:
		return badRequest("Malformed indicator name \"%s\"", id)
	case t.node().managementInterface == "ipmitool":
		return errUnsupported(t.node().driver, "get_indicator_state")
	case t.node().managementInterface == "redfish" && id != systemLight:
		return badRequest("Unknown indicator %s for component %s of node %s", name, component, t.node().UUID)
	}
	return use(t)
}

// putNMI is PUT management/inject_nmi.
func (s *Sim) putNMI(c *call) error {
	t, err := s.lockedNode(c)
	if err != nil {
		return err
	}
	defer t.release()
	n := t.node()
	if err := validateDriverInfo(n, n.managementInterface); err != nil {
		return err
	}
	if !contactsBMC(n) {
		return errUnsupported(n.driver, "inject_nmi")
	}
	if err := s.command(s.ctx, n, "power diag", func(b *BMC) { b.nmis++ }); err != nil {
		return err
	}
	return c.noContent()
}

// NMIs returns how many non-maskable interrupts were requested.
func (b *BMC) NMIs() int { return read(b, &b.nmis) }

// Light returns the state of the light of the machine: on, off or blinking.
func (b *BMC) Light() string { return read(b, &b.light) }

// BootDevice returns what the machine boots from, and whether always.
func (b *BMC) BootDevice() (device string, persistent bool) {
	b.set(func() { device, persistent = b.bootDevice, b.persistent })
	return device, persistent
}
