package validation

import (
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
