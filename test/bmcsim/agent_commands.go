// SPDX-License-Identifier: Apache-2.0

package bmcsim

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// action executes a command. Ironic shows its error as the node's last_error.
type action func(ctx context.Context, params json.RawMessage) (any, error)

// lookup returns the action of a command and the command's name without the extension before the dot,
// under which the agent lists it.
func (a *agent) lookup(full string) (action, string) {
	extension, name, _ := strings.Cut(full, ".")
	switch full {
	case "clean.get_clean_steps", "deploy.get_deploy_steps", "service.get_service_steps":
		return a.getSteps(extension), name
	case "clean.execute_clean_step", "deploy.execute_deploy_step", "service.execute_service_step":
		return a.executeStep(extension), name
	case "standby.get_partition_uuids":
		return a.partitionUUIDs, name
	case "standby.sync", "image.install_bootloader", "rescue.finalize_rescue":
		return func(context.Context, json.RawMessage) (any, error) { return nil, nil }, name
	case "standby.power_off":
		return a.powerOff, name
	case "standby.run_image", "standby.reboot":
		return a.reboot, name
	case "system.lockdown":
		return a.lockDown, name
	case "log.collect_system_logs":
		return a.systemLogs, name
	}
	return nil, ""
}

func isStep(full string) bool { return strings.Contains(full, ".execute_") }

// step is a step of cleaning, deployment or servicing.
type step struct {
	Interface string         `json:"interface"`
	Step      string         `json:"step"`
	Priority  int            `json:"priority"`
	Args      map[string]any `json:"args,omitempty"`
}

// usualSteps are the steps of the agent's generic hardware manager. Steps with a priority greater than
// 0 run by default.
var usualSteps = map[string][]step{
	"clean": {
		{Interface: "deploy", Step: "erase_devices", Priority: 10},
		{Interface: "deploy", Step: "erase_devices_metadata", Priority: 99},
		{Interface: "deploy", Step: "erase_devices_express"},
		{Interface: "raid", Step: "create_configuration"},
		{Interface: "raid", Step: "delete_configuration"},
		{Interface: "deploy", Step: "burnin_cpu"},
	},
	"deploy": {
		{Interface: "deploy", Step: "write_image"},
		{Interface: "deploy", Step: "inject_files"},
		{Interface: "deploy", Step: "erase_devices_metadata"},
		{Interface: "raid", Step: "apply_configuration"},
	},
	"service": {
		{Interface: "raid", Step: "create_configuration"},
		{Interface: "raid", Step: "delete_configuration"},
		{Interface: "raid", Step: "apply_configuration"},
		{Interface: "deploy", Step: "burnin_cpu"},
	},
}

func (a *agent) getSteps(kind string) action {
	return func(context.Context, json.RawMessage) (any, error) {
		steps := []object{}
		add := func(s step) {
			steps = append(steps, object{
				"interface": s.Interface, "step": s.Step, "priority": s.Priority, "reboot_requested": false, "abortable": true,
			})
		}
		for _, s := range usualSteps[kind] {
			add(s)
		}
		if kind == "deploy" {
			for _, name := range a.machine.sim.options.DeploySteps {
				add(step{Interface: "deploy", Step: name})
			}
		}
		return object{
			kind + "_steps":            object{"GenericHardwareManager": steps},
			"hardware_manager_version": object{"generic_hardware_manager": "1.2"},
		}, nil
	}
}

func (a *agent) executeStep(kind string) action {
	return func(ctx context.Context, params json.RawMessage) (any, error) {
		var request struct {
			Step map[string]any
			Node struct {
				InstanceInfo map[string]any `json:"instance_info"`
				TargetRAID   map[string]any `json:"target_raid_config"`
			}
		}
		if err := json.Unmarshal(params, &request); err != nil {
			return nil, err
		}
		name, _ := request.Step["step"].(string)
		args, _ := request.Step["args"].(map[string]any)
		if !sleep(ctx, a.machine.sim.options.StepDelay) {
			return nil, ctx.Err()
		}
		for hangs := kind == "clean"; hangs; {
			if _, hangs = a.machine.fault(CleanStepHangs); hangs && !sleep(ctx, 50*time.Millisecond) {
				return nil, ctx.Err()
			}
		}
		result, err := a.runStep(ctx, kind, name, args, request.Node.InstanceInfo, request.Node.TargetRAID)
		if err != nil {
			return nil, fmt.Errorf("%s step %s: %w", kind, name, err)
		}
		return object{kind + "_step": request.Step, kind + "_result": result}, nil
	}
}

func (a *agent) runStep(ctx context.Context, kind, name string, args, instance, targetRAID map[string]any) (any, error) {
	m := a.machine
	m.mu.Lock()
	m.steps = append(m.steps, kind+" "+name)
	m.mu.Unlock()
	if message, fails := m.fault(map[string]Fault{"clean": CleanStepFails, "deploy": DeployStepFails}[kind]); fails {
		return nil, errors.New(message)
	}
	switch {
	case kind == "deploy" && name == "write_image":
		return m.writeImage(ctx, args)
	case kind == "deploy" && slices.Contains(m.sim.options.DeploySteps, name):
		return m.writeCustom(ctx, name, instance)
	case name == "create_configuration":
		return m.createSoftwareRAID(kind+" "+name, targetRAID)
	case name == "delete_configuration":
		m.deleteSoftwareRAID(kind + " " + name)
		return nil, nil
	case name == "apply_configuration":
		if existing, given := args["delete_existing"].(bool); existing || !given {
			m.deleteSoftwareRAID(kind + " " + name)
		}
		config, _ := args["raid_config"].(map[string]any)
		return m.createSoftwareRAID(kind+" "+name, config)
	}
	m.eraseDisks(kind, name)
	return nil, nil
}

// partitionUUIDs returns nothing, because whole-disk images need no boot loader.
func (a *agent) partitionUUIDs(context.Context, json.RawMessage) (any, error) { return object{}, nil }

func (a *agent) powerOff(context.Context, json.RawMessage) (any, error) {
	a.machine.mu.Lock()
	defer a.machine.mu.Unlock()
	// This happens before the answer is sent. A real ramdisk also takes a moment to power off.
	a.machine.change++
	a.machine.turn(Off, "ramdisk")
	return nil, nil
}

func (a *agent) reboot(context.Context, json.RawMessage) (any, error) {
	a.machine.mu.Lock()
	defer a.machine.mu.Unlock()
	a.machine.change++
	a.machine.restart("ramdisk")
	return nil, nil
}

// lockDown makes the agent unreachable without switching the machine off.
func (a *agent) lockDown(context.Context, json.RawMessage) (any, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.locked = true
	return nil, nil
}

// systemLogs returns the logs that Ironic stores after a failure, compressed by gzip and encoded in
// base64.
func (a *agent) systemLogs(context.Context, json.RawMessage) (any, error) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	fmt.Fprintf(z, "ramdisk of %s\n", a.machine.name)
	if err := z.Close(); err != nil {
		return nil, err
	}
	return object{"system_logs": base64.StdEncoding.EncodeToString(packed.Bytes())}, nil
}
