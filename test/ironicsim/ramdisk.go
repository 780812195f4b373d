// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"maps"
	"net"
	"net/url"
	"strings"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// postInspection is POST /v1/continue_inspection, which ramdisks call. Here it is only there to compare what becomes of
// an inventory with a real Ironic: it finds the node, which must wait for the report, by its ports.
func (s *Sim) postInspection(c *call) error {
	data, _ := c.body.(map[string]any)
	inventory, _ := data["inventory"].(map[string]any)
	list, _ := inventory["interfaces"].([]any)
	s.mu.RLock()
	var e *entry
	for _, item := range list {
		nic, _ := item.(map[string]any)
		if p := s.byMAC[strings.ToLower(textOf(nic["mac_address"]))]; p != nil {
			e = s.byUUID[p.nodeUUID]
		}
	}
	s.mu.RUnlock()
	if e == nil {
		return errNotFound()
	}
	t, err := s.acquire(e, false)
	if err != nil {
		return err
	}
	if t.node().ProvisionState != fsm.InspectWait {
		return t.reject(errNotFound())
	}
	data = maps.Clone(data)
	delete(data, "inventory")
	if err := t.begin("resume", func() { t.finishInspection(inventory, data, true) }); err != nil {
		return err
	}
	return c.accepted()
}

// bmcHost is the host part of the node's BMC address.
func bmcHost(n *node) string {
	if a := n.driverInfo.string("ipmi_address"); a != "" {
		return a
	}
	if n.driverInfo.string("redfish_address") == "" {
		return ""
	}
	u, err := url.Parse(redfishRoot(n))
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(u.Hostname()); ip != nil {
		return ip.String()
	}
	return u.Hostname()
}
