// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"bytes"
	"cmp"
	"crypto/md5"
	"fmt"
	"maps"
	"strings"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// startInspect is inspect_hardware.
func (t *task) startInspect() error {
	n := t.node()
	err := validatePower(n)
	if err == nil {
		switch n.inspectInterface {
		case "no-inspect":
			err = errUnsupported(n.driver, "inspect")
		case "redfish":
			err = validateRedfish(n)
		}
	}
	if err != nil {
		return t.reject(err)
	}
	return t.begin("inspect", t.inspect)
}

func (t *task) inspect() {
	s := t.s
	if !t.sleep(s.opts.Delays.Inspect) {
		return
	}
	if text := t.planned("inspect"); text != "" {
		t.inspectFailed(text)
		return
	}
	n := t.node()
	switch n.inspectInterface {
	case "redfish": // out of band: the BMC knows the hardware
		state, err := s.readPower(t.c.ctx, n)
		if err != nil {
			t.inspectFailed(err.Error())
			return
		}
		t.save(func(n *node) { n.PowerState = state })
		inventory, data := s.makeInventory(n)
		t.finishInspection(inventory, data, false)
	case "agent":
		if err := t.bootToInspect(); err != nil {
			t.inspectFailed(fmt.Sprintf("Failed to inspect hardware. Reason: unable to start inspection: %v", err))
			return
		}
		t.wait(s.opts.AutoInspect, func() {
			inventory, data := s.makeInventory(t.node())
			t.resume(func(t *task) { t.finishInspection(inventory, data, true) })
		})
	default: // fake: no inventory
		t.done(nil)
	}
}

// bootToInspect has the machine boot the ramdisk. One that must not be switched off is rebooted.
func (t *task) bootToInspect() error {
	if t.node().DisablePowerOff {
		return t.powerAction(fsm.Reboot, 0)
	}
	if err := t.powerAction(fsm.PowerOff, 0); err != nil {
		return err
	}
	return t.powerAction(fsm.PowerOn, 0)
}

func (t *task) inspectFailed(text string) { t.fail("introspection", text, nil) }

// finishInspection processes what a ramdisk, or a BMC, has reported.
func (t *task) finishInspection(inventory, data map[string]any, ramdisk bool) {
	s, n := t.s, t.node()
	if reported := data["error"]; reported != nil && reported != "" {
		t.inspectFailed(fmt.Sprintf("Failed to finish inspection: Failed to inspect hardware. Reason: failed to run inspection hooks: Failed to inspect hardware. Reason: The following failures happened while running preprocess hooks for node %s:\nError in preprocess hook ramdisk-error: Failed to inspect hardware. Reason: Ramdisk reported error: %s",
			n.UUID, pyRepr(reported, false)))
		return
	}
	data = maps.Clone(data)
	delete(data, "logs")
	all, valid, macs := interfacesOf(inventory, data)
	if ramdisk {
		data["all_interfaces"], data["valid_interfaces"], data["macs"] = all, valid, macs
	}
	s.mu.Lock()
	for _, mac := range macs {
		if s.byMAC[mac] == nil && t.alive() && !t.e.gone {
			s.addPort(mac, n.UUID)
		}
	}
	s.mu.Unlock()
	if cpu, ok := inventory["cpu"].(map[string]any); ok && textOf(cpu["architecture"]) != "" {
		t.save(func(n *node) { n.properties = newObject(n.properties.with("cpu_arch", cpu["architecture"])) })
	}
	if ramdisk {
		// [inspector]power_off: the machine is switched off when it is done.
		if err := t.leaveRamdisk(); err != nil {
			t.inspectFailed(fmt.Sprintf("Inspection clean up failed: %v", err))
			return
		}
	}
	stored := mustJSON(map[string]any{"inventory": inventory, "plugin_data": data})
	if !t.done(nil) || !t.sleep(s.opts.InventoryLag) {
		return
	}
	s.mu.Lock()
	if t.alive() {
		t.e.inventory = stored
		if t.e.inventoryToStore != nil {
			t.e.inventory = t.e.inventoryToStore
		}
	}
	s.mu.Unlock()
}

// interfacesOf is the validate-interfaces hook: all NICs by name, those that get
// a port, and the MAC addresses of the latter.
func interfacesOf(inventory, data map[string]any) (all, valid map[string]any, macs []string) {
	all, valid, macs = map[string]any{}, map[string]any{}, []string{}
	boot, _ := inventory["boot"].(map[string]any)
	pxe := strings.ToLower(textOf(boot["pxe_interface"]))
	if pxe == "" {
		pxe = strings.ToLower(textOf(data["boot_interface"]))
	}
	if len(pxe) == len("01-52-54-00-00-00-01") { // the form of pxelinux
		pxe = strings.ReplaceAll(pxe[3:], "-", ":")
	}
	list, _ := inventory["interfaces"].([]any)
	for i, item := range list {
		nic, _ := item.(map[string]any)
		mac, ok := normalMAC(textOf(nic["mac_address"]))
		if !ok {
			continue
		}
		name := textOf(nic["name"])
		if name == "" {
			name = fmt.Sprintf("nic%d", i)
		}
		nic = maps.Clone(nic)
		nic["pxe_enabled"] = mac == pxe
		if _, ok := nic["ipv6_address"]; !ok {
			nic["ipv6_address"] = nil
		}
		all[name] = nic
		if pxe == "" || mac == pxe {
			valid[name] = nic
			macs = append(macs, mac)
		}
	}
	return all, valid, macs
}

// makeInventory invents the hardware of a node's machine, always the same for one machine, whichever node it is inspected for. Its
// network cards are those that had ports when it was first inspected.
func (s *Sim) makeInventory(n *node) (inventory, data map[string]any) {
	s.mu.Lock()
	seed := strings.ReplaceAll(n.UUID, "-", "")
	var macs []string
	b, _ := s.bmcOf(n)
	if b != nil {
		seed, macs = fmt.Sprintf("%x", md5.Sum([]byte(b.address))), b.macs
	}
	if macs == nil {
		for _, p := range s.portIDs {
			if p.nodeUUID == n.UUID {
				macs = append(macs, p.address)
			}
		}
	}
	if len(macs) == 0 {
		macs = []string{fmt.Sprintf("52:54:00:%s:%s:%s", seed[0:2], seed[2:4], seed[4:6])}
	}
	serial := "SN-" + seed[:12]
	if b != nil {
		b.macs = macs
		serial = cmp.Or(b.serial, serial)
	}
	s.mu.Unlock()
	nics := []any{}
	for i, mac := range macs {
		nics = append(nics, map[string]any{
			"name": fmt.Sprintf("eth%d", i), "mac_address": mac, "ipv4_address": fmt.Sprintf("198.51.100.%d", n.id%250+1),
			"ipv6_address": nil, "has_carrier": true, "lldp": nil, "vendor": "0x1af4", "product": "0x0001",
			"client_id": nil, "biosdevname": nil, "speed_mbps": 10000,
		})
	}
	disk := map[string]any{
		"name": "/dev/sda", "model": "QEMU HARDDISK", "size": 53687091200, "rotational": true, "wwn": "0x50014ee2" + seed[:8],
		"serial": "drive-scsi0-" + seed[:8], "vendor": "QEMU", "wwn_with_extension": nil, "wwn_vendor_extension": nil,
		"hctl": "0:0:0:0", "by_path": "/dev/disk/by-path/pci-0000:00:05.0-scsi-0:0:0:0",
	}
	inventory = map[string]any{
		"interfaces": nics,
		"cpu": map[string]any{"model_name": "Intel Xeon E5-2680 v4", "frequency": "2400.000", "count": 8,
			"architecture": "x86_64", "flags": []any{"fpu", "vme", "sse2", "vmx"}},
		"disks": []any{disk}, "memory": map[string]any{"total": 16777216000, "physical_mb": 16384},
		"bmc_address": bmcHost(n), "bmc_v6address": "::/0",
		"system_vendor": map[string]any{"product_name": "Standard PC (Q35 + ICH9, 2009)", "serial_number": serial,
			"manufacturer": "QEMU", "firmware": map[string]any{"vendor": "SeaBIOS", "version": "1.16.0", "build_date": "04/01/2014"}},
		"boot":     map[string]any{"current_boot_mode": "uefi", "pxe_interface": macs[0]},
		"hostname": "host-" + seed[:8],
	}
	data = map[string]any{"root_disk": disk, "boot_interface": macs[0], "error": nil,
		"configuration": map[string]any{"collectors": []any{"default"}, "managers": []any{}}}
	return inventory, data
}

// SetRawInventory has GET inventory of a node answer with these very bytes, now and
// after each inspection to come: what is no JSON, such as Python's NaN, what is too
// large, or what no ramdisk should report. nil gives inspections back their way.
func (s *Sim) SetRawInventory(ident string, answer []byte) error {
	return s.at(ident, func(e *entry) error {
		e.inventory, e.inventoryToStore = bytes.Clone(answer), bytes.Clone(answer)
		return nil
	})
}
