// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"fmt"

	"k8s.io/utils/ptr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
)

// checkRAID returns why Ironic cannot make a layout. The texts are those of the Bare Metal
// Operator, as far as it has one.
func checkRAID(wanted *metal3.RAIDConfig, driver string) error {
	if len(wanted.HardwareRAIDVolumes) > 0 {
		switch driver {
		case noRAIDInterface:
			return fmt.Errorf("RAID settings are defined, but the node's driver %s does not support RAID", driver)
		case agentRAIDInterface:
			return fmt.Errorf("hardware RAID settings are defined, but the node's driver %s only supports software RAID", driver)
		}
	}
	named := map[string]int{}
	for i, volume := range wanted.HardwareRAIDVolumes {
		disks := len(volume.PhysicalDisks)
		first, repeated := named[volume.Name]
		switch number := volume.NumberOfPhysicalDisks; {
		case volume.Name != "" && repeated:
			return fmt.Errorf("the names(%s) of volume[%d] and volume[%d] are repeated", volume.Name, i, first)
		case disks > 0 && volume.Controller == "":
			return errors.New("'controller' must be specified if 'physicalDisks' are used")
		case disks > 0 && number != nil && *number != disks:
			return fmt.Errorf("the numberOfPhysicalDisks[%d] is not same as number of items in physicalDisks[%d]", *number, disks)
		case disks == 0 && volume.SizeGibibytes == nil:
			// Ironic's Redfish interface would fail in the middle of the clean.
			return fmt.Errorf("volume[%d] of hardwareRAIDVolumes has neither sizeGibibytes nor physicalDisks: the driver's RAID interface %s can use all space of a volume's disks only if physicalDisks names them", i, driver)
		}
		named[volume.Name] = i
	}
	if software := wanted.SoftwareRAIDVolumes; len(software) > 0 && software[0].Level != "1" {
		return errors.New("the level in first volume of software raid must be RAID1")
	}
	return nil
}

// hardwareDisks returns volumes in Ironic's words.
func hardwareDisks(host *metal3.BareMetalHost, volumes []metal3.HardwareRAIDVolume) []ironic.LogicalDisk {
	disks := make([]ironic.LogicalDisk, 0, len(volumes))
	for _, volume := range volumes {
		disk := ironic.LogicalDisk{
			SizeGB: sizeOf(volume.SizeGibibytes), RAIDLevel: volume.Level, VolumeName: volume.Name, Controller: volume.Controller,
			NumberOfPhysicalDisks: ptr.Deref(volume.NumberOfPhysicalDisks, 0),
		}
		if volume.Rotational != nil {
			disk.DiskType = map[bool]string{true: "hdd", false: "ssd"}[*volume.Rotational]
		}
		if len(volume.PhysicalDisks) > 0 {
			disk.PhysicalDisks = volume.PhysicalDisks
		}
		disks = append(disks, disk)
	}
	return withRoot(host, disks)
}

func softwareDisks(host *metal3.BareMetalHost, volumes []metal3.SoftwareRAIDVolume) []ironic.LogicalDisk {
	disks := make([]ironic.LogicalDisk, 0, len(volumes))
	hasRoot := false
	for _, volume := range volumes {
		disk := ironic.LogicalDisk{SizeGB: sizeOf(volume.SizeGibibytes), RAIDLevel: volume.Level, Controller: "software"}
		if volume.RootVolume {
			// The ramdisk takes no volume of which it is told that it is not the root, nor the disks of which it is made, whatever the hints say.
			disk.IsRootVolume, hasRoot = ptr.To(true), true
		}
		if hints := hintsOf(volume.PhysicalDisks); len(hints) > 0 {
			disk.PhysicalDisks = hints
		}
		disks = append(disks, disk)
	}
	if hasRoot {
		return disks
	}
	return withRoot(host, disks)
}

// withRoot makes the first volume the root volume if nothing else says what the root device is.
func withRoot(host *metal3.BareMetalHost, disks []ironic.LogicalDisk) []ironic.LogicalDisk {
	if len(disks) > 0 && deploy.RootDeviceHints(host) == nil {
		disks[0].IsRootVolume = ptr.To(true)
	}
	return disks
}

func sizeOf(gibibytes *int) any {
	if gibibytes == nil {
		return "MAX"
	}
	return *gibibytes
}

func hintsOf(disks []metal3.RootDeviceHints) []map[string]any {
	var hints []map[string]any
	for i := range disks {
		if hint := deploy.RootDevice(&disks[i]); hint != nil {
			hints = append(hints, hint)
		}
	}
	return hints
}
