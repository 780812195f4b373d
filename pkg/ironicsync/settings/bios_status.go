// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// The conditions of a HostFirmwareSettings, with the reasons and the message of the Bare Metal
// Operator.
const (
	ChangeDetectedCondition = "ChangeDetected"
	ValidCondition          = "Valid"

	successReason            = "Success"
	configurationErrorReason = "ConfigurationError"
)

// isPassword reports whether a setting is a password by its name. Its value is not shown.
func isPassword(name string) bool { return strings.Contains(name, "Password") }

// SchemaOf returns the FirmwareSchema of a machine with these settings, without its owners. Its
// name is a hash of all settings and of the values that they accept, computed as in the Bare Metal
// Operator, so that objects that were made there fit.
func SchemaOf(host *metal3.BareMetalHost, settings []ironic.BIOSSetting) *metal3.FirmwareSchema {
	schema := &metal3.FirmwareSchema{Spec: metal3.FirmwareSchemaSpec{Schema: map[string]metal3.SettingSchema{}}}
	var texts []string
	for _, s := range settings {
		texts = append(texts, s.Name, string(s.AttributeType))
		var allowed []string
		for _, value := range s.AllowableValues {
			allowed = append(allowed, string(value))
		}
		texts = append(texts, allowed...)
		for _, number := range []*int{s.LowerBound, s.UpperBound, s.MinLength, s.MaxLength} {
			if number != nil {
				texts = append(texts, strconv.Itoa(*number))
			}
		}
		if s.ReadOnly != nil {
			texts = append(texts, strconv.FormatBool(*s.ReadOnly))
		}
		if isPassword(s.Name) || metal3.SettingType(s.AttributeType) == metal3.SettingPassword {
			continue
		}
		schema.Spec.Schema[s.Name] = metal3.SettingSchema{
			AttributeType: typeOf(s), AllowableValues: allowed,
			LowerBound: s.LowerBound, UpperBound: s.UpperBound, MinLength: s.MinLength, MaxLength: s.MaxLength,
			ReadOnly: s.ReadOnly, Unique: s.Unique,
		}
	}
	slices.Sort(texts)
	hash := sha256.Sum256(fmt.Appendf(nil, "%v", texts))
	schema.Namespace, schema.Name = host.Namespace, fmt.Sprintf("schema-%.8x", hash[:4])
	if hardware := host.Status.HardwareDetails; hardware != nil {
		schema.Spec.HardwareVendor, schema.Spec.HardwareModel = hardware.SystemVendor.Manufacturer, hardware.SystemVendor.ProductName
	}
	return schema
}

// NameByContents returns the name of a schema where another one, with other contents, has the name that SchemaOf gives: the operator's rule
// sorts names and values together, so that two machines of which different settings are read-only have one name.
func NameByContents(schema *metal3.FirmwareSchema) string {
	contents, err := json.Marshal(schema.Spec.Schema)
	if err != nil {
		panic(err) // strings, numbers and booleans
	}
	hash := sha256.Sum256(contents)
	return fmt.Sprintf("schema-%x", hash[:8])
}

// typeOf returns the type of a setting, or none if it is a word that Redfish does not have: Ironic passes on whatever the registry
// of a BMC says. Then the BMC judges the values.
func typeOf(s ironic.BIOSSetting) metal3.SettingType {
	switch kind := metal3.SettingType(s.AttributeType); kind {
	case metal3.SettingEnumeration, metal3.SettingString, metal3.SettingInteger, metal3.SettingBoolean:
		return kind
	}
	return ""
}

// SourceOf returns the state of the host's node for which Ironic's lists of BIOS settings and firmware
// are valid: Ironic reads both from the BMC when it verifies, cleans or services a node, so the list
// does not change while the node remains in its state. It returns nil if the node is not at rest.
func SourceOf(host *metal3.BareMetalHost) *metal3.SettingsSource {
	node := host.Status.Ironic
	if node == nil || node.StateChangedAt == nil {
		return nil
	}
	return &metal3.SettingsSource{NodeUUID: node.NodeUUID, StateChangedAt: *node.StateChangedAt}
}

// IsOutdated reports whether Ironic's list has to be read again that was last read in the state read
// of the host's node; nil if it was never read.
func IsOutdated(host *metal3.BareMetalHost, read *metal3.SettingsSource) bool {
	source := SourceOf(host)
	return source != nil && (read == nil || read.NodeUUID != source.NodeUUID || !read.StateChangedAt.Equal(&source.StateChangedAt))
}

// RecordBIOS records in the status of firmware what Ironic's list says.
func RecordBIOS(firmware *metal3.HostFirmwareSettings, settings []ironic.BIOSSetting, schema *metal3.FirmwareSchema, source *metal3.SettingsSource) {
	status := &firmware.Status
	status.Settings = metal3.SettingsMap{}
	for _, s := range settings {
		switch kind := metal3.SettingType(s.AttributeType); {
		case isPassword(s.Name), kind == metal3.SettingPassword:
		case kind == metal3.SettingBoolean:
			status.Settings[s.Name] = booleanText(string(s.Value))
		default:
			status.Settings[s.Name] = string(s.Value)
		}
	}
	status.FirmwareSchema = &metal3.SchemaReference{Namespace: schema.Namespace, Name: schema.Name}
	status.Source = source
	meta.RemoveStatusCondition(&status.Conditions, UpToDateCondition)
}

// UpdateBIOSConditions sets the conditions of firmware, for the spec and the settings that it has now. It
// reports whether the object has changed in comparison with before. Without a schema nothing is known of
// the machine yet, and there are no conditions.
func UpdateBIOSConditions(firmware, before *metal3.HostFirmwareSettings, schema *metal3.FirmwareSchema, now metav1.Time) (changed bool) {
	if schema != nil {
		valid := metav1.Condition{Type: ValidCondition, Status: metav1.ConditionTrue, Reason: successReason}
		detected := metav1.Condition{Type: ChangeDetectedCondition, Status: metav1.ConditionFalse, Reason: successReason}
		judged := judge(firmware, schema)
		if len(judged.pending)+len(judged.waiting)+len(judged.faults) > 0 {
			detected.Status = metav1.ConditionTrue
		}
		switch {
		case len(judged.faults) > 0:
			valid.Status, valid.Reason = metav1.ConditionFalse, configurationErrorReason
			valid.Message = cut("Invalid BIOS setting: " + strings.Join(judged.faults, "; "))
		case len(judged.waiting) > 0:
			detected.Message = cut("Read-only now, and applied if that has changed when the other settings are applied: " + strings.Join(judged.waiting, ", "))
		}
		setConditions(&firmware.Status.Conditions, firmware.Generation, now, detected, valid)
	}
	if equality.Semantic.DeepEqual(firmware.Status, before.Status) {
		return false
	}
	firmware.Status.LastUpdated = &now
	return true
}

// maxMessage is how much of the faults of a spec is told, far less than a condition may have.
const maxMessage = 4096

func cut(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage], "") + "..."
}

// judgement is what becomes of the settings in a spec that the machine does not have.
type judgement struct {
	// pending are those that can be applied now.
	pending metal3.DesiredSettingsMap
	// waiting are read-only. They may depend on one that is pending: BIOS settings can be read-only until another one has changed.
	waiting []string
	// faults say what is wrong with the others, in the words of the Bare Metal Operator. If there are any, nothing is applied.
	faults []string
}

func judge(firmware *metal3.HostFirmwareSettings, schema *metal3.FirmwareSchema) judgement {
	judged := judgement{pending: metal3.DesiredSettingsMap{}}
	for _, name := range slices.Sorted(maps.Keys(firmware.Spec.Settings)) {
		wanted := firmware.Spec.Settings[name]
		if isApplied(name, wanted, firmware, schema) {
			continue
		}
		readOnly := schema.Spec.Schema[name].ReadOnly
		switch fault := faultOf(name, wanted, firmware, schema); {
		case fault != "":
			judged.faults = append(judged.faults, fault)
		case readOnly != nil && *readOnly:
			judged.waiting = append(judged.waiting, name)
		default:
			judged.pending[name] = wanted
		}
	}
	if len(judged.pending) == 0 {
		for _, name := range judged.waiting {
			judged.faults = append(judged.faults, fmt.Sprintf("Setting %s is invalid, it is ReadOnly", name))
		}
		judged.waiting = nil
	}
	return judged
}

// faultOf returns what is wrong with a value, if the setting can be changed.
func faultOf(name string, value intstr.IntOrString, firmware *metal3.HostFirmwareSettings, schema *metal3.FirmwareSchema) string {
	if isPassword(name) {
		return "cannot set Password field"
	}
	if _, has := firmware.Status.Settings[name]; !has {
		return fmt.Sprintf("setting %s is not in the Status field", name)
	}
	invalid := func(format string, args ...any) string {
		return fmt.Sprintf("Setting %s is invalid, ", name) + fmt.Sprintf(format, args...)
	}
	accepts, has := schema.Spec.Schema[name]
	v := text(value)
	if !has {
		return invalid("it is not in the associated schema")
	}
	switch accepts.AttributeType {
	case "": // nothing is known of it
	case metal3.SettingEnumeration:
		// Without values, the BMC judges: Ironic leaves out those of which the registry of the BMC has no name.
		if len(accepts.AllowableValues) > 0 && !slices.Contains(accepts.AllowableValues, v) {
			return invalid("unknown enumeration value - %s", v)
		}
	case metal3.SettingInteger:
		number, err := strconv.Atoi(strings.TrimSpace(v))
		switch {
		case err != nil:
			return invalid("String %s entered while integer expected", v)
		case accepts.LowerBound != nil && number < *accepts.LowerBound:
			return invalid("integer %d is below minimum value %d", number, *accepts.LowerBound)
		case accepts.UpperBound != nil && number > *accepts.UpperBound:
			return invalid("integer %d is above maximum value %d", number, *accepts.UpperBound)
		}
	case metal3.SettingString:
		switch length := utf8.RuneCountInString(v); {
		case accepts.MinLength != nil && length < *accepts.MinLength:
			return invalid("string %s length is below minimum length %d", v, *accepts.MinLength)
		case accepts.MaxLength != nil && length > *accepts.MaxLength:
			return invalid("string %s length is above maximum length %d", v, *accepts.MaxLength)
		}
	case metal3.SettingBoolean:
		if !strings.EqualFold(v, "true") && !strings.EqualFold(v, "false") {
			return invalid("%s is not a boolean", v)
		}
	case metal3.SettingPassword: // in a schema of the Bare Metal Operator
		return invalid("passwords are immutable")
	}
	return ""
}
