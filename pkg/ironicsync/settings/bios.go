// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// bios are the BIOS settings in the spec of a HostFirmwareSettings. What the machine has is in the
// status of that object.
type bios struct{}

func (bios) differs(m Machine) bool { return len(pendingBIOS(m)) > 0 }

// addTo adds the step that sets what differs. Ironic has succeeded with such a step although the
// machine has another value afterwards if the BIOS does not take the value: that is an error, and
// not a reason to reboot the machine again at once.
func (bios) addTo(clean *Clean, m Machine) error {
	pending := pendingBIOS(m)
	if len(pending) == 0 {
		return nil
	}
	if err := checkTaken(pending, m); err != nil {
		return err
	}
	args := []map[string]any{}
	clean.FirmwareSettings = justApplied(m)
	for _, name := range slices.Sorted(maps.Keys(pending)) {
		args = append(args, map[string]any{"name": name, "value": valueFor(m.Schema.Spec.Schema[name].AttributeType, pending[name])})
		clean.FirmwareSettings[name] = text(pending[name])
	}
	clean.Steps = append(clean.Steps, ironic.StepRequest{Interface: "bios", Step: "apply_configuration", Args: map[string]any{"settings": args}})
	return nil
}

// justApplied returns the wanted settings that the last clean has applied, and those before it: settings that were read-only until
// others had changed have a clean of their own. If each of two of them undid the other, the machine would be rebooted for ever.
func justApplied(m Machine) metal3.SettingsMap {
	applied := metal3.SettingsMap{}
	last := m.last(&m.Host.Status)
	if last == nil || last.Phase != metal3.PreparationSucceeded {
		return applied
	}
	for name, value := range last.FirmwareSettings {
		if wanted, is := m.Firmware.Spec.Settings[name]; is && text(wanted) == value {
			applied[name] = value
		}
	}
	return applied
}

// checkTaken returns an error if all that is pending was just applied. It is not an error if this
// has been reported before, so that the settings are applied again after the back-off.
func checkTaken(pending metal3.DesiredSettingsMap, m Machine) error {
	last := m.last(&m.Host.Status)
	if m.Reported || last == nil || last.Phase != metal3.PreparationSucceeded {
		return nil
	}
	var differences []string
	for _, name := range slices.Sorted(maps.Keys(pending)) {
		value := text(pending[name])
		if applied, was := last.FirmwareSettings[name]; !was || applied != value {
			return nil // it has changed since
		}
		differences = append(differences, fmt.Sprintf("%s is %q, and not %q", name, m.Firmware.Status.Settings[name], value))
	}
	return errors.New("Ironic has applied the BIOS settings without an error, and the machine does not have them: " + strings.Join(differences, "; "))
}

// pendingBIOS returns the settings that are to be applied next. It returns none if one of them is not
// valid, which the condition Valid reports, or if nothing is known of the machine's settings yet.
func pendingBIOS(m Machine) metal3.DesiredSettingsMap {
	if m.Firmware == nil || m.Schema == nil || len(m.Firmware.Status.Settings) == 0 {
		return nil
	}
	judged := judge(m.Firmware, m.Schema)
	if len(judged.faults) > 0 {
		return nil
	}
	return judged.pending
}

// isApplied compares values by their type: BMCs and Ironic spell them otherwise than users do.
func isApplied(name string, wanted intstr.IntOrString, firmware *metal3.HostFirmwareSettings, schema *metal3.FirmwareSchema) bool {
	has, known := firmware.Status.Settings[name]
	if !known {
		return false
	}
	switch schema.Spec.Schema[name].AttributeType {
	case metal3.SettingBoolean:
		return booleanText(has) == strings.ToLower(text(wanted))
	case metal3.SettingInteger:
		a, errA := strconv.Atoi(strings.TrimSpace(has))
		b, errB := strconv.Atoi(strings.TrimSpace(text(wanted)))
		if errA == nil && errB == nil {
			return a == b
		}
	}
	return has == text(wanted)
}

// booleanText returns true or false for the spellings of a Boolean: Ironic stores True and False,
// or, up to 29.0 with SQLite, 1 and 0. Other texts remain as they are.
func booleanText(value string) string {
	switch strings.ToLower(value) {
	case "true", "1":
		return "true"
	case "false", "0":
		return "false"
	}
	return value
}

func text(value intstr.IntOrString) string { return value.String() }

// valueFor returns a value as Ironic has to get it. Ironic 29.0 sends it to the BMC as it is, and
// afterwards compares it, with its type, with what the BMC reports.
func valueFor(kind metal3.SettingType, value intstr.IntOrString) any {
	switch kind {
	case metal3.SettingBoolean:
		return strings.EqualFold(text(value), "true")
	case metal3.SettingInteger:
		if number, err := strconv.Atoi(strings.TrimSpace(text(value))); err == nil {
			return number
		}
	case "":
		if value.Type == intstr.Int {
			return value.IntValue()
		}
	}
	return text(value)
}

// arrived forgets what was applied: if the machine has other values later, somebody has changed them.
func (bios) arrived(status *metal3.BareMetalHostStatus, m Machine) {
	if last := m.last(status); last != nil {
		last.FirmwareSettings = nil
	}
}

func (bios) allowedBy(policy metal3.HostUpdatePolicySpec) bool {
	return policy.FirmwareSettings == metal3.UpdateOnReboot
}
