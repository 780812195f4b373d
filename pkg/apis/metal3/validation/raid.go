// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

var (
	hardwareLevels = []string{"0", "1", "2", "5", "6", "1+0", "5+0", "6+0"}
	softwareLevels = []string{"0", "1", "1+0"}
)

func validateRAID(spec *v1alpha1.BareMetalHostSpec, path *field.Path) field.ErrorList {
	raid := spec.RAID
	if raid == nil {
		return nil
	}
	all := append(validateRAIDVolumes(raid, path), validateWantedVolumes(raid, path)...)
	software := path.Child("softwareRAIDVolumes")
	if len(raid.HardwareRAIDVolumes) > 0 && len(raid.SoftwareRAIDVolumes) > 0 {
		all = append(all, field.Forbidden(software, "cannot be combined with hardwareRAIDVolumes; leave one of the two lists empty"))
	}
	roots := 0
	for i, volume := range raid.SoftwareRAIDVolumes {
		if !volume.RootVolume {
			continue
		}
		roots++
		root := software.Index(i).Child("rootVolume")
		if roots > 1 {
			all = append(all, field.Invalid(root, true, "only one volume can be the root volume"))
		}
		if volume.Level != "1" {
			all = append(all, field.Invalid(root, true, "the root volume must have level 1, because the host has to boot from either disk"))
		}
		if spec.RootDeviceHints != nil {
			all = append(all, field.Invalid(root, true, "cannot be combined with spec.rootDeviceHints; remove one of the two"))
		}
	}
	return all
}

// validateWantedVolumes applies the rules that the operator does not have. They are not for what a host has already.
func validateWantedVolumes(raid *v1alpha1.RAIDConfig, path *field.Path) field.ErrorList {
	var all field.ErrorList
	for i, volume := range raid.HardwareRAIDVolumes {
		path := path.Child("hardwareRAIDVolumes").Index(i)
		all = append(all, notBlank(path.Child("name"), volume.Name)...)
		all = append(all, notBlank(path.Child("controller"), volume.Controller)...)
		for j, disk := range volume.PhysicalDisks {
			all = append(all, required(path.Child("physicalDisks").Index(j), strings.TrimSpace(disk), "must be the name that the controller has for a disk")...)
		}
	}
	for i, volume := range raid.SoftwareRAIDVolumes {
		path := path.Child("softwareRAIDVolumes").Index(i)
		// Hardware may have 0: Dell's BOSS controllers take no size, and Ironic sends none for 0.
		if size := volume.SizeGibibytes; size != nil && *size == 0 {
			all = append(all, field.Invalid(path.Child("sizeGibibytes"), 0, "must be 1 or more; leave it out to use all available space"))
		}
		for j := range volume.PhysicalDisks {
			hints, path := &volume.PhysicalDisks[j], path.Child("physicalDisks").Index(j)
			if *hints == (v1alpha1.RootDeviceHints{}) {
				all = append(all, field.Required(path, "must have a hint that selects a disk"))
			} else if hints.MinSizeGigabytes >= 0 {
				all = append(all, validateRootDeviceHints(hints, path)...)
			}
		}
	}
	return all
}

// validateRAIDVolumes applies the rules about single volumes.
func validateRAIDVolumes(raid *v1alpha1.RAIDConfig, path *field.Path) field.ErrorList {
	var all field.ErrorList
	for i, volume := range raid.HardwareRAIDVolumes {
		path := path.Child("hardwareRAIDVolumes").Index(i)
		all = append(all, requiredEnum(path.Child("level"), volume.Level, hardwareLevels...)...)
		all = append(all, atLeast(path.Child("sizeGibibytes"), volume.SizeGibibytes, 0)...)
		all = append(all, atLeast(path.Child("numberOfPhysicalDisks"), volume.NumberOfPhysicalDisks, 1)...)
		all = append(all, maxLength(path.Child("name"), volume.Name, 64)...)
		disks := len(volume.PhysicalDisks)
		if disks > 0 && volume.Controller == "" {
			all = append(all, field.Required(path.Child("controller"), "is required with physicalDisks"))
		}
		if number := volume.NumberOfPhysicalDisks; disks > 0 && number != nil && *number != disks {
			all = append(all, field.Invalid(path.Child("numberOfPhysicalDisks"), *number,
				fmt.Sprintf("must be %d, the number of physicalDisks, or omitted", disks)))
		}
	}
	software := path.Child("softwareRAIDVolumes")
	if number := len(raid.SoftwareRAIDVolumes); number > 2 {
		all = append(all, field.TooMany(software, number, 2))
	}
	for i, volume := range raid.SoftwareRAIDVolumes {
		path := software.Index(i)
		all = append(all, requiredEnum(path.Child("level"), volume.Level, softwareLevels...)...)
		all = append(all, atLeast(path.Child("sizeGibibytes"), volume.SizeGibibytes, 0)...)
		disks := path.Child("physicalDisks")
		if volume.PhysicalDisks != nil && len(volume.PhysicalDisks) < 2 {
			all = append(all, field.Invalid(disks, field.OmitValueType{}, "must have at least 2 disks, or be omitted"))
		}
		for j := range volume.PhysicalDisks {
			all = append(all, validateMinSize(&volume.PhysicalDisks[j], disks.Index(j))...)
		}
	}
	return all
}

func atLeast(path *field.Path, value *int, least int) field.ErrorList {
	if value != nil && *value < least {
		return field.ErrorList{field.Invalid(path, *value, fmt.Sprintf("must be %d or more", least))}
	}
	return nil
}

func maxLength(path *field.Path, value string, limit int) field.ErrorList {
	// The operator's schema counts characters, not bytes.
	if utf8.RuneCountInString(value) > limit {
		return field.ErrorList{field.TooLong(path, value, limit)}
	}
	return nil
}
