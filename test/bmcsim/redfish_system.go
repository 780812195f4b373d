// SPDX-License-Identifier: Apache-2.0

package bmcsim

import (
	"fmt"
	"net/http"
	"slices"
)

var (
	bootTargets  = []string{"None", "Pxe", "Hdd", "Cd", "UefiHttp", "BiosSetup"}
	bootEnablers = []string{overrideDisabled, overrideOnce, "Continuous"}
	bootModes    = []string{"UEFI", "Legacy"}
)

// system returns the ComputerSystem.
func (m *Machine) system() object {
	m.mu.Lock()
	defer m.mu.Unlock()
	path, h := m.SystemID(), m.hardware
	progress := map[Running]string{RunningNothing: "None", RunningRamdisk: "OSRunning", RunningDisk: "OSRunning", RunningLiveISO: "OSRunning"}
	return resource(path, h.product, object{
		"UUID": h.uuid, "SystemType": "Physical", "Manufacturer": h.manufacturer, "Model": h.product, "SKU": "",
		"SerialNumber": h.serial, "PartNumber": "", "BiosVersion": m.firmware[firmwareBIOS], "HostName": m.name,
		"PowerState": m.power, "IndicatorLED": m.leds[path],
		"Status": enabled, "BootProgress": object{"LastState": progress[m.running]},
		"MemorySummary": object{"TotalSystemMemoryGiB": h.memoryMiB / 1024, "Status": object{"HealthRollup": "OK"}},
		"Boot": object{
			"BootSourceOverrideEnabled": m.boot.enabled, "BootSourceOverrideTarget": m.boot.target,
			"BootSourceOverrideMode": m.boot.mode, "HttpBootUri": m.boot.httpURI,
			"BootSourceOverrideTarget@Redfish.AllowableValues": bootTargets,
			"BootSourceOverrideMode@Redfish.AllowableValues":   bootModes,
		},
		"Actions": object{"#ComputerSystem.Reset": object{
			"target": path + "/Actions/ComputerSystem.Reset", "ResetType@Redfish.AllowableValues": resetTypes,
		}},
		"Bios": link(path + "/Bios"), "SecureBoot": link(path + "/SecureBoot"),
		"Processors": link(path + "/Processors"), "Memory": link(path + "/Memory"), "Storage": link(path + "/Storage"),
		"SimpleStorage": link(path + "/SimpleStorage"), "EthernetInterfaces": link(path + "/EthernetInterfaces"),
		"Links": object{"ManagedBy": links(managerPath(m)), "Chassis": links(chassisPath(m))},
	})
}

func (m *Machine) postReset(w http.ResponseWriter, r *http.Request) {
	var request struct{ ResetType string }
	if !body(w, r, &request) {
		return
	}
	if !slices.Contains(resetTypes, request.ResetType) {
		fail(w, http.StatusBadRequest, "Base.1.0.ActionParameterValueNotInList", fmt.Sprintf("ResetType %q is not one of %v.", request.ResetType, resetTypes))
		return
	}
	m.reset(request.ResetType)
	w.WriteHeader(http.StatusNoContent)
}

// patchSystem changes the boot override. Fields that are not sent are not changed.
func (m *Machine) patchSystem(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Boot struct {
			BootSourceOverrideEnabled, BootSourceOverrideTarget, BootSourceOverrideMode, HttpBootUri *string
		}
		IndicatorLED *string
	}
	if !body(w, r, &request) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	wanted := m.boot
	for _, f := range []struct {
		sent    *string
		into    *string
		allowed []string
	}{
		{request.Boot.BootSourceOverrideEnabled, &wanted.enabled, bootEnablers},
		{request.Boot.BootSourceOverrideTarget, &wanted.target, bootTargets},
		{request.Boot.BootSourceOverrideMode, &wanted.mode, bootModes},
		{request.Boot.HttpBootUri, &wanted.httpURI, nil},
	} {
		if f.sent == nil {
			continue
		}
		if f.allowed != nil && !slices.Contains(f.allowed, *f.sent) {
			fail(w, http.StatusBadRequest, "Base.1.0.PropertyValueNotInList", fmt.Sprintf("%q is not one of %v.", *f.sent, f.allowed))
			return
		}
		*f.into = *f.sent
	}
	if led := request.IndicatorLED; led != nil && !m.setLED(w, m.SystemID(), *led) {
		return
	}
	m.boot = wanted
	w.WriteHeader(http.StatusNoContent)
}

var enabled = object{"State": "Enabled", "Health": "OK"}
