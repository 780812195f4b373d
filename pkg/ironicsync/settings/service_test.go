// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// TestNextService has what is changed while a machine runs something.
func TestNextService(t *testing.T) {
	onReboot := &metal3.HostUpdatePolicySpec{FirmwareSettings: metal3.UpdateOnReboot}
	changed := metal3.DesiredSettingsMap{"BootDelay": intstr.FromString("20"), "ProcTurboMode": intstr.FromString("Enabled")}
	applied := metal3.DesiredSettingsMap{"BootDelay": intstr.FromString("10")}
	refused := metal3.DesiredSettingsMap{"BootDelay": intstr.FromString("100")}
	service := func(phase metal3.PreparationPhase) *metal3.Servicing {
		return &metal3.Servicing{Preparation: metal3.Preparation{Phase: phase, FirmwareSettings: metal3.SettingsMap{"BootDelay": "20"}}}
	}
	for name, tt := range map[string]struct {
		policy   *metal3.HostUpdatePolicySpec
		wanted   metal3.DesiredSettingsMap
		last     *metal3.Servicing
		reported bool
		steps    int
		err      string
	}{
		"changed":                {policy: onReboot, wanted: changed, steps: 1},
		"nothing differs":        {policy: onReboot, wanted: applied},
		"not valid":              {policy: onReboot, wanted: refused},
		"no policy":              {wanted: changed},
		"empty policy":           {policy: &metal3.HostUpdatePolicySpec{}, wanted: changed},
		"policy of the default":  {policy: &metal3.HostUpdatePolicySpec{FirmwareSettings: metal3.UpdateOnPreparing}, wanted: changed},
		"policy of firmware":     {policy: &metal3.HostUpdatePolicySpec{FirmwareUpdates: metal3.UpdateOnReboot}, wanted: changed},
		"failed before":          {policy: onReboot, wanted: changed, last: service(metal3.PreparationFailed), steps: 1},
		"not taken":              {policy: onReboot, wanted: changed, last: service(metal3.PreparationSucceeded), err: `Ironic has applied the BIOS settings without an error, and the machine does not have them: BootDelay is "10", and not "20"`},
		"not taken, as reported": {policy: onReboot, wanted: changed, last: service(metal3.PreparationSucceeded), reported: true, steps: 1},
	} {
		firmware, schema := firmwareOf(tt.wanted)
		// A layout is never changed while the machine runs something.
		host := hostWith(redfish, layoutOf(mirror, nil), nil, nil)
		host.Status.Record.Servicing = tt.last
		m := Machine{Host: host, Firmware: firmware, Schema: schema, Policy: tt.policy, Reported: tt.reported}
		clean, err := NextService(m)
		got := ""
		if err != nil {
			got = err.Error()
		}
		steps := 0
		if clean != nil {
			steps = len(clean.Steps)
		}
		if steps != tt.steps || got != tt.err {
			t.Errorf("%s: %d steps, %q; want %d, %q", name, steps, got, tt.steps, tt.err)
		}
		if clean != nil && (clean.Steps[0].Interface != "bios" || clean.RAIDInterface != "" || len(clean.FirmwareSettings) != 1) {
			t.Errorf("%s: the service is %+v", name, clean)
		}
	}
}

// TestServiced: what was applied is forgotten when the machine has it, of settings that the policy
// permits to change, and the layout is not recorded as applied.
func TestServiced(t *testing.T) {
	firmware, schema := firmwareOf(nil)
	host := hostWith(redfish, layoutOf(mirror, nil), nil, nil)
	host.Status.Record.Servicing = &metal3.Servicing{Preparation: metal3.Preparation{Phase: metal3.PreparationSucceeded, FirmwareSettings: metal3.SettingsMap{"BootDelay": "20"}}}
	m := Machine{Host: host, Firmware: firmware, Schema: schema, Policy: &metal3.HostUpdatePolicySpec{}}
	if !IsServiced(m) {
		t.Error("something is recorded without permission")
	}
	m.Policy.FirmwareSettings = metal3.UpdateOnReboot
	if IsServiced(m) {
		t.Error("nothing is to be recorded")
	}
	Serviced(&host.Status, m)
	if !IsServiced(m) || host.Status.Record.Servicing.FirmwareSettings != nil || host.Status.Provisioning.RAID != nil {
		t.Errorf("recorded is %+v, %+v", host.Status.Record.Servicing, host.Status.Provisioning.RAID)
	}
}

// TestUpdatesOfIDRAC: Ironic may skip what follows a step for RAID or the BIOS, and nothing would show that an update was.
func TestUpdatesOfIDRAC(t *testing.T) {
	for address, want := range map[string]string{
		redfish: "raid.delete_configuration raid.create_configuration bios.apply_configuration firmware.update firmware.update",
		"idrac-redfish://192.0.2.1/redfish/v1/Systems/1":      "raid.delete_configuration raid.create_configuration bios.apply_configuration, firmware.update firmware.update",
		"idrac-virtualmedia://192.0.2.1/redfish/v1/Systems/1": "raid.delete_configuration raid.create_configuration bios.apply_configuration, firmware.update firmware.update",
	} {
		for _, policy := range []*metal3.HostUpdatePolicySpec{nil, {FirmwareSettings: metal3.UpdateOnReboot, FirmwareUpdates: metal3.UpdateOnReboot}} {
			m := Machine{Host: hostWith(address, layoutOf(mirror, nil), nil, nil), Components: &metal3.HostFirmwareComponents{}, Policy: policy}
			m.Components.Spec.Updates = []metal3.FirmwareUpdate{{Component: "bmc", URL: "http://images/bmc"}, {Component: "bios", URL: "http://images/bios"}}
			m.Components.Status.Components = []metal3.FirmwareComponentStatus{{Component: "bmc"}, {Component: "bios"}}
			m.Components.Status.Source = &metal3.SettingsSource{}
			m.Firmware, m.Schema = firmwareOf(metal3.DesiredSettingsMap{"BootDelay": intstr.FromString("20")})
			nextOne := NextClean
			if policy != nil { // the layout is never changed while the machine runs something
				nextOne, want = NextService, strings.Replace(want, "raid.delete_configuration raid.create_configuration ", "", 1)
			}
			var cleans []string
			for len(cleans) < 2 {
				clean, err := nextOne(m)
				if err != nil {
					t.Fatal(err)
				}
				cleans = append(cleans, strings.Join(Request(clean, recordOf(manageable()), metav1.Time{}).Steps, " "))
				if len(clean.FirmwareUpdates) == 2 {
					break
				}
				m.Host.Status.Provisioning.RAID, m.Firmware.Spec.Settings = clean.RAID, nil
			}
			if got := strings.Join(cleans, ", "); got != want {
				t.Errorf("%s: %s; want %s", address, got, want)
			}
		}
	}
}

// TestUpdateOfMachineThatIsNotPolled: Ironic 29.0.5 would never end such a service or clean.
func TestUpdateOfMachineThatIsNotPolled(t *testing.T) {
	m := Machine{Host: hostWith(redfish, nil, nil, nil), Components: &metal3.HostFirmwareComponents{}, Policy: &metal3.HostUpdatePolicySpec{FirmwareUpdates: metal3.UpdateOnReboot}}
	m.Components.Spec.Updates = []metal3.FirmwareUpdate{{Component: "bmc", URL: "http://images/bmc"}}
	m.Components.Status.Components = []metal3.FirmwareComponentStatus{{Component: "bmc"}}
	m.Components.Status.Source = &metal3.SettingsSource{}
	if service, err := NextService(m); err != nil || service == nil || len(service.FirmwareUpdates) != 1 {
		t.Errorf("the service is %+v, %v", service, err)
	}
	m.NotPolled = true
	if service, err := NextService(m); err == nil || service != nil {
		t.Errorf("the service is %+v, %v", service, err)
	}
	m.Policy = nil
	if clean, err := NextClean(m); err == nil || clean != nil {
		t.Errorf("the clean is %+v, %v", clean, err)
	}
	m.NotPolled = false
	if clean, err := NextClean(m); err != nil || clean == nil {
		t.Errorf("the clean is %+v, %v", clean, err)
	}
}
