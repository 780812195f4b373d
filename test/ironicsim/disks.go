// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"slices"
	"strings"
	"time"
)

// DiskWrite is something that Ironic had done to the disks of a node's machine.
type DiskWrite struct {
	// Step did it, such as deploy.erase_devices_metadata or deploy.write_image.
	Step string
	// State is the provision state that the node had.
	State string
	// Image is the image_source of the node, if the step has deployed it.
	Image string
	// At is by the real clock.
	At time.Time
}

// DiskWrites returns what was done to the disks of the node with a UUID, in order,
// also from before it was lost and made again. A live ISO writes nothing, and neither
// do nodes that boot no ramdisk (deploy interface fake).
func (s *Sim) DiskWrites(uuid string) []DiskWrite {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.diskWrites[uuid])
}

// touchDisks accounts for a step that writes to disks, before it does.
func (t *task) touchDisks(step string) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	n := t.e.n
	if !t.alive() || !bootsRamdisk(n) {
		return
	}
	write := DiskWrite{Step: step, State: n.ProvisionState, At: time.Now()}
	if step == deployStep(n) {
		write.Image = n.instanceInfo.string("image_source")
	}
	t.s.diskWrites[n.UUID] = append(t.s.diskWrites[n.UUID], write)
	if b, _ := t.s.bmcOf(n); b != nil {
		b.diskWrites = append(b.diskWrites, write)
		t.s.tell(Event{Machine: &MachineTouch{BMC: b.address, State: n.ProvisionState, Step: step, Image: write.Image}})
	}
}

// touchesDisks reports whether a step of cleaning or service writes to disks. To
// make or delete a RAID volume loses what is on its disks.
func touchesDisks(step string) bool {
	return strings.HasPrefix(step, "deploy.erase_") || strings.HasPrefix(step, "raid.")
}

// deployStep is the step that writes what is deployed, or empty.
func deployStep(n *node) string {
	switch n.deployInterface {
	case "direct":
		return "deploy.write_image"
	case "custom-agent":
		return "deploy.custom" // whatever the ramdisk's own step is called
	}
	return ""
}
