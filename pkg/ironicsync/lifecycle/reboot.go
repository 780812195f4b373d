// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// Rebooted records that Ironic has accepted target, a reboot of a machine that is never switched off, or of the ramdisk of a rebuild, because
// of the reboot annotations in asked. If it fails, observeReboot makes these due again.
func Rebooted(status *metal3.BareMetalHostStatus, target ironic.PowerTarget, asked map[string]string) {
	record := &status.Record
	record.Reboot = &metal3.Reboot{NodeUUID: status.Provisioning.ID, Target: string(target)}
	for key, value := range asked {
		if was, has := record.Rebooted[key]; !metal3.IsRebootAnnotation(key) || has && was == value {
			continue
		}
		if record.Rebooted == nil {
			record.Rebooted = map[string]string{}
		}
		record.Rebooted[key] = value
		record.Reboot.Annotations = append(record.Reboot.Annotations, key)
	}
	slices.Sort(record.Reboot.Annotations)
}

// observeReboot notes what has become of an accepted reboot, once Ironic is done with it: the node was locked before Ironic had
// accepted it, and the record is older than what was read of the node. What the reboot was for is due again if it has failed; if it has
// left the machine off, that is switched on. It reports whether the reboot has failed just now.
func observeReboot(status *metal3.BareMetalHostStatus, host *metal3.BareMetalHost) (failed bool) {
	reboot, node := status.Record.Reboot, NodeOf(status)
	switch {
	case reboot == nil:
		if isRebooting(node, status.Record.AskedPower) {
			Rebooted(status, ironic.PowerTarget(status.Record.AskedPower.Target), host.Annotations)
		}
	case reboot.NodeUUID != node.UUID:
		status.Record.Reboot = nil
	case reboot.Failed != "":
		if !isDueReboot(host, status) {
			status.Record.Reboot = nil
		}
	case isSwitching(node):
	case node.isSwitchForgotten(), ironic.SaysPowerAborted(node.LastError) && node.PowerState != ironic.PowerOff: // Ironic empties last_error before it begins
		makeDue(status)
		status.Record.Reboot = nil
	case string(ironic.FailedReboot(node.LastError)) != reboot.Target || node.PowerState == ironic.PowerOff:
		status.Record.Reboot = nil
	default:
		failed = true
		reboot.Failed = CutMessage(node.LastError)
		makeDue(status)
	}
	return failed
}

// isRebooting reports whether Ironic reboots the machine as it was asked to, although nothing has recorded that it has accepted that: the
// leader has died between the two, or could not write. A reboot has the target "power on", which a machine that is on has for nothing else.
func isRebooting(node *Node, asked *metal3.AskedPower) bool {
	return asked != nil && isReboot(asked) && asked.NodeUUID == node.UUID && node.PowerState == ironic.PowerOn && node.TargetPowerState == ironic.TargetPowerOn
}

// makeDue makes the annotations due again for which the machine was to be rebooted.
func makeDue(status *metal3.BareMetalHostStatus) {
	for _, key := range status.Record.Reboot.Annotations {
		delete(status.Record.Rebooted, key)
	}
	if asked := status.Record.AskedPower; asked != nil && isReboot(asked) {
		status.Record.AskedPower = nil
	}
}

// rebootFailure returns why the last reboot of a machine that is never switched off has failed, in Ironic's words; empty if it has not. What
// is in last_error may be about one that nobody asks for any more, and Ironic clears it.
func rebootFailure(status *metal3.BareMetalHostStatus, node *Node) string {
	if reboot := status.Record.Reboot; reboot != nil && reboot.NodeUUID == node.UUID {
		return reboot.Failed
	}
	return ""
}
