// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/weburl"
)

// ValidateDataImage validates an image for a host's virtual drive; old is nil for a new
// object.
func ValidateDataImage(image, old *v1alpha1.DataImage) field.ErrorList {
	return ratchet(image, old, func(image *v1alpha1.DataImage) field.ErrorList {
		return validateURL(field.NewPath("spec", "url"), image.Spec.URL, weburl.Image)
	})
}

// ValidatePreprovisioningImage validates a request for a ramdisk and its result; old is nil
// for a new object.
func ValidatePreprovisioningImage(image, old *v1alpha1.PreprovisioningImage) field.ErrorList {
	return ratchet(image, old, func(image *v1alpha1.PreprovisioningImage) field.ErrorList {
		all := objectName(field.NewPath("spec", "networkDataName"), image.Spec.NetworkDataName)
		all = append(all, trimmed(field.NewPath("spec", "architecture"), image.Spec.Architecture)...)
		for i, format := range image.Spec.AcceptFormats {
			all = append(all, requiredEnum(field.NewPath("spec", "acceptFormats").Index(i), format,
				v1alpha1.ImageFormatISO, v1alpha1.ImageFormatInitRD)...)
		}
		all = append(all, enum(field.NewPath("status", "format"), image.Status.Format, v1alpha1.ImageFormatISO, v1alpha1.ImageFormatInitRD)...)
		return append(all, validateConditions(image.Status.Conditions)...)
	})
}
