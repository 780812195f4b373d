// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"regexp"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// ValidateHardwareData validates the hardware of a host; old is nil for a new object.
// Errors that the old object had are ignored.
func ValidateHardwareData(data, old *v1alpha1.HardwareData) field.ErrorList {
	return ratchet(data, old, func(data *v1alpha1.HardwareData) field.ErrorList {
		return validateHardware(data.Spec.HardwareDetails, field.NewPath("spec", "hardware"))
	})
}

// nicMACPattern is not anchored, because the address of an InfiniBand interface is longer.
var nicMACPattern = regexp.MustCompile(`[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}`)

const maxVLAN = 4094

func validateHardware(hardware *v1alpha1.HardwareDetails, path *field.Path) field.ErrorList {
	if hardware == nil {
		return nil
	}
	var all field.ErrorList
	for i, nic := range hardware.NIC {
		path := path.Child("nics").Index(i)
		if nic.MAC != "" && !nicMACPattern.MatchString(nic.MAC) {
			all = append(all, field.Invalid(path.Child("mac"), nic.MAC, macMessage))
		}
		all = append(all, validateVLAN(nic.VLANID, path.Child("vlanId"))...)
		for j, vlan := range nic.VLANs {
			all = append(all, validateVLAN(vlan.ID, path.Child("vlans").Index(j).Child("id"))...)
		}
	}
	for i, disk := range hardware.Storage {
		all = append(all, enum(path.Child("storage").Index(i).Child("type"), disk.Type,
			v1alpha1.HDD, v1alpha1.SSD, v1alpha1.NVME)...)
	}
	return all
}

func validateVLAN(id v1alpha1.VLANID, path *field.Path) field.ErrorList {
	if id < 0 || id > maxVLAN {
		return field.ErrorList{field.Invalid(path, id, "must be a VLAN identifier, 0 to 4094")}
	}
	return nil
}
