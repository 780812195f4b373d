// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// patchAllowed are the fields that a PATCH may touch, in the order in which
// Ironic's error message names them.
var patchAllowed = []string{"automated_clean", "bios_interface", "boot_interface", "chassis_uuid", "conductor_group",
	"console_interface", "deploy_interface", "description", "disable_power_off", "driver", "driver_info", "extra",
	"inspect_interface", "instance_info", "instance_uuid", "lessee", "maintenance", "management_interface", "name",
	"network_data", "network_interface", "owner", "power_interface", "properties", "protected", "protected_reason",
	"raid_interface", "rescue_interface", "resource_class", "retired", "retired_reason", "shard", "storage_interface",
	"vendor_interface", "parent_node", "firmware_interface"}

// patchNode is PATCH /v1/nodes/X. The API process works out what changes from
// the node as it is before the lock; the conductor then writes just that.
func (s *Sim) patchNode(c *call) error {
	ops, err := parsePatch(c.body)
	if err != nil {
		return err
	}
	reset := c.isSet("reset_interfaces")
	if c.refused != nil {
		return c.refused
	}
	if err := checkPatch(c, ops, reset); err != nil {
		return err
	}
	e, n, err := s.nodeArg(c)
	if err != nil {
		return err
	}
	if err := s.checkPatchAllowed(c, n, ops); err != nil {
		return err
	}
	for _, v := range patchValues(ops, "/name") {
		format := "Node " + c.path["node"] + ": Cannot change name to invalid name '%s'"
		name, ok := v.(string)
		if !ok {
			return badRequest(format, pyRepr(v, false))
		}
		if err := checkName(name, format); err != nil {
			return err
		}
	}
	changed, err := s.patched(n, ops)
	if err != nil {
		return err
	}
	if err := s.checkDriver(changed.driver, changed.conductorGroup); err != nil {
		return err
	}
	return s.updateNode(c, e, n, changed, reset)
}

func checkPatch(c *call, ops []patchOp, reset bool) error {
	for _, p := range ops {
		if !slices.Contains(patchAllowed, p.root()) {
			return badRequest("Cannot patch %s. Only the following can be updated: %s", p.path, strings.Join(patchAllowed, ", "))
		}
	}
	for _, f := range nodeFields {
		if c.minor >= f.minor {
			continue
		}
		if values := patchValues(ops, "/"+f.name); len(values) > 0 {
			return errNotAcceptable()
		}
	}
	if reset && len(patchValues(ops, "/driver")) == 0 {
		return badRequest("The reset_interfaces parameter can only be used when changing the node's driver.")
	}
	return nil
}

// checkPatchAllowed refuses a PATCH in states that do not allow it.
func (s *Sim) checkPatchAllowed(c *call, n *node, ops []patchOp) error {
	onlyInstance := len(ops) == 1 && ops[0].op == "remove" && ops[0].path == "/instance_uuid" && !ops[0].hasValue
	switch {
	case n.Maintenance && onlyInstance:
		return nil
	case n.IsInTransition():
		return conflict("Node %s can not be updated while a state transition is in progress.", c.path["node"])
	case n.ProvisionState == fsm.Inspecting:
		return conflict(`Cannot update node "%s" while it is in state "inspecting".`, n.UUID)
	}
	return nil
}

// patched applies a patch to a copy of the node.
func (s *Sim) patched(n *node, ops []patchOp) (*node, error) {
	doc := map[string]any{"uuid": n.UUID, "chassis_uuid": nil}
	for _, p := range nodePatchSchema {
		f := fieldByName[p.name]
		if f == nil || f.wire {
			continue
		}
		if f.objectAt != nil {
			doc[p.name] = (*f.objectAt(n)).fields
		} else {
			doc[p.name] = f.value(n)
		}
	}
	if parents := patchValues(ops, "/parent_node"); len(parents) > 0 {
		ident, _ := parents[0].(string)
		if e, _ := s.lookup(ident); e == nil {
			return nil, badRequest("Unable to apply the requested parent_node '%s'. Requested value was invalid.", pyRepr(parents[0], false))
		}
	}
	if err := applyPatch(doc, ops); err != nil {
		return nil, err
	}
	if _, err := checkSchema("patch", doc, nodePatchSchema, "driver"); err != nil {
		return nil, err
	}
	if err := checkChassis(doc); err != nil {
		return nil, err
	}
	changed := *n
	for _, p := range nodePatchSchema {
		f := fieldByName[p.name]
		if f == nil || f.wire {
			continue
		}
		if f.objectAt != nil {
			if m, ok := doc[p.name].(map[string]any); ok && reflect.DeepEqual(m, (*f.objectAt(n)).fields) {
				continue
			}
		}
		if err := f.set(&changed, doc[p.name]); err != nil {
			return nil, badRequest("%v", err)
		}
	}
	changed.conductorGroup = strings.ToLower(changed.conductorGroup)
	if !s.opts.WithoutDefects && s.minor >= 83 && len(patchValues(ops, "/parent_node")) == 0 {
		changed.parentNode = n.UUID
	}
	return &changed, nil
}

// checkChassis refuses every chassis of a node: there are none.
func checkChassis(doc map[string]any) error {
	if id, _ := doc["chassis_uuid"].(string); id != "" {
		return badRequest("Chassis %s could not be found.", id)
	}
	return nil
}

// checkProtection returns why a node cannot be protected or retired as changed says. It forgets the reasons of what ends.
func checkProtection(n, changed *node) error {
	if n.Protected && !changed.Protected {
		changed.protectedReason = ""
	}
	if n.Retired && !changed.Retired {
		changed.retiredReason = ""
	}
	switch state := n.ProvisionState; {
	case !n.Protected && changed.Protected && state != fsm.Active && state != fsm.Rescue:
		return conflict("Node %s can only be made protected in provision states 'active' or 'rescue', the current state is '%s'", n.UUID, state)
	case changed.protectedReason != n.protectedReason && changed.protectedReason != "" && !changed.Protected:
		return badRequest("The protected_reason field can only be set when protected is True")
	case !n.Retired && changed.Retired && state == fsm.Available:
		return conflict("Node %s can not have 'retired' set in provision state 'available', the current state is '%s'", n.UUID, state)
	case changed.retiredReason != n.retiredReason && changed.retiredReason != "" && !changed.Retired:
		return badRequest("The retired_reason field can only be set when retired is True")
	}
	return nil
}

// updateNode is the conductor's update_node.
func (s *Sim) updateNode(c *call, e *entry, n, changed *node, reset bool) error {
	if n.Maintenance && !changed.Maintenance {
		changed.MaintenanceReason, changed.Fault = "", ""
	}
	if err := checkProtection(n, changed); err != nil {
		return err
	}
	driverChanged := n.driver != changed.driver
	for _, kind := range interfaceKinds {
		impl := interfaceOf(changed, kind)
		if *interfaceOf(n, kind) == *impl {
			if driverChanged && reset {
				*impl = ""
			}
			continue
		}
		if err := n.CheckInterface(kind, changed.Maintenance); err != nil {
			return err
		}
	}
	if err := checkInterfaces(changed); err != nil {
		return err
	}
	t, err := s.acquire(e, false)
	if err != nil {
		return err
	}
	if err := s.writePatch(t, n, changed); err != nil {
		return t.reject(err)
	}
	saved := t.node()
	t.release()
	// The answer was taken while the lock was held, so it shows the reservation.
	return c.json(http.StatusOK, s.detailView(c).append(nil, saved))
}

// writePatch writes those columns that differ between n and changed to the node,
// which others may have changed in the meantime.
func (s *Sim) writePatch(t *task, n, changed *node) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := t.e.n
	if changed.InstanceUUID != n.InstanceUUID && changed.InstanceUUID != "" && now.InstanceUUID != "" {
		return conflict("Node %s is associated with instance %s.", n.UUID, now.InstanceUUID)
	}
	if changed.resourceClass != n.resourceClass && now.resourceClass != "" && !slices.Contains(fsm.InterfaceChangeAllowed, now.ProvisionState) {
		return conflict("Node %s can not have resource_class updated unless it is in one of allowed (%s) states.", n.UUID, strings.Join(fsm.InterfaceChangeAllowed, ", "))
	}
	if other := s.byName[changed.name]; changed.name != "" && other != nil && other != t.e {
		return conflict("A node with name %s already exists.", changed.name)
	}
	if other := s.byInstance[changed.InstanceUUID]; changed.InstanceUUID != "" && other != nil && other != t.e {
		return errInstanceAssociated(changed.InstanceUUID, n.UUID)
	}
	s.update(t.e, func(to *node) {
		for i := range nodeFields {
			f := &nodeFields[i]
			switch {
			case f.stringAt != nil && *f.stringAt(n) != *f.stringAt(changed):
				*f.stringAt(to) = *f.stringAt(changed)
			case f.boolAt != nil && *f.boolAt(n) != *f.boolAt(changed):
				*f.boolAt(to) = *f.boolAt(changed)
			case f.nullAt != nil && f.value(n) != f.value(changed):
				*f.nullAt(to) = *f.nullAt(changed)
			case f.objectAt != nil && *f.objectAt(n) != *f.objectAt(changed):
				*f.objectAt(to) = *f.objectAt(changed)
			}
		}
	})
	return nil
}
