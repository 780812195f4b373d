// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// ValidateHostPower validates a request to the power subresource. A mode is accepted with
// the action on, but has no effect.
func ValidateHostPower(power *v1alpha1.HostPower) field.ErrorList {
	path := field.NewPath("spec")
	all := requiredEnum(path.Child("action"), power.Spec.Action,
		v1alpha1.PowerActionOn, v1alpha1.PowerActionOff, v1alpha1.PowerActionReboot)
	return append(all, enum(path.Child("mode"), power.Spec.Mode, v1alpha1.PowerModeSoft, v1alpha1.PowerModeHard)...)
}

// ValidateHostInspection validates a request to the inspect subresource. The spec is empty,
// so there are no rules.
func ValidateHostInspection(*v1alpha1.HostInspection) field.ErrorList {
	return nil
}

const (
	// maxMaintenanceReason is in bytes.
	maxMaintenanceReason = 1024
	// maxIronicName bounds the names of devices and lights, which are Ironic's or the BMC's.
	maxIronicName = 255
)

// ValidateHostMaintenance validates a request to the maintenance subresource.
func ValidateHostMaintenance(maintenance *v1alpha1.HostMaintenance) field.ErrorList {
	path, spec := field.NewPath("spec"), &maintenance.Spec
	all := requiredEnum(path.Child("action"), spec.Action, v1alpha1.MaintenanceActionOn, v1alpha1.MaintenanceActionOff)
	reason := path.Child("reason")
	switch {
	case spec.Action == v1alpha1.MaintenanceActionOn && strings.TrimSpace(spec.Reason) == "":
		all = append(all, field.Required(reason, "say why, for those who find the host in maintenance"))
	case spec.Action == v1alpha1.MaintenanceActionOff && spec.Reason != "":
		all = append(all, field.Forbidden(reason, "Ironic keeps no reason for the end of maintenance"))
	case len(spec.Reason) > maxMaintenanceReason:
		all = append(all, field.TooLong(reason, "", maxMaintenanceReason))
	}
	return all
}

// ValidateHostBootDevice validates a request to the bootdevice subresource. Which devices there are
// is known to Ironic only.
func ValidateHostBootDevice(boot *v1alpha1.HostBootDevice) field.ErrorList {
	device := field.NewPath("spec", "device")
	switch {
	case boot.Spec.Device == "":
		return field.ErrorList{field.Required(device, "a GET of the subresource lists the devices")}
	case len(boot.Spec.Device) > maxIronicName:
		return field.ErrorList{field.TooLong(device, "", maxIronicName)}
	}
	return nil
}

// ValidateHostIndicator validates a request to the indicator subresource. Which lights there are is
// known to the BMC only.
func ValidateHostIndicator(indicator *v1alpha1.HostIndicator) field.ErrorList {
	path, spec := field.NewPath("spec"), &indicator.Spec
	all := requiredEnum(path.Child("state"), spec.State, v1alpha1.IndicatorOn, v1alpha1.IndicatorOff, v1alpha1.IndicatorBlinking)
	if len(spec.Component) > maxIronicName {
		all = append(all, field.TooLong(path.Child("component"), "", maxIronicName))
	}
	if len(spec.Name) > maxIronicName {
		all = append(all, field.TooLong(path.Child("name"), "", maxIronicName))
	}
	return all
}
