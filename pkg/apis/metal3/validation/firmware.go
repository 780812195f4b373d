// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/weburl"
)

// ValidateFirmwareSchema validates a list of BIOS settings; old is nil for a new object.
func ValidateFirmwareSchema(schema, old *v1alpha1.FirmwareSchema) field.ErrorList {
	return ratchet(schema, old, func(schema *v1alpha1.FirmwareSchema) field.ErrorList {
		path := field.NewPath("spec", "schema")
		if schema.Spec.Schema == nil {
			return field.ErrorList{field.Required(path, "must have the settings by name; use {} if there are none")}
		}
		var all field.ErrorList
		for _, name := range slices.Sorted(maps.Keys(schema.Spec.Schema)) {
			all = append(all, enum(path.Key(name).Child("attribute_type"), schema.Spec.Schema[name].AttributeType,
				v1alpha1.SettingEnumeration, v1alpha1.SettingString, v1alpha1.SettingInteger, v1alpha1.SettingBoolean, v1alpha1.SettingPassword)...)
		}
		return all
	})
}

// ValidateHostFirmwareSettings validates BIOS settings; old is nil for a new object. Whether
// the machine has these settings is reported by the condition Valid.
func ValidateHostFirmwareSettings(settings, old *v1alpha1.HostFirmwareSettings) field.ErrorList {
	return ratchet(settings, old, func(settings *v1alpha1.HostFirmwareSettings) field.ErrorList {
		var all field.ErrorList
		if settings.Spec.Settings == nil {
			all = append(all, field.Required(field.NewPath("spec", "settings"), "must have the settings by name; use {} if there are none"))
		}
		for _, name := range slices.Sorted(maps.Keys(settings.Spec.Settings)) {
			path := field.NewPath("spec", "settings").Key(name)
			all = append(all, required(path, name, "must have a name")...)
			all = append(all, trimmed(path, name)...)
		}
		status, path := &settings.Status, field.NewPath("status")
		// Until the settings of the machine have been read, the whole status is missing.
		if status.Settings == nil && (status.FirmwareSchema != nil || status.LastUpdated != nil || len(status.Conditions) > 0) {
			all = append(all, field.Required(path.Child("settings"), "must have the settings by name; use {} if there are none"))
		}
		if schema := status.FirmwareSchema; schema != nil {
			all = append(all, required(path.Child("schema", "namespace"), schema.Namespace, "must be the namespace of a FirmwareSchema")...)
			all = append(all, required(path.Child("schema", "name"), schema.Name, "must name a FirmwareSchema")...)
		}
		return append(all, validateConditions(status.Conditions)...)
	})
}

// ValidateHostFirmwareComponents validates firmware updates; old is nil for a new object.
// Whether the machine has these components is reported by the condition Valid.
func ValidateHostFirmwareComponents(components, old *v1alpha1.HostFirmwareComponents) field.ErrorList {
	return ratchet(components, old, func(components *v1alpha1.HostFirmwareComponents) field.ErrorList {
		var all field.ErrorList
		updates := field.NewPath("spec", "updates")
		if components.Spec.Updates == nil {
			all = append(all, field.Required(updates, "must be a list of updates; use [] if there are none"))
		}
		for i, update := range components.Spec.Updates {
			all = append(all, required(updates.Index(i).Child("component"), update.Component, componentAccepted)...)
			all = append(all, validateURL(updates.Index(i).Child("url"), update.URL, weburl.Web)...)
		}
		for i, component := range components.Status.Components {
			all = append(all, required(field.NewPath("status", "components").Index(i).Child("component"), component.Component, componentAccepted)...)
		}
		return append(all, validateConditions(components.Status.Conditions)...)
	})
}

const componentAccepted = "must be bios, bmc, or " + v1alpha1.NICComponentPrefix + " followed by the name of a network interface"

// ValidateHostUpdatePolicy validates a policy about when firmware may be changed; old is
// nil for a new object.
func ValidateHostUpdatePolicy(policy, old *v1alpha1.HostUpdatePolicy) field.ErrorList {
	return ratchet(policy, old, func(policy *v1alpha1.HostUpdatePolicy) field.ErrorList {
		path := field.NewPath("spec")
		all := enum(path.Child("firmwareSettings"), policy.Spec.FirmwareSettings, v1alpha1.UpdateOnPreparing, v1alpha1.UpdateOnReboot)
		return append(all, enum(path.Child("firmwareUpdates"), policy.Spec.FirmwareUpdates, v1alpha1.UpdateOnPreparing, v1alpha1.UpdateOnReboot)...)
	})
}
