package validation

import (
	"encoding/json"
	"net/url"
	"slices"
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
		return field.ErrorList{field.Required(device, "a GET of the subresource tells which there are")}
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

const (
	// maxCleanSteps bounds the steps of a request, and maxCleanArgs the arguments of a step, in bytes: they
	// are kept in the status of the host.
	maxCleanSteps = 32
	maxCleanArgs  = 8 << 10
)

// ValidateHostClean validates a request to the clean subresource. Which steps there are is known to
// Ironic only. What the spec of a host or of another kind asks for is not to be changed past it.
func ValidateHostClean(clean *v1alpha1.HostClean) field.ErrorList {
	path := field.NewPath("spec", "steps")
	switch n := len(clean.Spec.Steps); {
	case n == 0:
		return field.ErrorList{field.Required(path, "at least one clean step, for example interface deploy and step erase_devices")}
	case n > maxCleanSteps:
		return field.ErrorList{field.TooMany(path, n, maxCleanSteps)}
	}
	var all field.ErrorList
	for i, step := range clean.Spec.Steps {
		path := path.Index(i)
		all = append(all, requiredEnum(path.Child("interface"), step.Interface, "deploy", "management", "bios", "power", "raid", "vendor", "firmware")...)
		switch name := path.Child("step"); {
		case step.Step == "":
			all = append(all, field.Required(name, "the name of a clean step"))
		case len(step.Step) > maxIronicName:
			all = append(all, field.TooLong(name, "", maxIronicName))
		case step.Interface == "firmware":
			all = append(all, field.Forbidden(name, "set spec.updates of the host's HostFirmwareComponents"))
		case step.Interface == "raid":
			all = append(all, field.Forbidden(name, "set spec.raid of the host"))
		case step.Interface == "bios" && step.Step == "apply_configuration":
			all = append(all, field.Forbidden(name, "set spec.settings of the host's HostFirmwareSettings"))
		}
		if step.Args == nil {
			continue
		}
		args := map[string]any{}
		switch err := json.Unmarshal(step.Args.Raw, &args); {
		case len(step.Args.Raw) > maxCleanArgs:
			all = append(all, field.TooLong(path.Child("args"), "", maxCleanArgs))
		case err != nil:
			all = append(all, field.Invalid(path.Child("args"), "", "must be an object"))
		case hasPasswordInURL(args):
			all = append(all, field.Forbidden(path.Child("args"), "must not contain a URL with a user name or password: they would be visible in the status of the host"))
		}
	}
	return all
}

// hasPasswordInURL tells whether a value that was decoded from JSON has a URL with a user name or
// password in it.
func hasPasswordInURL(value any) bool {
	switch v := value.(type) {
	case string:
		parsed, err := url.Parse(v)
		return strings.Contains(v, "://") && (err != nil || parsed.User != nil)
	case []any:
		return slices.ContainsFunc(v, hasPasswordInURL)
	case map[string]any:
		for _, item := range v {
			if hasPasswordInURL(item) {
				return true
			}
		}
	}
	return false
}
