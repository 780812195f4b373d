// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

func validateAnnotations(host *v1alpha1.BareMetalHost, path *field.Path) field.ErrorList {
	all := validateRebootAnnotations(host.Annotations, path)
	// The keys are sorted, so that a host always gives the same errors.
	for _, key := range slices.Sorted(maps.Keys(host.Annotations)) {
		value, path := host.Annotations[key], path.Key(key)
		invalid := func(err error) {
			if err != nil {
				all = append(all, field.Invalid(path, excerpt(value), err.Error()))
			}
		}
		switch {
		case key == v1alpha1.DetachedAnnotation:
			_, err := v1alpha1.ParseDetachedAnnotation(value)
			invalid(err)
		case key == v1alpha1.StatusAnnotation:
			status, err := v1alpha1.ParseStatusAnnotation(value)
			invalid(err)
			if status != nil {
				all = append(all, validateBroughtStatus(status, path)...)
			}
		case key == v1alpha1.InspectAnnotation:
			disabled, err := v1alpha1.ParseInspectAnnotation(value)
			invalid(err)
			if mode := host.Spec.InspectionMode; disabled && mode != "" && mode != v1alpha1.InspectionModeDisabled {
				all = append(all, field.Invalid(path, value, "contradicts spec.inspectionMode "+string(mode)+"; remove one of the two"))
			}
		case key == v1alpha1.HardwareDetailsAnnotation:
			details, err := v1alpha1.ParseHardwareDetailsAnnotation(value)
			invalid(err)
			all = append(all, validatePart(path, MaxHardware, details, nil)...)
			all = append(all, validateHardware(details, path)...) // as the HardwareData that they become
			if value != "" && !host.InspectionDisabled() {
				all = append(all, field.Forbidden(path, "is allowed only with spec.inspectionMode disabled, because an inspection would replace the details"))
			}
		}
	}
	return all
}

// validateBroughtStatus checks a status that an annotation has.
func validateBroughtStatus(status *v1alpha1.BareMetalHostStatus, path *field.Path) field.ErrorList {
	all := validateStatusEnums(status, path)
	all = append(all, validateStatusImages(status, path)...)
	return append(all, validateStatusSize(status, path)...)
}

// validateRebootAnnotations checks the reboot annotations of a host, or of a claim, which
// passes them on to its host.
func validateRebootAnnotations(annotations map[string]string, path *field.Path) field.ErrorList {
	var all field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if !v1alpha1.IsRebootAnnotation(key) {
			continue
		}
		if _, err := v1alpha1.ParseRebootAnnotation(annotations[key]); err != nil {
			all = append(all, field.Invalid(path.Key(key), excerpt(annotations[key]), err.Error()))
		}
	}
	return all
}

// excerpt shortens the value of an annotation, which can be a whole status.
func excerpt(value string) string {
	const maxBytes = 100
	if len(value) <= maxBytes {
		return value
	}
	return strings.ToValidUTF8(value[:maxBytes], "") + "..."
}
