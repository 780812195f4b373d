package validation

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// ValidateHostPower checks a request to the power subresource. A mode given with
// the action on is accepted and means nothing.
func ValidateHostPower(power *v1alpha1.HostPower) field.ErrorList {
	path := field.NewPath("spec")
	all := requiredEnum(path.Child("action"), power.Spec.Action,
		v1alpha1.PowerActionOn, v1alpha1.PowerActionOff, v1alpha1.PowerActionReboot)
	return append(all, enum(path.Child("mode"), power.Spec.Mode, v1alpha1.PowerModeSoft, v1alpha1.PowerModeHard)...)
}

// ValidateHostInspection checks a request to the inspect subresource. Its spec
// has nothing in it that could be wrong.
func ValidateHostInspection(*v1alpha1.HostInspection) field.ErrorList {
	return nil
}
