// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// TestDependentBIOS follows settings that are read-only until another one has changed: they wait, which is said, and have a clean of
// their own.
func TestDependentBIOS(t *testing.T) {
	list := func(fanControl, fanSpeed string, isReadOnly bool) []ironic.BIOSSetting {
		return []ironic.BIOSSetting{
			{Name: "FanControl", Value: ironic.Text(fanControl), AttributeType: "Enumeration", AllowableValues: []ironic.Text{"Auto", "Manual"}},
			{Name: "FanSpeed", Value: ironic.Text(fanSpeed), AttributeType: "Integer", ReadOnly: &isReadOnly},
		}
	}
	m := Machine{Host: hostWith(redfish, nil, nil, nil), Firmware: &metal3.HostFirmwareSettings{Spec: metal3.HostFirmwareSettingsSpec{
		Settings: metal3.DesiredSettingsMap{"FanControl": intstr.FromString("Manual"), "FanSpeed": intstr.FromInt32(80)},
	}}}
	for i, step := range []struct {
		list                       []ironic.BIOSSetting
		applied, err, waits, fault string
	}{
		{list: list("Auto", "50", true), applied: "FanControl", waits: "applied: FanSpeed"},
		{list: list("Manual", "50", false), applied: "FanSpeed"},
		// The machine has put the first one back for the second one: that is no reason to reboot it for ever.
		{list: list("Auto", "80", true), err: `FanControl is "Auto", and not "Manual"`},
		{list: list("Manual", "80", false)},
		{list: list("Manual", "50", true), fault: "FanSpeed is invalid, it is ReadOnly"},
	} {
		m.Schema = SchemaOf(m.Host, step.list)
		RecordBIOS(m.Firmware, step.list, m.Schema, nil)
		UpdateBIOSConditions(m.Firmware, m.Firmware.DeepCopy(), m.Schema, metav1.Now())
		detected, valid := meta.FindStatusCondition(m.Firmware.Status.Conditions, ChangeDetectedCondition), meta.FindStatusCondition(m.Firmware.Status.Conditions, ValidCondition)
		if !strings.HasSuffix(detected.Message, step.waits) || (step.waits == "") != (detected.Message == "") || !strings.HasSuffix(valid.Message, step.fault) || (step.fault == "") != (valid.Status == metav1.ConditionTrue) {
			t.Errorf("%d: the conditions are %+v", i, m.Firmware.Status.Conditions)
		}
		clean, err := NextClean(m)
		if (err == nil) != (step.err == "") || err != nil && !strings.HasSuffix(err.Error(), step.err) {
			t.Errorf("%d: %v, want %q", i, err, step.err)
		}
		var applied []string
		if clean != nil {
			for _, setting := range clean.Steps[0].Args["settings"].([]map[string]any) {
				applied = append(applied, setting["name"].(string))
			}
			m.Host.Status.Record.Preparation = Request(clean, recordOf(manageable()), metav1.Time{})
			Observe(&m.Host.Status, nil, cleaning(), metav1.Time{})
			Observe(&m.Host.Status, nil, manageable(), metav1.Time{})
		}
		if got := strings.Join(applied, " "); got != step.applied {
			t.Errorf("%d: %q is applied, want %q", i, got, step.applied)
		}
	}
}
