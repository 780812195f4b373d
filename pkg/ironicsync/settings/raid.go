// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
)

// The RAID interfaces of Ironic that matter here: with agent, the ramdisk makes software RAID;
// no-raid is for machines whose BMC cannot configure any.
const (
	agentRAIDInterface = "agent"
	noRAIDInterface    = "no-raid"
)

// createStep is how a preparation names the step that creates volumes.
const createStep = "raid.create_configuration"

// raid is the RAID layout in spec.raid. What the machine has is status.provisioning.raid. A list
// that is nil leaves the volumes as they are, and an empty one removes them.
type raid struct{}

func (raid) differs(m Machine) bool {
	clean := &Clean{}
	if err := (raid{}).addTo(clean, m); err != nil {
		return true // the host is prepared, to say so
	}
	return len(clean.Steps) > 0 || !sameLayout(wantedRAID(m.Host), m.Host.Status.Provisioning.RAID)
}

// wantedRAID returns the layout that the host is to have. If the spec does not name any,
// hardware volumes are kept, and software volumes are removed, as in the Bare Metal Operator.
func wantedRAID(host *metal3.BareMetalHost) *metal3.RAIDConfig {
	if wanted := host.Spec.RAID; wanted != nil && (wanted.HardwareRAIDVolumes != nil || wanted.SoftwareRAIDVolumes != nil) {
		return wanted.DeepCopy()
	}
	had := newLayout(host)
	if !had.known && !had.hasHardware() && !had.hasSoftware() {
		return nil
	}
	kept := &metal3.RAIDConfig{SoftwareRAIDVolumes: []metal3.SoftwareRAIDVolume{}}
	if len(had.saved.HardwareRAIDVolumes) > 0 && had.attempted == nil {
		kept.HardwareRAIDVolumes = had.saved.DeepCopy().HardwareRAIDVolumes
	}
	return kept
}

// layout is what is known of the volumes that a machine has.
type layout struct {
	saved metal3.RAIDConfig
	// known is set if a layout was recorded.
	known bool
	// attempted is the layout that a clean was to make which has not ended well; nil if there
	// is none.
	attempted *metal3.RAIDConfig
}

func newLayout(host *metal3.BareMetalHost) layout {
	var l layout
	if saved := host.Status.Provisioning.RAID; saved != nil {
		l.saved, l.known = *saved, saved.HardwareRAIDVolumes != nil || saved.SoftwareRAIDVolumes != nil
	}
	if p := host.Status.Record.Preparation; isOutcomeUnknown(p) {
		l.attempted = p.RAID
	}
	return l
}

func (l layout) hasHardware() bool {
	return len(l.saved.HardwareRAIDVolumes) > 0 || l.attempted != nil && len(l.attempted.HardwareRAIDVolumes) > 0
}

func (l layout) hasSoftware() bool {
	return len(l.saved.SoftwareRAIDVolumes) > 0 || l.attempted != nil && len(l.attempted.SoftwareRAIDVolumes) > 0
}

// addTo adds the steps towards the wanted layout. A clean has one raid_interface, so a change
// between hardware and software takes two: the first one removes the volumes of the one kind,
// and when that is recorded, the second one creates those of the other.
func (raid) addTo(clean *Clean, m Machine) error {
	host := m.Host
	wanted := wantedRAID(host)
	if wanted == nil {
		return nil
	}
	had := newLayout(host)
	driver := raidInterfaceOf(host)
	hardware, software := wanted.HardwareRAIDVolumes, wanted.SoftwareRAIDVolumes
	sameHardware := had.attempted == nil && sameVolumes(hardware, had.saved.HardwareRAIDVolumes)
	sameSoftware := had.attempted == nil && sameVolumes(software, had.saved.SoftwareRAIDVolumes)
	if len(software) > 0 && !sameSoftware || len(hardware) > 0 && !sameHardware {
		// What is there already is not checked, and nothing is removed for what cannot be made.
		if err := checkRAID(wanted, driver); err != nil {
			return err
		}
	}
	switch {
	case len(software) > 0 && had.hasHardware() && driver != noRAIDInterface:
		clean.changeRAID(driver, nil, &metal3.RAIDConfig{HardwareRAIDVolumes: []metal3.HardwareRAIDVolume{}})
	case len(software) > 0 && !sameSoftware:
		clean.changeRAID(agentRAIDInterface, softwareDisks(host, software), wanted)
	case len(software) > 0:
	case software != nil && had.hasSoftware(), len(hardware) > 0 && had.hasSoftware():
		clean.changeRAID(agentRAIDInterface, nil, &metal3.RAIDConfig{
			HardwareRAIDVolumes: had.saved.HardwareRAIDVolumes, SoftwareRAIDVolumes: []metal3.SoftwareRAIDVolume{},
		})
	case hardware == nil, sameHardware, driver == noRAIDInterface:
	case len(hardware) == 0:
		clean.changeRAID(driver, nil, wanted)
	default:
		clean.changeRAID(driver, hardwareDisks(host, hardware), wanted)
	}
	return nil
}

// changeRAID adds the steps that remove all volumes and then create disks. after is the layout
// that the machine has then. Software RAID is not created on disks with partitions, which the
// volumes have left behind.
func (c *Clean) changeRAID(raidInterface string, disks []ironic.LogicalDisk, after *metal3.RAIDConfig) {
	c.RAIDInterface, c.LogicalDisks, c.RAID = raidInterface, disks, after.DeepCopy()
	c.Steps = append(c.Steps, ironic.StepRequest{Interface: "raid", Step: "delete_configuration"})
	if raidInterface == agentRAIDInterface {
		c.Steps = append(c.Steps, ironic.StepRequest{Interface: "deploy", Step: "erase_devices_metadata"})
	}
	if len(disks) > 0 {
		c.Steps = append(c.Steps, ironic.StepRequest{Interface: "raid", Step: "create_configuration"})
	}
}

// Succeeded records in status what a clean or a service has applied that Ironic takes for a success. That is only
// the layout: what else was applied is in Ironic's lists. If Ironic has not made or deleted the volumes, the clean has
// failed: Ironic only logs it if the task of a BMC fails that makes or deletes a volume.
func Succeeded(status *metal3.BareMetalHostStatus, done *metal3.Preparation, node *ironic.Node) {
	if done.RAID == nil {
		return
	}
	if problem := problemOf(done, node.RAIDVolumes); problem != "" {
		done.Phase, done.Problem = metal3.PreparationFailed, problem
		return
	}
	status.Provisioning.RAID = done.RAID.DeepCopy()
}

// problemOf returns why a layout is not there, although Ironic takes its steps for a success; empty if nothing says so.
// volumes are all that Ironic has found afterwards that have a RAID level: also those that were not deleted, and those that
// controllers make by themselves of disks that no volume uses. So after a layout was made, there may be more volumes
// than it has. Their names, sizes and controllers are not compared: BMCs may choose the name and round the size, and
// Ironic takes the controller of the disks, whichever the spec names.
func problemOf(done *metal3.Preparation, volumes ironic.VolumeLevels) string {
	const success = "Ironic has carried out the RAID steps without an error, and "
	levels := levelsOf(done.RAID)
	made := volumes.CountOf(levels)
	// Many controllers make RAID 0 of each disk that no volume uses: an event tells of those.
	left := volumes.Count() - volumes.CountOf(slices.Repeat([]string{"0"}, volumes.Count()))
	switch creates := slices.Contains(done.Steps, createStep); {
	case !creates && left > 0:
		return fmt.Sprintf(success+"has not deleted %d volumes (raid_config): its log says why. To keep them, remove hardwareRAIDVolumes from spec.raid.", left)
	case !creates, made == len(levels):
		return ""
	case volumes.Count() == 0:
		return fmt.Sprintf(success+"has made 0 of %d volumes (raid_config): its log says why. If it says that the RAID type of volumes is missing, they are there: then remove spec.raid, which keeps them.", len(levels))
	default:
		return fmt.Sprintf(success+"has made %d of %d volumes (raid_config has %d in all): its log says why", made, len(levels), volumes.Count())
	}
}

// levelsOf returns the level of each volume of a layout.
func levelsOf(layout *metal3.RAIDConfig) (levels []string) {
	for _, volume := range layout.HardwareRAIDVolumes {
		levels = append(levels, volume.Level)
	}
	for _, volume := range layout.SoftwareRAIDVolumes {
		levels = append(levels, volume.Level)
	}
	return levels
}

func (raid) arrived(status *metal3.BareMetalHostStatus, m Machine) {
	status.Provisioning.RAID = wantedRAID(m.Host)
	if isOutcomeUnknown(status.Record.Preparation) {
		status.Record.Preparation.RAID = nil // it was given up, and what is left of it is left as it is
	}
}

// allowedBy is false: a change of the volumes destroys what is on them.
func (raid) allowedBy(metal3.HostUpdatePolicySpec) bool { return false }

// Deprovisioned drops what is recorded of settings that do not outlive a deployment. These are software volumes, which
// are created anew then: the cleaning may have erased them, and what was deployed may have changed them. Those that the spec does not ask
// for any more stay recorded, so that they are removed.
func Deprovisioned(host *metal3.BareMetalHost) {
	saved, wanted := host.Status.Provisioning.RAID, host.Spec.RAID
	if saved != nil && wanted != nil && len(wanted.SoftwareRAIDVolumes) > 0 {
		saved.SoftwareRAIDVolumes = nil
	}
}

// raidInterfaceOf returns the RAID interface of the host's driver.
func raidInterfaceOf(host *metal3.BareMetalHost) string {
	access, err := bmc.Parse(host.Spec.BMC.Address, host.Spec.BMC.DisableCertificateVerification)
	if err != nil {
		return noRAIDInterface // the registration reports the address
	}
	return cmp.Or(access.RAIDInterface, noRAIDInterface)
}

// sameLayout compares layouts. A nil layout is one whose lists are nil.
func sameLayout(a, b *metal3.RAIDConfig) bool {
	if a == nil {
		a = &metal3.RAIDConfig{}
	}
	if b == nil {
		b = &metal3.RAIDConfig{}
	}
	return sameVolumes(a.HardwareRAIDVolumes, b.HardwareRAIDVolumes) && sameVolumes(a.SoftwareRAIDVolumes, b.SoftwareRAIDVolumes)
}

// sameVolumes tells a nil list from an empty one, which equality.Semantic does not.
func sameVolumes[T any](a, b []T) bool {
	return (a == nil) == (b == nil) && equality.Semantic.DeepEqual(a, b)
}
