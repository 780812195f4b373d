// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"net/http"
	"slices"
)

// getBootDevice is GET management/boot_device: although a GET, it locks the node
// and asks the BMC.
func (s *Sim) getBootDevice(c *call) error {
	t, err := s.lockedNode(c)
	if err != nil {
		return err
	}
	defer t.release()
	n := t.node()
	if err := validateDriverInfo(n, n.managementInterface); err != nil {
		return err
	}
	device, persistent := any("pxe"), any(false)
	if contactsBMC(n) {
		err := s.command(s.ctx, n, "chassis bootparam get 5", func(b *BMC) { device, persistent = b.bootDevice, b.persistent })
		if err != nil {
			return err // 500: the error of a synchronous call to a BMC
		}
	}
	return c.json(http.StatusOK, map[string]any{"boot_device": device, "persistent": persistent})
}

// contactsBMC reports whether the management interface talks to a BMC.
func contactsBMC(n *node) bool {
	return n.managementInterface == "ipmitool" || n.managementInterface == "redfish"
}

func bootDevices(n *node) []string {
	switch n.managementInterface {
	case "ipmitool":
		return []string{"pxe", "disk", "cdrom", "bios", "safe"}
	case "redfish":
		return []string{"pxe", "disk", "cdrom", "bios", "uefihttp"}
	}
	return []string{"pxe"}
}

// putBootDevice is PUT management/boot_device.
func (s *Sim) putBootDevice(c *call) error {
	device, persistent := c.required("boot_device"), c.isSet("persistent")
	if c.refused != nil {
		return c.refused
	}
	t, err := s.lockedNode(c)
	if err != nil {
		return err
	}
	defer t.release()
	n := t.node()
	if err := validateDriverInfo(n, n.managementInterface); err != nil {
		return err
	}
	if !slices.Contains(bootDevices(n), device) {
		return badRequest("Invalid boot device %s specified.", device)
	}
	if contactsBMC(n) {
		err := s.command(s.ctx, n, "raw 0x00 0x08 0x03 0x08", func(b *BMC) {
			b.bootDevice, b.persistent = device, persistent
		})
		if err != nil {
			return err
		}
	}
	return c.noContent()
}

// getSupportedBootDevices takes no lock.
func (s *Sim) getSupportedBootDevices(c *call) error {
	_, n, err := s.nodeArg(c)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, map[string]any{"supported_boot_devices": bootDevices(n)})
}

// getValidate is GET /v1/nodes/X/validate. It contacts no BMC.
func (s *Sim) getValidate(c *call) error {
	_, n, err := s.nodeArg(c)
	if err != nil {
		return err
	}
	result := map[string]any{}
	for _, kind := range interfaceKinds {
		if kind == "vendor" {
			continue
		}
		if err := s.validateInterface(n, kind); err != nil {
			result[kind] = map[string]any{"result": false, "reason": err.Error()}
		} else {
			result[kind] = map[string]any{"result": true}
		}
	}
	return c.json(http.StatusOK, result)
}

func (s *Sim) validateInterface(n *node, kind string) error {
	impl := *interfaceOf(n, kind)
	switch {
	case impl == "no-"+kind:
		return errUnsupported(n.driver, kind)
	case kind == "console" && impl == "ipmitool-socat":
		if err := validateIPMI(n); err != nil {
			return err
		}
		if n.driverInfo.fields["ipmi_terminal_port"] == nil {
			return badRequest("Either missing 'ipmi_terminal_port' parameter in node's driver_info or [console]port_range is not configured")
		}
		return nil
	case kind == "boot":
		return s.validateBoot(n)
	case kind == "deploy" && bootsRamdisk(n):
		return s.validateDeploy(n)
	case kind == "network":
		return s.validateNetwork(n)
	case kind == "raid":
		return nil
	}
	return validateDriverInfo(n, impl)
}

// getInventory is GET /v1/nodes/X/inventory.
func (s *Sim) getInventory(c *call) error {
	e, n, err := s.nodeArg(c)
	if err != nil {
		return err
	}
	s.mu.RLock()
	stored := e.inventory
	s.mu.RUnlock()
	if stored == nil {
		// The internal id is Ironic's.
		return fault(http.StatusNotFound, "Node inventory record for node %d could not be found.", n.id)
	}
	return c.json(http.StatusOK, stored)
}

// getHistory is GET /v1/nodes/X/history: the errors of the past.
func (s *Sim) getHistory(c *call) error {
	isDetail := c.isSet("detail")
	limit, _, _ := c.pageArgs()
	marker := c.uuidArg("marker")
	if c.refused != nil {
		return c.refused
	}
	e, n, err := s.nodeArg(c)
	if err != nil {
		return err
	}
	s.mu.RLock()
	events := slices.Clone(e.history)
	s.mu.RUnlock()
	if marker != "" {
		i := slices.IndexFunc(events, func(h historyEvent) bool { return h.UUID == marker })
		if i < 0 {
			return fault(http.StatusNotFound, "Node history record %s could not be found.", marker)
		}
		events = events[i+1:]
	}
	items := []any{}
	for _, h := range events[:min(len(events), limit)] {
		m := map[string]any{"uuid": h.UUID, "created_at": formatTime(h.CreatedAt), "severity": "ERROR", "event": h.Event,
			"links": []link{{c.base + "/v1/nodes/" + n.UUID + "/history/" + h.UUID, "self"}}}
		if isDetail {
			m["event_type"], m["conductor"], m["user"] = h.EventType, h.Conductor, nil
		} else if len(h.Event) > 255 {
			m["event"] = h.Event[:251] + "..."
		}
		items = append(items, m)
	}
	return c.json(http.StatusOK, map[string]any{"history": items})
}
