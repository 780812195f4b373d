// SPDX-License-Identifier: Apache-2.0

package validation

import (
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// ValidateBareMetalHostStatusUpdate validates an update through the status subresource. As
// with the spec, errors that the host had before are ignored.
func ValidateBareMetalHostStatusUpdate(host, old *v1alpha1.BareMetalHost) field.ErrorList {
	path := field.NewPath("status")
	all := metavalidation.ValidateObjectMetaUpdate(&host.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	all = append(all, validateHostSize(host, old)...)
	return append(all, added(validateStatus(&host.Status, path), validateStatus(&old.Status, path))...)
}

const maxConditions = 32

func validateStatus(status *v1alpha1.BareMetalHostStatus, path *field.Path) field.ErrorList {
	all := validateStatusEnums(status, path)
	conditions := path.Child("conditions")
	if number := len(status.Conditions); number > maxConditions {
		all = append(all, field.TooMany(conditions, number, maxConditions))
	}
	all = append(all, metav1validation.ValidateConditions(status.Conditions, conditions)...)
	provisioning := path.Child("provisioning")
	all = append(all, enum(provisioning.Child("bootMode"), status.Provisioning.BootMode,
		v1alpha1.UEFI, v1alpha1.UEFISecureBoot, v1alpha1.Legacy)...)
	all = append(all, validateStatusImages(status, path)...)
	if raid := status.Provisioning.RAID; raid != nil {
		all = append(all, validateRAIDVolumes(raid, provisioning.Child("raid"))...)
	}
	if hints := status.Provisioning.RootDeviceHints; hints != nil {
		all = append(all, validateMinSize(hints, provisioning.Child("rootDeviceHints"))...)
	}
	return append(all, validateHardware(status.HardwareDetails, path.Child("hardware"))...)
}

// validateStatusImages checks the images in a status: Ironic is told which one a host runs that it adopts.
func validateStatusImages(status *v1alpha1.BareMetalHostStatus, path *field.Path) field.ErrorList {
	all := validateStatusImage(&status.Provisioning.Image, path.Child("provisioning", "image"))
	if image := status.LastAttemptedImage; image != nil {
		all = append(all, validateStatusImage(image, path.Child("lastAttemptedImage"))...)
	}
	return all
}

// validateStatusEnums allows the detach error, although the operator's schema refuses it,
// because the operator sets it.
func validateStatusEnums(status *v1alpha1.BareMetalHostStatus, path *field.Path) field.ErrorList {
	all := enum(path.Child("operationalStatus"), status.OperationalStatus,
		v1alpha1.OperationalStatusOK,
		v1alpha1.OperationalStatusDiscovered,
		v1alpha1.OperationalStatusError,
		v1alpha1.OperationalStatusDelayed,
		v1alpha1.OperationalStatusDetached,
		v1alpha1.OperationalStatusServicing)
	return append(all, enum(path.Child("errorType"), status.ErrorType,
		v1alpha1.ProvisionedRegistrationError,
		v1alpha1.RegistrationError,
		v1alpha1.InspectionError,
		v1alpha1.PreparationError,
		v1alpha1.ProvisioningError,
		v1alpha1.PowerManagementError,
		v1alpha1.ServicingError,
		v1alpha1.DetachError)...)
}
