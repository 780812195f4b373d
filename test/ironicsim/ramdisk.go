package ironicsim

import (
	"crypto/rand"
	"encoding/base64"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// postInspection is POST /v1/continue_inspection, which ramdisks call.
func (s *Sim) postInspection(c *call) error {
	data, err := inspectionData(c.body)
	if err != nil {
		return err
	}
	nodeUUID, err := c.uuidArg("node_uuid")
	if err != nil {
		return err
	}
	if c.minor < 84 && (c.minor != 1 || nodeUUID != "") {
		return fault(http.StatusNotFound, "API version 1.84 or newer is required")
	}
	inventory := data["inventory"].(map[string]any)
	data = maps.Clone(data)
	delete(data, "inventory")
	e, err := s.lookupRamdisk(inventory, nodeUUID)
	if err != nil {
		return err
	}
	token := make([]byte, 32)
	_, _ = rand.Read(token) // never fails
	if c.minor >= 84 {
		// The token needs the lock, and this one does not wait for it.
		t, err := s.acquire(e, true)
		if err != nil {
			return err
		}
		t.save(func(n *node) {
			n.driverInternalInfo = newSecretObject(n.driverInternalInfo.with("agent_secret_token", base64.RawURLEncoding.EncodeToString(token)))
		})
		t.release()
	}
	seen := s.current(e)
	t, err := s.acquire(e, false)
	if err != nil {
		return err
	}
	if t.node().ProvisionState != fsm.InspectWait {
		return t.reject(errNotFound())
	}
	err = t.begin("resume", func() {
		t.finishInspection(inventory, data, true)
		t.save(func(n *node) {
			n.driverInternalInfo = newSecretObject(n.driverInternalInfo.without("agent_secret_token"))
		})
	})
	if err != nil {
		return err
	}
	if c.minor < 84 {
		return c.json(http.StatusAccepted, map[string]any{"uuid": seen.UUID})
	}
	view := s.fieldView(c, []string{"uuid", "properties", "instance_info", "driver_internal_info"})
	b := append([]byte(`{"node":`), view.append(nil, seen)...)
	b = append(b, `,"config":`...)
	b = append(b, mustJSON(map[string]any{
		"metrics": map[string]any{"backend": "noop", "prepend_host": false, "prepend_uuid": false,
			"prepend_host_reverse": true, "global_prefix": nil},
		"metrics_statsd":    map[string]any{"statsd_host": "localhost", "statsd_port": 8125},
		"heartbeat_timeout": 300, "agent_token": base64.RawURLEncoding.EncodeToString(token), "agent_token_required": true,
		"agent_md5_checksum_enable": true, "disable_deep_image_inspection": false,
		"permitted_image_formats": []string{"raw", "gpt", "qcow2", "iso"}, "enable_bios_bootloader_install": true,
	})...)
	return c.json(http.StatusAccepted, append(b, '}'))
}

// inspectionData checks the least that a report must have.
func inspectionData(body any) (map[string]any, error) {
	data, ok := body.(map[string]any)
	if !ok {
		return nil, badRequest("Schema error for data: %s is not of type 'object'", pyRepr(body, true))
	}
	v, ok := data["inventory"]
	if !ok {
		return nil, badRequest("Schema error for data: 'inventory' is a required property")
	}
	inventory, ok := v.(map[string]any)
	if !ok {
		return nil, badRequest("Schema error for data: %s is not of type 'object'", pyRepr(v, true))
	}
	if v, ok = inventory["interfaces"]; !ok {
		return nil, badRequest("Schema error for data: 'interfaces' is a required property")
	}
	nics, ok := v.([]any)
	if !ok {
		return nil, badRequest("Schema error for data: %s is not of type 'array'", pyRepr(v, true))
	}
	if len(nics) == 0 {
		return nil, badRequest("Schema error for data: [] is too short")
	}
	for _, nic := range nics {
		m, ok := nic.(map[string]any)
		if !ok {
			return nil, badRequest("Schema error for data: %s is not of type 'object'", pyRepr(nic, true))
		}
		mac, ok := m["mac_address"]
		if !ok {
			return nil, badRequest("Schema error for data: 'mac_address' is a required property")
		}
		if _, ok := mac.(string); !ok {
			return nil, badRequest("Schema error for data: %s is not of type 'string'", pyRepr(mac, true))
		}
	}
	return data, nil
}

// lookupRamdisk finds the node that a report is about. It must wait for one; all
// failures look alike, so that nobody can probe for nodes.
func (s *Sim) lookupRamdisk(inventory map[string]any, nodeUUID string) (*entry, error) {
	var macs []string
	for _, nic := range inventory["interfaces"].([]any) {
		if mac, ok := normalMAC(nic.(map[string]any)["mac_address"].(string)); ok {
			macs = append(macs, mac)
		}
	}
	var addresses []string
	for _, k := range []string{"bmc_address", "bmc_v6address"} {
		if a, _ := inventory[k].(string); a != "" {
			addresses = append(addresses, a)
		}
	}
	if len(macs) == 0 && len(addresses) == 0 && nodeUUID == "" {
		return nil, badRequest("No lookup information provided")
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	var found *entry
	if nodeUUID != "" {
		if found = s.byUUID[nodeUUID]; found == nil {
			return nil, errNotFound()
		}
	}
	for _, mac := range macs {
		p := s.byMAC[mac]
		if p == nil {
			continue
		}
		if e := s.byUUID[p.nodeUUID]; found == nil {
			found = e
		} else if e != found {
			return nil, errNotFound() // the MAC addresses of two nodes
		}
	}
	if found != nil && found.n.ProvisionState != fsm.InspectWait {
		return nil, errNotFound()
	}
	var byBMC []*entry
	if len(addresses) > 0 {
		for _, e := range s.nodes {
			if host := bmcHost(e.n); host != "" && e.n.ProvisionState == fsm.InspectWait && slices.Contains(addresses, host) {
				byBMC = append(byBMC, e)
			}
		}
	}
	switch {
	case found != nil && len(byBMC) > 0 && !slices.Contains(byBMC, found):
		return nil, errNotFound()
	case found == nil && len(byBMC) == 1:
		return byBMC[0], nil
	case found == nil:
		return nil, errNotFound()
	}
	return found, nil
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
