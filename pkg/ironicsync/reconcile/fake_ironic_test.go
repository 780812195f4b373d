// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/enginetest"
)

// fakeIronic is an Ironic with one kind of BMC behind it. It has rules of its own,
// kinder than Ironic's: no maintenance refuses anything, a teardown is
// a cleaning, an instance is gone before that. It is for TestNeighbours; all others use the simulator.
type fakeIronic struct {
	*enginetest.Nodes
	registrations map[string]*ironic.Registration
	ports         map[string]string // node by MAC address
}

func newFakeIronic() *fakeIronic {
	return &fakeIronic{
		Nodes: enginetest.NewNodes(), registrations: map[string]*ironic.Registration{}, ports: map[string]string{},
	}
}

func apiError(code int, message string) error {
	return &ironic.APIError{Status: code, Message: message, Op: "test"}
}

// edit changes a node, as something that happens in Ironic. f.mu is held.
func (f *fakeIronic) edit(id string, change func(*ironic.Node)) {
	node, ok := f.ByID[id]
	if !ok {
		return
	}
	before := node.ProvisionState
	change(&node)
	now := time.Now()
	node.UpdatedAt = &now
	if node.ProvisionState != before {
		node.ProvisionUpdatedAt = &now
	}
	if r := f.registrations[id]; r != nil {
		describe(&node, r)
	}
	f.ByID[id] = node
}

// describe gives a node what a read of it shows of its registration.
func describe(node *ironic.Node, r *ironic.Registration) {
	text := func(values map[string]any, key string) ironic.Text {
		value, _ := values[key].(string)
		return ironic.Text(value)
	}
	node.InstanceUUID = r.InstanceUUID
	node.Marks = ironic.Marks{Host: text(r.Extra, ironic.HostMark), Cluster: text(r.Extra, ironic.ClusterMark)}
	node.Address = ironic.Address{IPMIAddress: text(r.DriverInfo, "ipmi_address"), IPMIPort: text(r.DriverInfo, "ipmi_port"),
		RedfishAddress: text(r.DriverInfo, "redfish_address"), RedfishSystem: text(r.DriverInfo, "redfish_system_id")}
	node.AutomatedClean = ""
	if r.AutomatedClean != nil {
		node.AutomatedClean = ironic.Text(strconv.FormatBool(*r.AutomatedClean))
	}
}

// do is the way of all requests that change something.
func (f *fakeIronic) do(ctx context.Context, fence ironic.Fence, change func() error) error {
	if err := f.Wait(ctx, f.Single); err != nil {
		return err
	}
	if err := fence.Check(); err != nil { // as the client does
		return err
	}
	f.Mu.Lock()
	defer f.Mu.Unlock()
	return change()
}

func (f *fakeIronic) GetNode(ctx context.Context, idOrName string) (*ironic.Node, error) {
	f.Mu.Lock()
	id := idOrName
	for _, node := range f.ByID {
		if node.Name == idOrName {
			id = node.UUID
		}
	}
	f.Mu.Unlock()
	return f.Nodes.GetNode(ctx, id)
}

func (f *fakeIronic) ListDrivers(context.Context) ([]string, error) {
	return []string{"ipmi", "redfish"}, nil
}

func (f *fakeIronic) Features(context.Context) (ironic.Features, error) {
	return ironic.FeaturesOf(ironic.NewestAPIVersion), nil
}

func (f *fakeIronic) GetRegistration(ctx context.Context, id string) (r *ironic.Registration, err error) {
	err = f.do(ctx, ironic.NoFence, func() error {
		known, ok := f.registrations[id]
		if !ok {
			return apiError(404, "Node "+id+" could not be found.")
		}
		copied := *known
		r = &copied
		r.DriverInfo, r.InstanceInfo = maps.Clone(known.DriverInfo), maps.Clone(known.InstanceInfo)
		r.DriverInfo["ipmi_password"] = "******"
		return nil
	})
	return r, err
}

func (f *fakeIronic) CreateNode(ctx context.Context, fence ironic.Fence, create ironic.NodeCreate) (made *ironic.Node, err error) {
	err = f.do(ctx, fence, func() error {
		for _, node := range f.ByID {
			if node.UUID == create.UUID || node.Name == create.Name {
				return apiError(409, "A node with UUID or name already exists.")
			}
		}
		now := time.Now()
		f.ByID[create.UUID] = ironic.Node{UUID: create.UUID, Name: create.Name, Driver: create.Driver, ProvisionState: ironic.Enroll, UpdatedAt: &now}
		info := map[string]any{}
		maps.Copy(info, create.InstanceInfo)
		f.registrations[create.UUID] = &ironic.Registration{
			DriverInfo: create.DriverInfo, Extra: create.Extra, Properties: create.Properties, AutomatedClean: create.AutomatedClean,
			DisablePowerOff: create.DisablePowerOff, InspectInterface: create.InspectInterface, BootInterface: create.BootInterface, RAIDInterface: create.RAIDInterface, NetworkData: create.NetworkData, InstanceInfo: info, InstanceUUID: create.InstanceUUID,
		}
		f.edit(create.UUID, func(*ironic.Node) {})
		node := f.ByID[create.UUID]
		made = &node
		return nil
	})
	return made, err
}

func (f *fakeIronic) UpdateNode(ctx context.Context, fence ironic.Fence, id string, patches []ironic.Patch) (updated *ironic.Node, err error) {
	err = f.do(ctx, fence, func() error {
		r, ok := f.registrations[id]
		if !ok {
			return apiError(404, "Node "+id+" could not be found.")
		}
		for _, p := range patches {
			if state := f.ByID[id].ProvisionState; strings.HasSuffix(p.Path, "_interface") && state != ironic.Enroll && state != ironic.Manageable && state != ironic.Available {
				return apiError(409, fmt.Sprintf("Node %s can not have %s updated unless it is in one of allowed (enroll, manageable, inspecting, inspect wait, available) states or in maintenance mode.", id, strings.TrimPrefix(p.Path, "/")))
			}
			if key, ok := strings.CutPrefix(p.Path, "/driver_info/"); ok {
				r.DriverInfo[key] = p.Value
				if p.Op == ironic.PatchRemove {
					delete(r.DriverInfo, key)
				}
			}
			if key, ok := strings.CutPrefix(p.Path, "/extra/"); ok {
				r.Extra = maps.Clone(r.Extra) // readers have the old one
				r.Extra[key] = p.Value
			}
			if key, ok := strings.CutPrefix(p.Path, "/instance_info/"); ok {
				r.InstanceInfo[key] = p.Value
			}
			switch p.Path {
			case "/instance_uuid":
				if p.Op == ironic.PatchAdd && r.InstanceUUID != "" {
					return apiError(409, "Node "+id+" is associated with instance "+r.InstanceUUID+".")
				}
				r.InstanceUUID, _ = p.Value.(string)
			case "/name":
				name := p.Value.(string)
				f.edit(id, func(n *ironic.Node) { n.Name = name })
			case "/network_data":
				r.NetworkData = p.Value.(map[string]any)
			case "/raid_interface":
				r.RAIDInterface = p.Value.(string)
			case "/inspect_interface":
				r.InspectInterface = p.Value.(string)
			case "/automated_clean":
				clean := p.Value.(bool)
				r.AutomatedClean = &clean
			case "/properties/capabilities":
				r.Properties["capabilities"] = p.Value
			case "/properties/cpu_arch":
				r.Properties["cpu_arch"] = p.Value
			}
		}
		f.edit(id, func(*ironic.Node) {})
		node := f.ByID[id]
		updated = &node
		return nil
	})
	return updated, err
}

func (f *fakeIronic) DeleteNode(ctx context.Context, fence ironic.Fence, id string) error {
	return f.do(ctx, fence, func() error {
		if _, ok := f.ByID[id]; !ok {
			return apiError(404, "Node "+id+" could not be found.")
		}
		delete(f.ByID, id)
		delete(f.registrations, id)
		maps.DeleteFunc(f.ports, func(_, node string) bool { return node == id })
		return nil
	})
}

func (f *fakeIronic) SetMaintenance(ctx context.Context, fence ironic.Fence, id, reason string) error {
	return f.do(ctx, fence, func() error {
		f.edit(id, func(n *ironic.Node) { n.Maintenance, n.MaintenanceReason = true, reason })
		return nil
	})
}

func (f *fakeIronic) ClearMaintenance(ctx context.Context, fence ironic.Fence, id string) error {
	return f.do(ctx, fence, func() error {
		f.edit(id, func(n *ironic.Node) { n.Maintenance, n.MaintenanceReason, n.Fault = false, "", "" })
		return nil
	})
}

func (f *fakeIronic) Validate(ctx context.Context, _ string, _ ...string) ([]string, error) {
	return nil, f.do(ctx, ironic.NoFence, func() error { return nil })
}

// SwitchPower takes a second.
func (f *fakeIronic) SwitchPower(ctx context.Context, fence ironic.Fence, id string, target ironic.PowerTarget) (ironic.PowerTarget, string, error) {
	return target, "", f.do(ctx, fence, func() error {
		f.edit(id, func(n *ironic.Node) { n.TargetPowerState, n.Reservation, n.LastError = target, "conductor-0", "" })
		f.later(id, time.Second, func(n *ironic.Node) {
			n.TargetPowerState, n.Reservation = "", ""
			n.PowerState = ironic.PowerOn
			if target == ironic.TargetPowerOff || target == ironic.TargetSoftPowerOff {
				n.PowerState = ironic.PowerOff
			}
		})
		return nil
	})
}

// later is what has become of a node after some time. f.mu is held.
func (f *fakeIronic) later(id string, after time.Duration, change func(*ironic.Node)) {
	time.AfterFunc(after, func() {
		f.Mu.Lock()
		defer f.Mu.Unlock()
		f.edit(id, change)
	})
}

// transitions are what a verb does in a state: what Ironic is in meanwhile, if
// that takes time, and then.
var transitions = map[ironic.ProvisionTarget]map[ironic.ProvisionState][2]ironic.ProvisionState{
	ironic.TargetManage: {
		ironic.Enroll: {ironic.Verifying, ironic.Manageable}, ironic.Available: {"", ironic.Manageable}, ironic.CleanFail: {"", ironic.Manageable},
		ironic.InspectFail: {"", ironic.Manageable},
	},
	ironic.TargetInspect: {ironic.Manageable: {ironic.Inspecting, ironic.Manageable}, ironic.InspectFail: {ironic.Inspecting, ironic.Manageable}},
	ironic.TargetProvide: {ironic.Manageable: {ironic.Cleaning, ironic.Available}},
	ironic.TargetClean:   {ironic.Manageable: {ironic.Cleaning, ironic.Manageable}},
	ironic.TargetActive:  {ironic.Available: {ironic.Deploying, ironic.Active}},
	ironic.TargetAdopt:   {ironic.Manageable: {ironic.Adopting, ironic.Active}},
	ironic.TargetDeleted: {
		ironic.Active: {ironic.Cleaning, ironic.Available}, ironic.DeployFail: {ironic.Cleaning, ironic.Available},
		ironic.Error: {ironic.Cleaning, ironic.Available},
	},
}

// lockOutlasts is for how long a node remains locked in the state that a conductor has brought it to. Polls
// show it.
const lockOutlasts = 500 * time.Millisecond

// SetProvisionState takes a second for what is not done at once.
func (f *fakeIronic) SetProvisionState(ctx context.Context, fence ironic.Fence, id string, target ironic.ProvisionTarget, _ ironic.ProvisionOptions) error {
	return f.do(ctx, fence, func() error {
		node, ok := f.ByID[id]
		way, allowed := transitions[target][node.ProvisionState]
		switch {
		case !ok:
			return apiError(404, "Node "+id+" could not be found.")
		case node.Reservation != "":
			return apiError(409, "Node "+id+" is locked by host conductor-0")
		case !allowed:
			return apiError(400, fmt.Sprintf(`The requested action "%s" can not be performed on node "%s" while it is in state "%s".`, target, id, node.ProvisionState))
		case way[0] == "":
			f.edit(id, func(n *ironic.Node) { n.ProvisionState = way[1] })
			return nil
		}
		if target == ironic.TargetDeleted {
			f.registrations[id].InstanceUUID = ""
		}
		f.edit(id, func(n *ironic.Node) {
			n.ProvisionState, n.TargetProvisionState, n.Reservation, n.LastError = way[0], string(way[1]), "conductor-0", ""
		})
		const took = time.Second
		f.later(id, took, func(n *ironic.Node) {
			n.ProvisionState, n.TargetProvisionState = way[1], ""
			now := time.Now()
			switch {
			case way[0] == ironic.Verifying && n.PowerState == "":
				n.PowerState = ironic.PowerOff
			case way[0] == ironic.Inspecting:
				n.InspectionFinishedAt = &now
				f.registrations[id].Properties["cpu_arch"] = "x86_64"
			}
		})
		// A conductor releases its lock only after the node has reached its new state.
		f.later(id, took+lockOutlasts, func(n *ironic.Node) { n.Reservation = "" })
		return nil
	})
}

// SetTargetRAID is not called: no host of these tests has volumes.
func (f *fakeIronic) SetTargetRAID(context.Context, ironic.Fence, string, []ironic.LogicalDisk) error {
	return apiError(404, "Driver ipmi does not support raid (disabled or not implemented).")
}

// ListBIOSSettings has none.
func (f *fakeIronic) ListBIOSSettings(ctx context.Context, _ string) ([]ironic.BIOSSetting, error) {
	return nil, f.do(ctx, ironic.NoFence, func() error { return nil })
}

// ListFirmware has none.
func (f *fakeIronic) ListFirmware(ctx context.Context, _ string) ([]ironic.FirmwareComponent, error) {
	return nil, f.do(ctx, ironic.NoFence, func() error { return nil })
}

// GetInventory is that of a small machine.
func (f *fakeIronic) GetInventory(ctx context.Context, _ string) (inventory *ironic.Inventory, err error) {
	err = f.do(ctx, ironic.NoFence, func() error {
		inventory = &ironic.Inventory{Inventory: []byte(`{"hostname":"worker-0","cpu":{"architecture":"x86_64","count":4},"memory":{"physical_mb":4096}}`)}
		return nil
	})
	return inventory, err
}

func (f *fakeIronic) ListPorts(ctx context.Context, filter ironic.PortFilter) (ports []ironic.Port, err error) {
	err = f.do(ctx, ironic.NoFence, func() error {
		for mac, node := range f.ports {
			if filter.Address == mac || filter.Node == node {
				ports = append(ports, ironic.Port{UUID: "port-" + mac, NodeUUID: node, Address: mac})
			}
		}
		return nil
	})
	return ports, err
}

func (f *fakeIronic) CreatePort(ctx context.Context, fence ironic.Fence, node, mac string, _ bool) (port *ironic.Port, err error) {
	err = f.do(ctx, fence, func() error {
		if _, ok := f.ports[mac]; ok {
			return apiError(409, "A port with MAC address "+mac+" already exists.")
		}
		f.ports[mac] = node
		port = &ironic.Port{UUID: "port-" + mac, NodeUUID: node, Address: mac}
		return nil
	})
	return port, err
}
