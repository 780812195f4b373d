// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// errorLag is the time between a failed state and its last_error.
const errorLag = 5 * time.Millisecond

// startDeploy is do_node_deploy, for active and rebuild.
func (t *task) startDeploy(verb string, a *provisionArgs) error {
	n := t.node()
	if err := t.s.validateDeploy(n); err != nil {
		return t.reject(badRequest("Failed to validate deploy or power info for node %s: %v", n.UUID, err))
	}
	return t.begin(verb, func() { t.deploy(a.configdrive) })
}

func (s *Sim) validateDeploy(n *node) error {
	if err := validatePower(n); err != nil {
		return err
	}
	if !bootsRamdisk(n) {
		return nil
	}
	if bootsISO(n) && n.bootInterface == "fake" {
		return badRequest("Invalid configuration: The boot interface must have the `ramdisk_boot` capability. You are using an incompatible boot interface.")
	}
	if err := s.validateBoot(n); err != nil {
		return err
	}
	if bootsISO(n) {
		return s.lookFor(n.instanceInfo.string("boot_iso"))
	}
	if n.deployInterface != "direct" {
		return nil
	}
	info := n.instanceInfo
	if info.string("image_source") == "" {
		return badRequest("Node %s failed to validate deploy image info. Some parameters were missing. Missing are: ['instance_info.image_source']", n.UUID)
	}
	if source := info.string("image_source"); strings.HasPrefix(source, "oci://") || strings.HasPrefix(source, "file://") {
		return nil // the registry has the checksum; that of a file is computed
	}
	algo, value := info.string("image_os_hash_algo"), info.string("image_os_hash_value")
	if algo != "" && value == "" || algo == "" && info.string("image_checksum") == "" {
		return badRequest(`image_source's "image_checksum", or "image_os_hash_algo" and "image_os_hash_value" must be provided in instance_info for node %s`, n.UUID)
	}
	return s.lookFor(info.string("image_source"))
}

func (t *task) deploy(configdrive any) {
	s := t.s
	if configdrive != nil && configdrive != "" {
		t.save(func(n *node) { n.instanceInfo = newSecretObject(n.instanceInfo.with("configdrive", configdrive)) })
	}
	t.save(func(n *node) {
		if n.instanceInfo.string("image_source") != "" && n.instanceInfo.string("kernel") == "" {
			n.instanceInfo = newSecretObject(n.instanceInfo.with("image_type", "whole-disk"))
		}
		n.deployStep = newObject(map[string]any{"interface": "deploy", "step": "deploy", "priority": 100})
		n.atStep("deploy", []any{map[string]any{"interface": "deploy", "step": "deploy", "priority": 100}}, 0)
	})
	if !t.sleep(s.opts.Delays.Deploy) {
		return
	}
	if text := t.planned("deploy"); text != "" {
		t.deployFailed(text)
		return
	}
	n := t.node()
	if !bootsRamdisk(n) {
		t.done(func(n *node) { n.deployStep = emptyObject; n.noSteps("deploy") })
		return
	}
	if err := s.validateNetwork(n); err != nil {
		t.deployFailed(fmt.Sprintf("Failed to prepare to deploy: %v", err))
		return
	}
	if bootsISO(n) { // what is deployed is what it boots
		if err := t.powerAction(fsm.Reboot, 0); err != nil {
			t.deployFailed(fmt.Sprintf("Deploy step deploy.deploy failed: %v.", err))
			return
		}
		t.done(func(n *node) { n.deployStep = emptyObject; n.noSteps("deploy") })
		return
	}
	if err := t.bootRamdisk(); err != nil {
		t.deployFailed(fmt.Sprintf("Failed to prepare to deploy: %v", err))
		return
	}
	t.wait(s.opts.AutoDeploy, func() {
		t.resume(func(t *task) {
			step := deployStep(t.node())
			t.inBandSteps(step)
			if step != "" {
				t.touchDisks(step)
			}
			if !t.sleep(s.opts.Delays.Deploy) {
				return
			}
			// The machine ends up switched on, booting its new disk.
			if err := t.leaveRamdisk(); err != nil {
				t.deployFailed(fmt.Sprintf("Error rebooting node %s after deploy. Error: %v", n.UUID, err))
				return
			}
			t.done(func(n *node) { n.deployStep = emptyObject; n.noSteps("deploy") })
		})
	})
}

// inBandSteps adds the steps of the ramdisk to those of the deployment. The second one is the
// current one.
func (t *task) inBandSteps(id string) {
	kind, name, found := strings.Cut(id, ".")
	if !found {
		return
	}
	steps := []any{map[string]any{"interface": "deploy", "step": "deploy", "priority": 100}}
	for i, s := range []string{name, "prepare_instance_boot", "tear_down_agent", "switch_to_tenant_network", "boot_instance"} {
		steps = append(steps, map[string]any{"interface": kind, "step": s, "priority": 80 - 10*i})
	}
	t.save(func(n *node) {
		n.atStep("deploy", steps, 1)
		n.driverInternalInfo = newSecretObject(n.driverInternalInfo.with("steps_validated", true))
		n.deployStep = newObject(steps[1].(map[string]any))
	})
}

// deployFailed moves the node to deploy failed; the text follows (see cleanFailed).
func (t *task) deployFailed(text string) {
	if !t.move(t.s.machine.Fail, nil) {
		return
	}
	if t.sleep(errorLag) {
		t.explain("deploying", text, func(n *node) { n.LastError = text; n.deployStep = emptyObject; n.noSteps("deploy") })
	}
}

// startDelete is do_node_tear_down.
func (t *task) startDelete() error {
	n := t.node()
	if err := validatePower(n); err != nil {
		return t.reject(fault(http.StatusInternalServerError, "Failed to validate power driver interface. Can not delete instance. Error: %v", err))
	}
	return t.begin("deleted", t.tearDown)
}

func (t *task) tearDown() {
	if !t.sleep(t.s.opts.Delays.Delete) {
		return
	}
	text := t.planned("delete")
	if text == "" && bootsRamdisk(t.node()) {
		if err := t.leaveRamdisk(); err != nil {
			text = err.Error()
		}
	}
	forget := func(n *node) { n.instanceInfo = emptyObject }
	if text != "" {
		t.fail("unprovision", "Failed to tear down: "+text, forget)
		return
	}
	if t.done(forget) {
		t.clean()
	}
}

// startService is the service verb.
func (t *task) startService(steps []any) error {
	n := t.node()
	if err := cmp.Or(validatePower(n), t.s.validateNetwork(n)); err != nil {
		return t.reject(badRequest("Validation of node %s for servicing failed: %v", n.UUID, err))
	}
	return t.begin("service", func() { servicing.start(t, steps) })
}

// serviceFailed leaves the machine in the ramdisk. When it was in a step, it puts the node into maintenance.
func (t *task) serviceFailed(text string, inStep bool) {
	t.fail("servicing", text, func(n *node) {
		n.serviceStep = emptyObject
		n.driverInternalInfo = newSecretObject(n.driverInternalInfo.without("service_step_index")) // the list stays
		if inStep {
			n.BreakDown()
		}
	})
}

// serviceDone boots what is deployed again.
func (t *task) serviceDone() {
	if bootsRamdisk(t.node()) {
		if err := t.leaveRamdisk(); err != nil {
			t.serviceFailed(fmt.Sprintf("Failed to tear down from service for node %s, reason: %v", t.node().UUID, err), false)
			return
		}
	}
	t.done(func(n *node) { n.serviceStep = emptyObject; n.noSteps("service") })
}

// leaveService is what an abort does in Ironic 32 and later: the node, which is in service failed, becomes active,
// and boots what is deployed again.
func (t *task) leaveService(text string) {
	if !t.s.machine.AbortsService() {
		return
	}
	if bootsRamdisk(t.node()) {
		_ = t.leaveRamdisk() // the error is in last_error
	}
	t.move(func(n *fsm.Node) bool { return t.s.machine.ServiceAborted(n, text) },
		func(n *node) { n.serviceStep = emptyObject; n.noSteps("service") })
}
