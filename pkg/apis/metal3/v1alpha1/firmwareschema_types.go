// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// FirmwareSchema lists the BIOS settings of a model of machine and the values that they
// accept. Hosts of the same model share it.
type FirmwareSchema struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata. The HostFirmwareSettings of each host that has these settings
	// is an owner of the FirmwareSchema.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The settings.
	// +optional
	Spec FirmwareSchemaSpec `json:"spec,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// FirmwareSchemaList is a list of firmware schemas.
type FirmwareSchemaList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// The firmware schemas.
	Items []FirmwareSchema `json:"items"`
}

// FirmwareSchemaSpec has the BIOS settings of a model of machine.
type FirmwareSchemaSpec struct {
	// The vendor of the machine.
	// +optional
	HardwareVendor string `json:"hardwareVendor,omitempty"`

	// The model of the machine.
	// +optional
	HardwareModel string `json:"hardwareModel,omitempty"`

	// The settings, by name.
	Schema map[string]SettingSchema `json:"schema"`
}

// SettingSchema describes the values that a BIOS setting accepts. All fields are as reported
// by the BMC, and may be missing.
type SettingSchema struct {
	// The type of the setting: Enumeration, String, Integer, Boolean or Password.
	// +optional
	AttributeType SettingType `json:"attribute_type,omitempty"`

	// The values that an Enumeration accepts.
	// +optional
	// +listType=atomic
	AllowableValues []string `json:"allowable_values,omitempty"`

	// The lowest value of an Integer.
	// +optional
	LowerBound *int `json:"lower_bound,omitempty"`

	// The highest value of an Integer.
	// +optional
	UpperBound *int `json:"upper_bound,omitempty"`

	// The minimum length of a String.
	// +optional
	MinLength *int `json:"min_length,omitempty"`

	// The maximum length of a String.
	// +optional
	MaxLength *int `json:"max_length,omitempty"`

	// Whether the setting cannot be changed.
	// +optional
	ReadOnly *bool `json:"read_only,omitempty"`

	// Whether the value is specific to one machine, for example a serial number.
	// +optional
	Unique *bool `json:"unique,omitempty"`
}

// SettingType is the type of a BIOS setting.
// +enum
type SettingType string

// The types of BIOS settings.
const (
	// SettingEnumeration is one of a list of values.
	SettingEnumeration SettingType = "Enumeration"
	// SettingString is text.
	SettingString SettingType = "String"
	// SettingInteger is an integer.
	SettingInteger SettingType = "Integer"
	// SettingBoolean is true or false.
	SettingBoolean SettingType = "Boolean"
	// SettingPassword is a password. It cannot be set.
	SettingPassword SettingType = "Password"
)
