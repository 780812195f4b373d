// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// ironicNetworking is the network interface of nodes whose switch ports Ironic configures. There are no switches.
const ironicNetworking = "ironic-networking"

// connectivityStates are those in which what a port is connected to may be changed without maintenance.
var connectivityStates = []string{fsm.Enroll, fsm.Inspecting, fsm.InspectWait, fsm.Manageable}

// checkPortChange is what update_port of the conductor refuses. It validates the ports as they are before it looks at
// what is to change of one, so that only a node that is being inspected gets rid of an invalid one.
func (s *Sim) checkPortChange(n *node, old, changed *port) error {
	isConnectivity := old.pxeEnabled != changed.pxeEnabled || !reflect.DeepEqual(old.link, changed.link)
	if isConnectivity && !n.Maintenance && !slices.Contains(connectivityStates, n.ProvisionState) {
		return conflict("Port %s can not have any connectivity attributes (pxe_enabled, portgroup_id, physical_network, local_link_connection) updated unless node %s is in a %s state or in maintenance mode. The current state is %s.",
			old.uuid, n.UUID, strings.Join(connectivityStates, ", "), n.ProvisionState)
	}
	if err := s.validateNetwork(n); err != nil {
		return err
	}
	isSame := reflect.DeepEqual(old.extra["switchport"], changed.extra["switchport"]) && reflect.DeepEqual(old.link, changed.link)
	if n.networkInterface != ironicNetworking || isSame || len(changed.link) == 0 {
		return nil
	}
	return validateSwitchport(n, changed)
}

// validateNetwork is the validate() of the network interface.
func (s *Sim) validateNetwork(n *node) error {
	if n.networkInterface != ironicNetworking {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, p := range s.portIDs {
		if p.nodeUUID != n.UUID {
			continue
		}
		if err := validateSwitchport(n, p); err != nil {
			return err
		}
	}
	return nil
}

// validateSwitchport is _validate_port_switchport_config.
func validateSwitchport(n *node, p *port) error {
	switchport, _ := toJSON(p.extra["switchport"]).(map[string]any)
	if len(switchport) == 0 {
		return nil
	}
	if wrong := checkSwitchport(switchport); wrong != "" {
		return badRequest("Invalid switchport configuration for port %s: %s", p.uuid, wrong)
	}
	if mode := switchport["mode"]; p.pxeEnabled && mode != "access" {
		return badRequest("Port %s is PXE-enabled but has switchport mode '%s'. PXE-enabled ports must use 'access' mode when switchport configuration is present.", p.uuid, mode)
	}
	if len(p.link) == 0 {
		if slices.Contains([]string{fsm.Inspecting, fsm.InspectWait, fsm.InspectFail}, n.ProvisionState) {
			return nil
		}
		return badRequest("Port %s has switchport configuration but is missing local_link_connection in state: %s.", p.uuid, n.ProvisionState)
	}
	var missing []string
	for _, key := range []string{"switch_id", "port_id"} {
		if text, _ := p.link[key].(string); text == "" {
			missing = append(missing, "'"+key+"'")
		}
	}
	if len(missing) > 0 {
		return badRequest("Port %s local_link_connection missing required field(s): %s", p.uuid, strings.Join(missing, ", "))
	}
	return nil
}

// maxSwitchportVLANs is maxItems of allowed_vlans in Ironic's SWITCHPORT_SCHEMA.
const maxSwitchportVLANs = 100

// checkSwitchport says what SWITCHPORT_SCHEMA finds wrong; empty if nothing is. The schema is one of draft 4, which
// knows no "if": what it says of the VLANs of each mode has no effect.
func checkSwitchport(switchport map[string]any) string {
	for _, key := range slices.Sorted(maps.Keys(switchport)) {
		value := switchport[key]
		wrong := ""
		switch key {
		case "mode":
			if !slices.Contains([]any{"access", "trunk", "hybrid"}, value) {
				wrong = fmt.Sprintf("%s is not one of ['access', 'trunk', 'hybrid']", pyRepr(value, true))
			}
		case "native_vlan":
			wrong = checkInteger(value, 1, 4094)
		case "mtu":
			wrong = checkInteger(value, 0, 9216)
		case "lag_name":
		case "allowed_vlans":
			wrong = checkVLANs(value)
		default:
			wrong = fmt.Sprintf("Additional properties are not allowed ('%s' was unexpected)", key)
		}
		if wrong != "" {
			return wrong
		}
	}
	for _, key := range []string{"mode", "native_vlan"} {
		if _, has := switchport[key]; !has {
			return fmt.Sprintf("'%s' is a required property", key)
		}
	}
	return ""
}

func checkVLANs(value any) string {
	vlans, isList := value.([]any)
	if !isList {
		return pyRepr(value, true) + " is not of type 'array'"
	}
	seen := map[any]bool{}
	for _, vlan := range vlans {
		if wrong := checkInteger(vlan, 1, 4094); wrong != "" {
			return wrong
		}
		if seen[vlan] {
			return pyRepr(vlans, true) + " has non-unique elements"
		}
		seen[vlan] = true
	}
	if len(vlans) > maxSwitchportVLANs {
		return pyRepr(vlans, true) + " is too long"
	}
	return ""
}

func checkInteger(value any, least, most float64) string {
	number, isNumber := value.(float64)
	switch text := pyRepr(value, true); {
	case !isNumber || number != float64(int(number)):
		return text + " is not of type 'integer'"
	case number < least:
		return fmt.Sprintf("%s is less than the minimum of %v", text, least)
	case number > most:
		return fmt.Sprintf("%s is greater than the maximum of %v", text, most)
	}
	return ""
}
