// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"fmt"
	"time"
)

// field is a field of the node API: its name, the version that brought it, and
// where it is in a node. Exactly one of the ...At functions is set, or only get.
type field struct {
	name     string
	minor    int
	stringAt func(*node) *string
	boolAt   func(*node) *bool
	nullAt   func(*node) **bool // a bool that can be null
	timeAt   func(*node) *time.Time
	objectAt func(*node) **object
	secret   bool
	get      func(*node) any
	// wire fields come from the API process, not from a column of the table:
	// a list cannot ask for them by name.
	wire bool
}

func (f *field) value(n *node) any {
	switch {
	case f.stringAt != nil:
		if s := *f.stringAt(n); s != "" || f.name == "conductor_group" {
			return s
		}
		return nil
	case f.boolAt != nil:
		return *f.boolAt(n)
	case f.nullAt != nil:
		if b := *f.nullAt(n); b != nil {
			return *b
		}
		return nil
	case f.timeAt != nil:
		return formatTime(*f.timeAt(n))
	case f.objectAt != nil:
		return *f.objectAt(n)
	}
	return f.get(n)
}

// set stores a JSON value in the field of n.
func (f *field) set(n *node, v any) error {
	wrong := fmt.Errorf("%s cannot be %v", f.name, v)
	switch {
	case f.stringAt != nil:
		s, ok := v.(string)
		if !ok && v != nil {
			return wrong
		}
		*f.stringAt(n) = s
	case f.boolAt != nil:
		b, ok := v.(bool)
		if !ok && v != nil {
			return wrong
		}
		*f.boolAt(n) = b
	case f.nullAt != nil:
		*f.nullAt(n) = nil
		if b, ok := v.(bool); ok {
			*f.nullAt(n) = &b
		} else if v != nil {
			return wrong
		}
	case f.timeAt != nil:
		switch v := v.(type) {
		case nil:
			*f.timeAt(n) = time.Time{}
		case time.Time:
			*f.timeAt(n) = v
		case string:
			t, err := time.Parse(time.RFC3339, v)
			if err != nil {
				return wrong
			}
			*f.timeAt(n) = t
		default:
			return wrong
		}
	case f.objectAt != nil:
		m, ok := v.(map[string]any)
		if !ok && v != nil {
			return wrong
		}
		if f.secret {
			*f.objectAt(n) = newSecretObject(m)
		} else {
			*f.objectAt(n) = newObject(m)
		}
	default:
		return fmt.Errorf("%s cannot be set", f.name)
	}
	return nil
}

func text(name string, at func(*node) *string) field {
	return field{name: name, stringAt: at}
}

func column(name string, at func(*node) **object) field {
	return field{name: name, objectAt: at}
}

// secret is a column that may hold passwords.
func secret(name string, at func(*node) **object) field {
	return field{name: name, objectAt: at, secret: true}
}

// since says which version brought a field, if that is above minimum.
func since(minor int, f field) field {
	f.minor = minor
	return f
}

// nodeFields are the fields of a node in the order of Ironic's answers; uuid,
// created_at and updated_at come first and have no place in a field list.
var nodeFields = []field{
	{name: "automated_clean", nullAt: func(n *node) **bool { return &n.automatedClean }},
	text("bios_interface", func(n *node) *string { return &n.biosInterface }),
	text("boot_interface", func(n *node) *string { return &n.bootInterface }),
	text("boot_mode", func(n *node) *string { return &n.bootMode }),
	column("clean_step", func(n *node) **object { return &n.cleanStep }),
	text("conductor_group", func(n *node) *string { return &n.conductorGroup }),
	{name: "console_enabled", boolAt: func(n *node) *bool { return &n.consoleEnabled }},
	text("console_interface", func(n *node) *string { return &n.consoleInterface }),
	{name: "disable_power_off", minor: 95, boolAt: func(n *node) *bool { return &n.DisablePowerOff }},
	text("deploy_interface", func(n *node) *string { return &n.deployInterface }),
	column("deploy_step", func(n *node) **object { return &n.deployStep }),
	text("description", func(n *node) *string { return &n.description }),
	text("driver", func(n *node) *string { return &n.driver }),
	secret("driver_info", func(n *node) **object { return &n.driverInfo }),
	secret("driver_internal_info", func(n *node) **object { return &n.driverInternalInfo }),
	column("extra", func(n *node) **object { return &n.extra }),
	text("fault", func(n *node) *string { return &n.Fault }),
	since(86, text("firmware_interface", func(n *node) *string { return &n.firmwareInterface })),
	{name: "health", minor: 109, get: func(*node) any { return nil }},
	{name: "inspection_finished_at", timeAt: func(n *node) *time.Time { return &n.inspectionFinishedAt }},
	{name: "inspection_started_at", timeAt: func(n *node) *time.Time { return &n.inspectionStartedAt }},
	text("inspect_interface", func(n *node) *string { return &n.inspectInterface }),
	secret("instance_info", func(n *node) **object { return &n.instanceInfo }),
	{name: "instance_name", minor: 104, get: func(*node) any { return nil }},
	text("instance_uuid", func(n *node) *string { return &n.InstanceUUID }),
	text("last_error", func(n *node) *string { return &n.LastError }),
	text("lessee", func(n *node) *string { return &n.lessee }),
	{name: "maintenance", boolAt: func(n *node) *bool { return &n.Maintenance }},
	text("maintenance_reason", func(n *node) *string { return &n.MaintenanceReason }),
	text("management_interface", func(n *node) *string { return &n.managementInterface }),
	text("name", func(n *node) *string { return &n.name }),
	column("network_data", func(n *node) **object { return &n.networkData }),
	text("network_interface", func(n *node) *string { return &n.networkInterface }),
	text("owner", func(n *node) *string { return &n.owner }),
	since(83, text("parent_node", func(n *node) *string { return &n.parentNode })),
	text("power_interface", func(n *node) *string { return &n.powerInterface }),
	text("power_state", func(n *node) *string { return &n.PowerState }),
	column("properties", func(n *node) **object { return &n.properties }),
	{name: "protected", boolAt: func(n *node) *bool { return &n.Protected }},
	text("protected_reason", func(n *node) *string { return &n.protectedReason }),
	text("provision_state", func(n *node) *string { return &n.ProvisionState }),
	{name: "provision_updated_at", timeAt: func(n *node) *time.Time { return &n.provisionUpdatedAt }},
	column("raid_config", func(n *node) **object { return &n.raidConfig }),
	text("raid_interface", func(n *node) *string { return &n.raidInterface }),
	text("rescue_interface", func(n *node) *string { return &n.rescueInterface }),
	text("reservation", func(n *node) *string { return &n.Reservation }),
	text("resource_class", func(n *node) *string { return &n.resourceClass }),
	{name: "retired", boolAt: func(n *node) *bool { return &n.Retired }},
	text("retired_reason", func(n *node) *string { return &n.retiredReason }),
	{name: "secure_boot", nullAt: func(n *node) **bool { return &n.secureBoot }},
	since(87, column("service_step", func(n *node) **object { return &n.serviceStep })),
	text("shard", func(n *node) *string { return &n.shard }),
	text("storage_interface", func(n *node) *string { return &n.storageInterface }),
	text("target_power_state", func(n *node) *string { return &n.TargetPowerState }),
	text("target_provision_state", func(n *node) *string { return &n.TargetProvisionState }),
	column("target_raid_config", func(n *node) **object { return &n.targetRAIDConfig }),
	{name: "traits", get: func(*node) any { return []string{} }},
	text("vendor_interface", func(n *node) *string { return &n.vendorInterface }),
	{name: "conductor", wire: true},
	{name: "allocation_uuid", wire: true, get: func(*node) any { return nil }},
	{name: "chassis_uuid", wire: true, get: func(*node) any { return nil }},
}

var fieldByName = func() map[string]*field {
	m := make(map[string]*field, len(nodeFields))
	for i := range nodeFields {
		m[nodeFields[i].name] = &nodeFields[i]
	}
	return m
}()

// interfaceKinds are the hardware interfaces of a node in the order in which
// Ironic checks them; the field is KIND_interface.
var interfaceKinds = []string{
	"boot", "deploy", "management", "network", "power", "bios", "console",
	"firmware", "inspect", "raid", "rescue", "storage", "vendor",
}

func interfaceOf(n *node, kind string) *string {
	return fieldByName[kind+"_interface"].stringAt(n)
}
